"""What does a run that was slow on storage say about that storage?

An *observation* is one epoch: operations, bytes, and the seconds in which reads were under way. A storage that moved so
much in so little time can do at least that: these are facts. That it can do no more is known only where it was the
bottleneck: several reads under way all the time, and a loop that waited. Then one of its two figures was the limit: the
one that the figures so far call the slower, unless another epoch has shown that it can do more.

Pure arithmetic; decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.values.cost import Storage

LEAST_DEPTH = 1.5
"""Reads under way, on average: with fewer it was the plan, or the loop, that held the storage back."""
LEAST_WAIT = 0.1
"""Share of an epoch that the loop must have waited."""
LEAST_SECONDS = 0.05
LEAST_OPERATIONS = 32
"""Less than this says more about the start of a run than about its storage."""
TOLERANCE = 0.05
LATEST = 4
"""Observations that count: storage changes, and an epoch of last week says little."""
NOT_A_COPY = 4.0
"""Files that were taken for cached and are slower than copies by this factor are not cached."""


@dataclass(frozen=True)
class Observation:
    """One epoch as the engine counted it. `reading` is summed over reads, `waited` and `seconds` are the loop's."""

    operations: float
    nbytes: float
    busy: float
    reading: float
    waited: float
    seconds: float

    @property
    def depth(self) -> float:
        """Reads under way while there were any, on average."""
        return self.reading / self.busy if self.busy > 0 else 0.0

    @property
    def bound_by_storage(self) -> bool:
        """Whether the storage was what everybody waited for."""
        enough = self.operations >= LEAST_OPERATIONS and self.busy >= LEAST_SECONDS and self.nbytes > 0
        return enough and self.depth >= LEAST_DEPTH and self.waited >= LEAST_WAIT * self.seconds > 0


def observe(counters: Mapping[str, float], *, waited: float, seconds: float) -> Observation:
    """What the engine counted over one epoch, in which the loop waited so long of so many seconds."""
    return Observation(
        operations=counters.get("operations", 0),
        nbytes=counters.get("bytes", 0),
        busy=counters.get("busy_seconds", 0),
        reading=counters.get("read_seconds", 0),
        waited=waited,
        seconds=seconds,
    )


def learn(prior: Storage, seen: Sequence[Observation]) -> Storage:
    """The storage that fits the latest epochs, starting from what was known before; `prior` where it fits already."""
    bound = [o for o in seen if o.bound_by_storage][-LATEST:]
    if not bound:
        return prior
    iops_shown = max(o.operations / o.busy for o in bound)
    bandwidth_shown = max(o.nbytes / o.busy for o in bound)
    iops, bandwidth = max(prior.iops, iops_shown), max(prior.bandwidth, bandwidth_shown)
    for o in bound:
        by_number, by_bytes = o.operations / iops, o.nbytes / bandwidth
        if max(by_number, by_bytes) >= o.busy * (1 - TOLERANCE):
            continue
        number_may = o.operations / o.busy >= iops_shown * (1 - TOLERANCE)
        bytes_may = o.nbytes / o.busy >= bandwidth_shown * (1 - TOLERANCE)
        if number_may and (by_number >= by_bytes or not bytes_may):
            iops = max(o.operations / o.busy, iops_shown)
        elif bytes_may:
            bandwidth = max(o.nbytes / o.busy, bandwidth_shown)
    slower = max(prior.iops / iops, prior.bandwidth / bandwidth)
    if prior.cached and slower < NOT_A_COPY:
        return prior
    if all(abs(now / was - 1) <= TOLERANCE for now, was in ((iops, prior.iops), (bandwidth, prior.bandwidth))):
        return prior
    source = f"learned over {len(bound)} epoch{'s' * (len(bound) > 1)}, {prior.source} before"
    return replace(prior, iops=iops, bandwidth=bandwidth, source=source, cached=False)
