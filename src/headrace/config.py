"""What does the environment say? The only module that reads it; everybody else is given the frozen answer.

A launcher (torchrun, mpiexec, srun) tells its processes who they are through environment variables. Which ones is
written down here once. A value that is there but makes no sense is an error; one that is not there is never guessed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import InputError


@dataclass(frozen=True)
class Launcher:
    """Who this process is among those started together. `local_*` are None where the launcher does not say."""

    name: str = "none"
    rank: int = 0
    size: int = 1
    local_rank: int | None = 0
    local_size: int | None = 1

    @property
    def ranks_on_node(self) -> int:
        """Processes that share this node's memory; all of them, where the launcher does not say."""
        return self.size if self.local_size is None else self.local_size


@dataclass(frozen=True)
class Config:
    """What the environment says: the launcher, and the memory that `memory=None` stands for (HEADRACE_MEMORY).

    `probe` says whether storage that nobody knows may be measured (HEADRACE_PROBE). `cache` is the folder where that is
    remembered (HEADRACE_CACHE, or headrace in the user's own cache folder); None where nothing says.
    """

    launcher: Launcher = Launcher()
    memory: str | None = None
    probe: bool = True
    cache: str | None = None


@dataclass(frozen=True)
class _Variables:
    """The names under which one launcher gives its four numbers."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str


# The innermost launcher comes first: torchrun may be started by srun, and mpiexec inside a Slurm job.
_LAUNCHERS = (
    _Variables("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    _Variables(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Variables("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # A batch script itself has SLURM_PROCID and SLURM_NTASKS too; only what srun starts has the tasks of its step.
    _Variables("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)


def load(environ: Mapping[str, str] | None = None) -> Config:
    """Read the environment once, into a frozen value."""
    values = os.environ if environ is None else environ
    return Config(
        launcher=_launcher(values),
        memory=values.get("HEADRACE_MEMORY") or None,
        probe=_switch(values, "HEADRACE_PROBE", default=True),
        cache=_cache(values),
    )


_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _switch(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name, "").strip().lower()
    if text and text not in _SWITCH:
        raise InputError(f"environment: {name}={values[name]!r}: expected 1 or 0; unset it or correct it")
    return _SWITCH[text] if text else default


def _cache(values: Mapping[str, str]) -> str | None:
    if values.get("HEADRACE_CACHE"):
        return values["HEADRACE_CACHE"]
    # A relative folder is no folder of the user's: the specification of these variables says to ignore it.
    for folder in (values.get("XDG_CACHE_HOME", ""), os.path.join(values.get("HOME", ""), ".cache")):
        if os.path.isabs(folder):
            return os.path.join(folder, "headrace")
    return None


def _launcher(values: Mapping[str, str]) -> Launcher:
    for names in _LAUNCHERS:
        if names.rank not in values or names.size not in values:
            continue
        rank, size = _number(values, names.rank), _number(values, names.size)
        if not 0 <= rank < size:
            raise InputError(
                f"environment: {names.rank}={rank} and {names.size}={size} do not fit ({names.name} counts ranks from "
                "0 to size - 1); unset both if nothing has started this process"
            )
        local_rank = _number(values, names.local_rank) if names.local_rank in values else None
        return Launcher(names.name, rank, size, local_rank, _local_size(values, names))
    return Launcher()


def _local_size(values: Mapping[str, str], names: _Variables) -> int | None:
    if names.local_size not in values:
        return None
    if names.name != "Slurm":
        return _number(values, names.local_size)
    # Slurm writes the tasks of every node as "2(x3),1": three nodes of two tasks, one of one.
    text = values[names.local_size]
    node = _number(values, "SLURM_NODEID") if "SLURM_NODEID" in values else 0
    for item in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", item)
        if match is None:
            raise InputError(f"environment: {names.local_size}={text!r} is not of the form '2(x3),1'")
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    raise InputError(f"environment: {names.local_size}={text!r} has no entry for SLURM_NODEID={values['SLURM_NODEID']}")


def _number(values: Mapping[str, str], name: str) -> int:
    try:
        return int(values[name])
    except ValueError:
        raise InputError(
            f"environment: {name}={values[name]!r} is not a whole number; unset it or correct it"
        ) from None
