"""What would a setting cost, before anything is counted?

Closed forms over the statistics of an order: how dense the wanted samples lie in what a reader passes, how many
operations and bytes a gap rule makes of that, and how often a cache of a given size is hit. `forecast` counts exactly;
these estimates are what `decide` weighs, at any size of dataset in microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.values.cost import Storage

PHASES = 12


def densities(share: float) -> tuple[float, ...]:
    """Shares of all samples that `share` epochs' worth of consecutive positions need, each epoch a fresh permutation.

    Two uses in one stretch count once. A stretch that straddles an epoch boundary needs fewer different samples than
    one that does not, and what depends on the density is not linear in it: hence one value per phase of the epoch.
    """
    found = []
    for k in range(PHASES):
        begin = (k + 0.5) / PHASES
        absent, at = 1.0, begin
        while at < begin + share:
            end = min(begin + share, math.floor(at + 1e-12) + 1.0)
            absent *= 1 - (end - at)
            at = end
        found.append(1 - max(absent, 0.0))
    return tuple(found)


def density(share: float) -> float:
    """The mean of `densities`: k - k³/6 for k up to one epoch, and so on."""
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
    """What one pass wants of the `passed` samples that it goes over, in slices; no read crosses one of their `cuts`.

    `densities` are the shares wanted, each as likely as the others.
    """

    passed: float
    densities: tuple[float, ...]
    cuts: float = 0.0

    @property
    def wanted(self) -> float:
        """Samples wanted, on average."""
        return self.passed * sum(self.densities) / len(self.densities)


def operations_and_bytes(*, stretch: Stretch, sizes: tuple[float, ...], gap: int, max_read: int) -> tuple[float, float]:
    """Expected operations and bytes of one pass, over all parts (`sizes` of a sample in each)."""
    operations = nbytes = 0.0
    for q in stretch.densities if stretch.passed > 0 else ():
        for size in sizes:
            if size > 0 and q > 0:
                through = math.floor(gap / size)
                more = _part(q=min(q, 1.0), stretch=stretch, size=size, through=through, max_read=max_read)
                operations += more[0]
                nbytes += more[1]
    return operations / len(stretch.densities), nbytes / len(stretch.densities)


def _part(*, q: float, stretch: Stretch, size: float, through: int, max_read: int) -> tuple[float, float]:
    """One part at density q: distances between wanted samples are geometric, a read goes `through` that many."""
    wanted, skip = stretch.passed * q, 1 - q
    # Σ_{j=1..J} j·q·skip^j: samples read and dropped per wanted one
    dropped = skip * (1 - (through + 1) * skip**through + through * skip ** (through + 1)) / q if q < 1 else 0.0
    nbytes = wanted * size * (1 + max(dropped, 0.0))
    runs = max(wanted * skip ** (through + 1), min(1.0, wanted))
    runs += stretch.cuts * min(1.0, nbytes / (stretch.passed * size))
    # lengths of runs are about exponential: the number of reads of at most `max_read` that one takes
    return runs / -math.expm1(-max_read * runs / nbytes), nbytes


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
        if nbytes / storage.bandwidth >= operations / storage.iops:
            break  # more gap saves operations, and it is the bytes that take the time
    return best
