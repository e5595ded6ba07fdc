"""Which samples does the user mean, and which of them go into which split?

A selection is an ascending `range` wherever it can be one, so that equal selections are equal values whatever they
were written as (a slice, a mask, an array of consecutive ids).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.errors import InputError
from headrace.formats.segments import Selection
from headrace.values.layout import I64


def resolve_selection(chosen: Any, *, n: int) -> Selection:
    """The ids that a slice, a boolean mask or a sequence of ids selects out of n samples; never empty."""
    if isinstance(chosen, slice | range):
        part = range(n)[chosen] if isinstance(chosen, slice) else chosen
        ids: Selection = part if part.step > 0 else np.fromiter(part, np.int64, len(part))
    else:
        ids = _ids_of(chosen, n=n)
    if len(ids) == 0:
        raise InputError(f"the selection holds none of the {n:,} samples: select at least one")
    low, high = (ids[0], ids[-1]) if isinstance(ids, range) else (int(ids.min()), int(ids.max()))
    if low < 0 or high >= n:
        raise InputError(f"sample id {low if low < 0 else high:,} does not exist: ids go from 0 to {n - 1:,}")
    return ids


def _ids_of(chosen: Any, *, n: int) -> Selection:
    if isinstance(chosen, Iterable) and not isinstance(chosen, np.ndarray | Sequence):
        chosen = list(chosen)
    array = np.asarray(chosen)
    if array.ndim != 1:
        raise InputError(f"a selection is a slice, a boolean mask or a row of ids, not {_describe(chosen)}")
    if array.dtype == bool:
        if len(array) != n:
            raise InputError(f"the mask has {len(array):,} entries but the dataset has {n:,} samples")
        array = np.flatnonzero(array)
    elif len(array) and array.dtype.kind not in "iu":
        raise InputError(f"sample ids are integers, not {array.dtype} ({_describe(chosen)})")
    ids = array.astype(np.int64)
    if len(ids) and bool((np.diff(ids) == 1).all()):
        return range(int(ids[0]), int(ids[-1]) + 1)
    return ids


def split_ids(parts: Sequence[float], *, n: int, seed: int, shuffle: bool) -> list[Selection]:
    """Disjoint selections of the given counts or fractions of n samples; each ascends.

    With `shuffle`, samples are dealt by a permutation that depends on (seed, n) alone, the same on every machine and in
    every version. Fractions that sum to less than 1 leave the rest out.
    """
    edges = _edges(parts, n=n)
    if not shuffle:
        return [range(a, b) for a, b in pairwise(edges)]
    dealt = np.argsort(_keys(n=n, seed=seed), kind="stable")
    return [resolve_selection(np.sort(dealt[a:b]), n=n) for a, b in pairwise(edges)]


def _edges(parts: Sequence[float], *, n: int) -> list[int]:
    given = list(parts)
    if not given:
        raise InputError("split needs at least one count or fraction")
    if all(isinstance(p, int | np.integer) and not isinstance(p, bool) for p in given):
        edges = [0, *np.cumsum(given).tolist()]
        total: float = edges[-1] / n
    elif all(isinstance(p, float | np.floating) for p in given):
        sums = np.cumsum(given)
        total = float(sums[-1])
        edges = [0, *np.rint(sums * n).astype(int).tolist()]
    else:
        raise InputError(f"split takes counts (all int) or fractions (all float), not a mixture: {given!r}")
    if total > 1 + 1e-9:
        raise InputError(f"split parts {given!r} ask for {edges[-1]:,} samples, but the dataset has {n:,}")
    for i, (a, b) in enumerate(pairwise(edges)):
        if b <= a:
            raise InputError(f"split part {i} ({given[i]!r}) of {n:,} samples is empty: give it a larger share")
    return edges


def _keys(*, n: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A hash of (seed, id) per sample: splitmix64, whose stream is fixed for ever, unlike a library's permutation."""
    origin = int.from_bytes(hashlib.blake2b(f"split {seed}".encode(), digest_size=8).digest(), "little")
    z = np.arange(1, n + 1, dtype=np.uint64)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(origin)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def ids_array(selection: Selection) -> I64:
    """The selection as an array."""
    if isinstance(selection, range):
        return np.arange(selection.start, selection.stop, selection.step, dtype=np.int64)
    return selection


def _describe(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
