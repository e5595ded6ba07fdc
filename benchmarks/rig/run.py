"""How is a command run under conditions?

Find the data, see that every condition bites, drop the data's pages, run, count, clean up.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.rig import shim as shims
from benchmarks.rig.bite import check_conditions, check_held, reader_argv, run_reader
from benchmarks.rig.cgroups import Group, groups_for
from benchmarks.rig.conditions import Conditions, Refused, Result
from benchmarks.rig.data import Data, drop_files, find_data, make_cold
from benchmarks.rig.device import backing_file, device_of_all
from benchmarks.rig.process import Outcome, ending_on_signals, enter_groups, run_process

Path = str | os.PathLike[str]


def run_under(
    conditions: Conditions,
    argv: Sequence[str],
    *,
    data: Path | Iterable[Path],
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    shim: bool = False,
    **options: Any,
) -> Result:
    """Run `argv` under `conditions`, on the dataset that `data` names, and say what it did.

    Raises `Refused` where a condition cannot be made, does not bite or did not hold. After `timeout` seconds the
    command is killed and the result says so. `options` go to `subprocess.Popen` (cwd, stdin, stdout, stderr …); what
    is not redirected is captured. `shim` takes the latency model instead of the kernel's limits.
    """
    if not argv:
        raise ValueError("argv is empty: name the command to run")
    paths = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    with ending_on_signals():
        found = find_data(paths)
        if conditions.starts_cold and not found.nbytes:
            raise Refused(f"the data {[os.fspath(path) for path in paths]} hold no bytes, so no condition can bite")
        take = run_shimmed if shim else run_limited
        return take(conditions, list(argv), found, timeout, env, options)


def run_limited(
    conditions: Conditions,
    argv: list[str],
    data: Data,
    timeout: float | None,
    env: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> Result:
    """With the kernel's own limits."""
    device = find_device(conditions, data)
    memory, bandwidth = conditions.memory_bytes(data.nbytes), conditions.bandwidth_bytes
    limits = {"memory": {"memory": memory}, "iops": {"iops": conditions.iops}, "bandwidth": {"bandwidth": bandwidth}}

    def read(limit: str, instructions: str) -> str:
        with groups_for("check", device=device, **limits[limit]) as groups:
            return run_reader(enter_groups(groups.values(), reader_argv()), instructions)

    saw = check_conditions(read, data, conditions)
    with groups_for("run", device=device, memory=memory, iops=conditions.iops, bandwidth=bandwidth) as groups:
        if conditions.starts_cold:
            behind = backing_file(device) if device else None
            if behind:
                drop_files([(behind, 0)])
            saw.append(make_cold(data, machine=conditions.cold == "machine"))
        outcome = run_process(argv, groups=list(groups.values()), timeout=timeout, env=env, options=options)
        reads = groups["io"].reads(device) if device and "io" in groups else None
        nbytes, operations = reads or (outcome.block_input, None)
        result = make_result(argv, outcome, groups.get("memory"), nbytes, operations, saw)
    check_held(conditions, outcome.wall_seconds, nbytes, operations)
    return result


def run_shimmed(
    conditions: Conditions,
    argv: list[str],
    data: Data,
    timeout: float | None,
    env: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> Result:
    """With the latency model, which asks for no rights and sees only calls of the C library."""
    saw = shims.check_conditions(data, conditions)
    with shims.Model(data, conditions) as model:
        if conditions.cold == "machine":
            saw.append(make_cold(data, machine=True))
        outcome = run_process(
            argv, groups=(), timeout=timeout, env=model.env(os.environ if env is None else env), options=options
        )
        seen = model.counts()
    result = make_result(argv, outcome, None, seen.nbytes, seen.operations, saw)
    shims.check_seen(seen, conditions)
    check_held(conditions, outcome.wall_seconds, seen.nbytes, seen.operations)
    return result


def find_device(conditions: Conditions, data: Data) -> str | None:
    """The disk of the data, which limits need; without limits it is only counted, and may be missing."""
    if conditions.iops or conditions.bandwidth:
        return device_of_all([path for path, _ in data.files])
    with contextlib.suppress(Refused):
        return device_of_all([path for path, _ in data.files])
    return None


def make_result(
    argv: list[str],
    outcome: Outcome,
    memory: Group | None,
    nbytes: int | None,
    operations: int | None,
    saw: list[str],
) -> Result:
    """The figures of a run, put together while its groups are there."""
    return Result(
        argv=tuple(argv),
        returncode=outcome.returncode,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        wall_seconds=outcome.wall_seconds,
        cpu_seconds=outcome.cpu_seconds,
        peak_rss=outcome.peak_rss,
        peak_memory=memory.peak_memory() if memory else None,
        oom_kills=memory.oom_kills() if memory else None,
        read_bytes=nbytes,
        read_operations=operations,
        timed_out=outcome.timed_out,
        saw=tuple(saw),
    )
