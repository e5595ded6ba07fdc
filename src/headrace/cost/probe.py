"""How fast is the storage under these files? Measured in a few seconds and a bounded number of bytes.

1. latency: one read after the other, of about a sample's size, anywhere in the files;
2. operations a second with 4, 16 and 32 of them in flight, and with small ones where samples are larger;
3. bytes a second of large reads, one after the other in the file;
4. direct (around the page cache), and buffered as the engine reads, of ranges that were not cached before.

Each of these is a *phase* with a share of the seconds and of the bytes. What could not be measured is left out and
said. Decides nothing: what follows for a plan is the planner's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.cost.estimate import Burst, figure_of, own_limit_note, storage_of
from headrace.errors import DataError, InputError
from headrace.values.measured import PATTERNS, Figure, Measured, date_of

SECONDS = 3.0
NBYTES = 256 << 20
SMALL = 4096
LARGE = 1 << 20
LEAST_READS = 4
"""A phase that could make fewer reads than this says nothing."""


@dataclass(frozen=True)
class Spot:
    """One read of a probe."""

    file: int
    offset: int
    nbytes: int


class Device(Protocol):
    """What a probe reads from: files, or a model of them."""

    @property
    def direct(self) -> bool:
        """Whether reads around the page cache are possible."""
        ...

    @property
    def tells(self) -> bool:
        """Whether the kernel tells what is in the page cache."""
        ...

    def random(self, *, nbytes: int, most: int, fresh: bool) -> Sequence[Spot]:
        """At most so many places anywhere, no two alike; `fresh`: none that is in the page cache."""
        ...

    def sequential(self, *, nbytes: int, most: int, fresh: bool) -> Sequence[Spot]:
        """At most so many places, one after the other; `fresh`: none that is in the page cache."""
        ...

    def burst(self, spots: Sequence[Spot], *, depth: int, seconds: float, direct: bool) -> Burst:
        """Read the spots, `depth` at a time, and start none after so many seconds."""
        ...

    def limit(self, *, depth: int) -> float:
        """Small reads a second that the probe's own loop makes where they cost nothing."""
        ...

    def clock(self) -> float:
        """Seconds, of any origin."""
        ...


@dataclass(frozen=True)
class Phase:
    """One measurement and its shares of the seconds and of the bytes."""

    label: str
    pattern: str
    direct: bool
    depth: int
    nbytes: int
    of_seconds: float
    of_bytes: float


def phases(size: int) -> Iterator[Phase]:
    """What is measured for samples of `size` bytes, in this order. The shares of each kind add up to 1."""
    for depth, of_seconds, of_bytes in ((1, 0.1, 0.06), (4, 0.07, 0.06), (16, 0.08, 0.07), (32, 0.18, 0.12)):
        yield Phase(f"random, {depth} at a time", "random", True, depth, size, of_seconds, of_bytes)
    if size > SMALL:
        yield Phase("small and random", "random", True, 32, SMALL, 0.12, 0.07)
    yield Phase("random, buffered", "random", False, 32, size, 0.18, 0.12)
    large = max(LARGE, size)
    yield Phase("sequential", "sequential", True, 8, large, 0.12, 0.25)
    yield Phase("sequential, buffered", "sequential", False, 8, large, 0.15, 0.25)


def measure(
    device: Device,
    *,
    path: str,
    name: str,
    when: float,
    size: int = 4 * SMALL,
    seconds: float = SECONDS,
    nbytes: int = NBYTES,
    watch: Callable[[str], None] | None = None,
) -> Measured:
    """Probe a device with reads of about `size` bytes. `watch` is told of each phase before it begins."""
    if not seconds > 0 or nbytes < 64 * SMALL:
        raise InputError(f"a probe of {seconds!r} s and {nbytes!r} bytes sees nothing; at least {64 * SMALL} bytes")
    size = min(-(-max(size, 1) // SMALL) * SMALL, LARGE)
    begin, figures, read = device.clock(), list[Figure](), 0
    notes = list(_notes(device))
    possible = [p for p in phases(size) if (device.direct if p.direct else device.tells or not device.direct)]
    for k, phase in enumerate(possible):
        # Slow reads that were under way at the end of a phase are taken from all that follow, not from the last alone.
        share = phase.of_seconds / sum(p.of_seconds for p in possible[k:])
        left = min(2 * phase.of_seconds * seconds, share * (begin + seconds - device.clock()))
        if left <= 0:
            continue
        if watch is not None:
            watch(phase.label)
        burst = _carried_out(device, phase, seconds=left, nbytes=int(nbytes * phase.of_bytes))
        if burst is None:
            notes.append(f"'{phase.label}' was not measured: too little of the files is outside the page cache")
            continue
        read += burst.nbytes
        how = "direct" if phase.direct else "buffered"
        figures.append(figure_of(burst, pattern=phase.pattern, how=how, depth=phase.depth))
    _check(figures, path=path, notes=notes)
    limit = own_limit_note(figures, limit=device.limit(depth=32))
    return Measured(
        path=path,
        when=when,
        figures=tuple(figures),
        storage=storage_of(figures, name=name, source=f"measured {date_of(when)}"),
        seconds=device.clock() - begin,
        nbytes=read,
        notes=(*notes, *([limit] if limit else [])),
    )


def _notes(device: Device) -> Iterator[str]:
    if not device.direct:
        yield "this filesystem refuses reads around the page cache"
    if not device.tells and device.direct:
        yield "the kernel does not tell this user what is cached: buffered reads were not measured"
    if not device.tells and not device.direct:
        yield "the kernel does not tell this user what is cached: some of these figures may be of the page cache"


def _carried_out(device: Device, phase: Phase, *, seconds: float, nbytes: int) -> Burst | None:
    most = nbytes // phase.nbytes
    # A direct read is one of the device wherever it lies; so it may be of a cached range, where there is no other.
    places = device.random if phase.pattern == "random" else device.sequential
    spots = places(nbytes=phase.nbytes, most=most, fresh=True)
    if len(spots) < min(most, LEAST_READS * phase.depth) and phase.direct:
        spots = places(nbytes=phase.nbytes, most=most, fresh=False)
    if len(spots) < LEAST_READS:
        return None
    burst = device.burst(spots, depth=phase.depth, seconds=seconds, direct=phase.direct)
    return burst if len(burst.ended) and burst.nbytes else None


def _check(figures: list[Figure], *, path: str, notes: list[str]) -> None:
    for pattern in PATTERNS:
        if not any(f.pattern == pattern for f in figures):
            raise DataError(
                f"the probe of {path} saw no {pattern} reads ({'; '.join(notes) or 'its time was over before'}): give "
                "it more seconds, larger files, or describe the storage with headrace.Storage(...)"
            )
