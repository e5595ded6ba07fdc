"""Which arguments are refused before anything is opened?

A name that nothing knows, an argument that has no meaning for this kind of dataset, a value of the wrong kind: the
constructor says so. Whoever trains finds out in the line that is wrong, not in the first epoch or never.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from headrace.cost import memory_budget
from headrace.errors import InputError, UnsupportedError
from headrace.runtime.failures import Policy
from headrace.values.cost import Storage
from headrace.values.plan import Switches
from headrace.values.switches import check_switches

if TYPE_CHECKING:
    from headrace.runtime.setup import Arguments

SWITCHES = frozenset(field.name for field in fields(Switches))
_INTERNAL = frozenset({"reading", "switches", "ahead", "start_worker", "start_method", "across_epochs"})


def check_names(given: Iterable[str], *, known: Collection[str]) -> None:
    """Refuse names that are no switch of a plan, with the nearest of the `known` arguments and the switches."""
    unknown = [name for name in given if name not in SWITCHES]
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], [*sorted(known), *sorted(SWITCHES)], n=1)
    hint = f"did you mean {near[0]}=?" if near else "leave it out"
    raise InputError(
        f"{', '.join(f'{name}=' for name in unknown)}: no argument has this name; {hint} Beside the loader's own "
        f"arguments, the switches of a plan can be given: {', '.join(f.name for f in fields(Switches))}"
    )


def loader_names(arguments: Arguments) -> set[str]:
    """What `headrace.Loader` calls its arguments."""
    return {field.name for field in fields(arguments)} - _INTERNAL | {"io"}


def check_kind(arguments: Arguments, *, mapped: bool) -> None:
    """Refuse what has no meaning for this kind of dataset: a map dataset has nothing to plan, files no samples to join.

    Nothing is accepted and ignored: who gives `memory=` believes that it bounds something.
    """
    a = arguments
    if not mapped:
        if a.collate is not None:
            raise UnsupportedError(
                "collate= joins the samples of a map dataset; a dataset of files comes as whole arrays: use transform="
            )
        if a.transform is None and a.workers_kind != "threads":
            warn_idle([f"workers_kind={a.workers_kind!r}"], functions="transform=", stacklevel=6)
        return
    given = list(a.switches)
    given += [name for name in ("plan", "memory", "storage") if getattr(a, name) is not None]
    given += [name for name, is_set in (("step_seconds", a.step_seconds), ("io", a.reading.io != "auto")) if is_set]
    if given:
        raise UnsupportedError(
            f"{', '.join(f'{name}=' for name in given)}: a map dataset reads its samples itself, so there is nothing "
            "to plan but the order; leave these out, or open the files with headrace.open()"
        )


def warn_idle(names: Sequence[str], *, functions: str, stacklevel: int) -> None:
    """Say that arguments about workers change nothing: files are read by native threads."""
    warnings.warn(
        f"{', '.join(names)}: without effect here. Files are read by native threads, and workers are started only for "
        f"your own functions ({functions}): leave it out, or give them something to do",
        stacklevel=stacklevel,
    )


def whole_number(name: str, value: Any, *, least: int) -> int:
    """A whole number of the user's, also one of NumPy's; True and 1.0 are none."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{name}={value!r}: expected a whole number from {least}")
    return number


def whole_numbers(arguments: Arguments) -> dict[str, int]:
    """The counts among the arguments that were given, as plain numbers."""
    leasts = {"global_batch_size": 1, "batch_size": 1, "epochs": 1, "workers": 0}
    given = {name: getattr(arguments, name) for name in leasts}
    return {name: whole_number(name, v, least=leasts[name]) for name, v in given.items() if v is not None}


def check_values(arguments: Arguments) -> None:
    """Refuse values of the wrong kind that would else be found far from here, or never."""
    a = arguments
    if not _is_number(a.timeout) or not a.timeout > 0:
        raise InputError(f"timeout={a.timeout!r}: every wait has a deadline; give seconds above 0")
    if not _is_number(a.step_seconds) or not 0 <= a.step_seconds < math.inf:
        raise InputError(f"step_seconds={a.step_seconds!r}: expected the seconds of a training step, 0 if not known")
    if not isinstance(a.drop_last, bool):
        raise InputError(f"drop_last={a.drop_last!r}: expected True or False")
    if not (a.storage is None or isinstance(a.storage, Storage)):
        raise InputError(
            f"storage={a.storage!r}: expected headrace.Storage(iops, bandwidth), or None to let it be found out"
        )
    if not (a.plan is None or isinstance(a.plan, Mapping | str | os.PathLike)):
        raise InputError(f"plan={a.plan!r}: expected what loader.plan.to_dict() gave, or the path of a JSON file of it")
    if a.plan is not None and a.switches:
        given = ", ".join(f"{name}=" for name in (*a.switches, "plan"))
        raise InputError(f"{given}: a saved plan has all its switches; leave them out")
    check_switches(a.switches)
    Policy.parse(on_error=a.on_error, max_failures=a.max_failures, n=1)
    if a.memory is not None:
        memory_budget(a.memory)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
