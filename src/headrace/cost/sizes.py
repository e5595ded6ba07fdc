"""How many bytes is "8GiB"? Human sizes, both ways."""

from __future__ import annotations

import re

from headrace.errors import InputError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "pb": 10**15,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "pib": 2**50,
}


def parse_bytes(size: int | str, *, name: str = "size") -> int:
    """A whole number of bytes from 8589934592, "8GiB", "100gb", "1.5 TiB". `name` is what errors call it.

    GB is 10⁹ and GiB is 2³⁰, whatever the case. A bare "8G" is refused: half of all tools mean the one, half the other.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise InputError(f"{name}={size!r} is negative; give a number of bytes, or a size like '8GiB'")
        return size
    text = str(size)
    match = re.fullmatch(r"\s*(\d+(?:[_,]\d{3})*(?:\.\d+)?)\s*([A-Za-z]*)\s*", text) if isinstance(size, str) else None
    if match is None:
        raise InputError(f"{name}={size!r} is not a size; give a number of bytes, or a number with a unit like '8GiB'")
    unit = match[2].lower()
    if unit in ("k", "m", "g", "t", "p"):
        either = f"{match[1]}{match[2].upper()}"
        raise InputError(f"{name}={size!r} may mean '{either}iB' or '{either}B': write one of them")
    if unit not in _UNITS:
        raise InputError(
            f"{name}={size!r} has the unknown unit {match[2]!r}; known are kB MB GB TB and KiB MiB GiB TiB"
        )
    return int(float(match[1].replace("_", "").replace(",", "")) * _UNITS[unit])


def format_bytes(nbytes: float) -> str:
    """A size for people: three digits and a binary unit."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1000 or unit == "TiB":
            break
        value /= 1024
    if unit == "B":
        return f"{value:.0f} B"
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
