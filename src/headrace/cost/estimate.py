"""What do the times of single reads say about a storage?

Pure arithmetic: a *burst* (when each of some reads began and ended, with so many in flight) becomes a `Figure`, and the
figures of a probe become a `Storage`. Opens no file, reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.values.cost import Storage
from headrace.values.measured import Figure

F64 = npt.NDArray[np.float64]

BYTES_BOUND = 0.7
"""From this share of the bandwidth on, it is the bytes of random reads that take the time, not their number."""

OWN_LIMIT = 0.6
"""From this share of what the probe's own loop can do on, a rate says as much about the loop as about the storage."""

SHORTEST = 1e-9


@dataclass(frozen=True, eq=False)
class Burst:
    """Reads that were made together: seconds at which each began and ended, and the bytes of all."""

    begun: F64
    ended: F64
    nbytes: int


def figure_of(burst: Burst, *, pattern: str, how: str, depth: int) -> Figure:
    """What a burst of at least one read says."""
    return Figure(
        pattern=pattern,
        how=how,
        depth=depth,
        nbytes=max(round(burst.nbytes / len(burst.ended)), 1),
        operations=len(burst.ended),
        seconds=max(float(burst.ended.max()), SHORTEST),
        rate=rate(burst.ended, depth=depth),
        latency=max(float(np.median(burst.ended - burst.begun)), SHORTEST),
    )


def rate(ended: F64, *, depth: int) -> float:
    """Operations a second while the queue was full: the first `depth` of them, which fill it, are not counted."""
    times = np.sort(ended)
    n = len(times)
    if n >= 2 * depth and times[-1] > times[depth - 1]:
        return float((n - depth) / (times[-1] - times[depth - 1]))
    return float(n / max(times[-1], SHORTEST))


def storage_of(figures: Sequence[Figure], *, name: str, source: str) -> Storage:
    """The storage that the planner is given.

    Buffered reads count where they could be measured, since that is how the engine reads; else direct ones. Where
    random reads reach the bandwidth, their number is no limit at that size, and the rate of small reads is taken.
    """
    buffered = {f.pattern for f in figures if f.how == "buffered"} == {"random", "sequential"}
    used = [f for f in figures if f.how == "buffered"] if buffered else figures
    random = [f for f in used if f.pattern == "random"]
    usual = max(f.nbytes for f in random)
    fullest = max((f for f in random if f.nbytes == usual), key=lambda f: f.rate)
    bandwidth = max(fullest.bandwidth, *(f.bandwidth for f in used if f.pattern == "sequential"))
    iops = fullest.rate
    if fullest.bandwidth >= BYTES_BOUND * bandwidth:
        iops = max(f.rate for f in figures if f.pattern == "random")
    latency = min(figures, key=lambda f: (f.depth, f.nbytes)).latency
    return Storage(iops, bandwidth, latency, name=name, source=source, cached=False)


def own_limit_note(figures: Sequence[Figure], *, limit: float) -> str:
    """A sentence where the probe's own loop may be what limited the rate, else nothing. `limit` is what it can do."""
    highest = max(f.rate for f in figures)
    if highest < OWN_LIMIT * limit:
        return ""
    return f"at least: the probe itself makes {limit:,.0f} reads/s out of memory here, and saw {highest:,.0f}"
