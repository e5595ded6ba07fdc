"""Which arguments are refused before anything is opened?

A name that nothing knows, an argument that has no meaning for this kind of dataset, a value of the wrong kind: the
constructor says so. Whoever trains finds out in the line that is wrong, not in the first epoch or never.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from headrace.errors import InputError, UnsupportedError
from headrace.values.plan import Switches

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
        return
    given = list(a.switches)
    given += [name for name in ("plan", "memory", "storage") if getattr(a, name) is not None]
    given += [name for name, is_set in (("step_seconds", a.step_seconds), ("io", a.reading.io != "auto")) if is_set]
    if given:
        raise UnsupportedError(
            f"{', '.join(f'{name}=' for name in given)}: a map dataset reads its samples itself, so there is nothing "
            "to plan but the order; leave these out, or open the files with headrace.open()"
        )
