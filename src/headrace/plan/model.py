"""What would a setting cost, before anything is counted?

Closed forms over the statistics of an order: how dense the wanted samples lie in what a reader passes, how many
operations and bytes a gap rule makes of that, and how often a cache of a given size is hit. `forecast` counts exactly;
these estimates are what `decide` weighs, at any size of dataset in microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.values.cost import Storage


def density(share: float) -> float:
    """Share of all samples that `share` epochs' worth of consecutive positions need, each epoch a fresh permutation.

    Two uses in one stretch count once. The stretch begins anywhere in an epoch, hence the averages.
    """
    if share <= 1:
        return share - share**3 / 6
    if share < 2:
        return 1 - (2 - share) ** 3 / 6
    return 1.0


def lru_miss_rate(share: float) -> float:
    """Share of samples that an LRU cache for `share` of the dataset misses, under a fresh permutation each epoch.

    A sample returns after 1 - (1-a)(1-b) of the dataset has gone by, a and b uniform; it is hit where that is below
    `share`, so the miss rate is P(uv <= 1 - share) = c - c·ln c.
    """
    kept = 1 - min(share, 1.0)
    return kept - kept * math.log(kept) if kept > 0 else 0.0


@dataclass(frozen=True)
class Stretch:
    """What one pass over part of the data wants: `wanted` samples, spread with `density` over what is passed."""

    wanted: float
    density: float


def operations_and_bytes(*, stretch: Stretch, sizes: tuple[float, ...], gap: int, max_read: int) -> tuple[float, float]:
    """Expected operations and bytes of one pass, over all parts (`sizes` of a sample in each).

    The distances between wanted samples are geometric: a read goes on while at most `gap` bytes lie between them.
    """
    operations = nbytes = 0.0
    q = min(max(stretch.density, 1e-12), 1.0)
    for size in sizes:
        if size <= 0:
            continue
        through = math.floor(gap / size)
        skip = 1 - q
        apart = skip ** (through + 1)
        # Σ_{j=1..J} j·q·skip^j: samples read and dropped per wanted one
        dropped = skip * (1 - (through + 1) * skip**through + through * skip ** (through + 1)) / q if q < 1 else 0.0
        part_bytes = stretch.wanted * size * (1 + max(dropped, 0.0))
        # a run ends at a distance above `gap`, or where it has grown to `max_read`
        operations += max(stretch.wanted * apart, min(1.0, stretch.wanted)) + part_bytes / max_read
        nbytes += part_bytes
    return operations, nbytes


def best_gap(*, stretch: Stretch, sizes: tuple[float, ...], max_read: int, storage: Storage) -> int:
    """The gap, in bytes, that makes a pass take least time; of equals the smallest.

    More gap means fewer operations and more bytes; with reads in flight together the larger of the two times counts.
    """
    widest = max(sizes)
    best, least = 0, math.inf
    steps = [*range(33), *(int(32 * 1.15**k) for k in range(1, 60))]
    for through in steps:
        gap = int(through * widest)
        if gap > max_read:
            break
        operations, nbytes = operations_and_bytes(stretch=stretch, sizes=sizes, gap=gap, max_read=max_read)
        seconds = storage.seconds(operations, nbytes)
        if seconds < least * (1 - 1e-9):
            best, least = gap, seconds
    return best
