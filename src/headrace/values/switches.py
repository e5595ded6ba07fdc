"""Which values may a switch of a plan have?

Asked where a user names one, before anything is planned with it, and again where a plan is made.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from headrace.errors import PlanError
from headrace.values.plan import ACCESSES, READ_MODES, RESIDENCIES, Switches

CHOICES = {"read": READ_MODES, "residency": RESIDENCIES, "access": ACCESSES}
LEAST = {"round": 1, "span": 1, "max_read": 1, "batches": 1, "align": 1}
LARGEST = 1 << 48
"""Counts and bytes of everything there is lie far below; sums of some of them still fit into 64 bits."""
LARGEST_ALIGN = 1 << 30
_TYPES = {field.name: field.type for field in fields(Switches)}


def check_switches(given: Mapping[str, Any]) -> dict[str, Any]:
    """The switches with plain numbers in them; PlanError names the first value that cannot be. Other names stay."""
    return {name: value if value is None else _checked(name, value) for name, value in given.items()}


def _checked(name: str, value: Any) -> Any:
    if name in CHOICES:
        if not isinstance(value, str) or value not in CHOICES[name]:
            raise PlanError(f"{name}={value!r}: expected one of {', '.join(CHOICES[name])}")
        return value
    kind = _TYPES.get(name)
    if kind == "int":
        return _whole(name, value)
    if kind == "bool" and not isinstance(value, bool):
        raise PlanError(f"{name}={value!r}: expected True or False")
    if kind == "tuple[int, ...]":
        if not isinstance(value, tuple | list):
            raise PlanError(f"{name}={value!r}: expected a tuple of whole numbers")
        return tuple(_whole(name, item) for item in value)
    return value


def _whole(name: str, value: Any) -> int:
    least, most = LEAST.get(name, 0), LARGEST_ALIGN if name == "align" else LARGEST
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not least <= number <= most:
        raise PlanError(f"{name}={value!r}: expected a whole number from {least} to {most:,}")
    if name == "align" and number & (number - 1):
        raise PlanError(f"align={value!r}: expected a power of two, as block sizes are, like 4096")
    return number
