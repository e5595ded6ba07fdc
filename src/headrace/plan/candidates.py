"""Which settings are possible with this memory, and what would each cost?

One function per read mode: from the bytes it may spend to the switches that use them best, and an estimate of an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headrace.errors import PlanError
from headrace.plan.budget import Sizes, resident_table, ring_nbytes, spendable
from headrace.plan.model import Stretch, best_gap, densities, density, lru_miss_rate, operations_and_bytes
from headrace.values.cost import Storage
from headrace.values.plan import Candidate, Figures, Switches
from headrace.values.run import Run

MAX_READ = 4 << 20
DIRECT_MAX_READ = 512 << 10
DIRECT_ALIGN = 4096
DIRECT_READS = 16
"""Direct I/O reads into buffers of its own, for so many reads at once; a 64th of the memory at most for each."""

THRASHING = 1e9
"""Bytes a second at most through a page cache that is full: each page has to be taken from another first."""

PAGE_TABLE = 1 / 512
"""Bytes of page table for a byte of a mapped file."""

SPAN_NBYTES = 1 << 20
CACHED_SPAN_NBYTES = 4 << 20
"""A span reads at least about this much: its own cost is small beside its reads, and copies cost less than reads."""


@dataclass(frozen=True, eq=False)
class Desk:
    """What the candidates are made from: the run, its sizes, and the switches that the user forced."""

    run: Run
    sizes: Sizes
    forced: Mapping[str, Any]
    access: str = "buffered"

    def readings(self, read: str) -> list[Desk]:
        """The same desk for each way in which bytes may leave the files when they are read so.

        Files in the page cache are mapped, where page tables take little beside the memory. Sorted reads may go around
        a page cache that is too small to have a byte still when the next round comes by.
        """
        if "access" in self.forced:
            ways = [self.forced["access"]]
        elif self.run.cost.storage.cached:
            ways = ["mapped" if self.file_bytes * PAGE_TABLE <= self.run.memory / 8 else "buffered"]
        else:
            ways = ["buffered"]
            if self.run.cost.bypass and self.thrashes and read in ("window", "sweep"):
                ways.append("direct")
        return [replace(self, access=way) for way in ways]

    @cached_property
    def file_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.run.layout.files)

    @property
    def thrashes(self) -> bool:
        """Whether the page cache is known to be too small for the files: then every read through it evicts another."""
        return self.run.cost.page_cache is not None and self.file_bytes > self.run.cost.page_cache

    @property
    def storage(self) -> Storage:
        """The storage as it is seen through this desk's access."""
        storage = self.run.cost.storage
        if self.access == "buffered" and self.thrashes:
            return replace(storage, bandwidth=min(storage.bandwidth, THRASHING))
        return storage

    def spendable(self, batches: int) -> int:
        """What is left of the memory when the batches, the layout and the buffers of reads are paid."""
        left = spendable(sizes=self.sizes, batches=batches)
        return left - (DIRECT_READS * (self.max_read + 2 * DIRECT_ALIGN) if self.access == "direct" else 0)

    @property
    def part_sizes(self) -> tuple[float, ...]:
        """Mean bytes of a sample in each part."""
        return tuple(float(p.segments.nbytes.mean()) for p in self.run.layout.parts)

    @property
    def max_read(self) -> int:
        """Longest read."""
        if "max_read" in self.forced or self.access != "direct":
            return int(self.forced.get("max_read", MAX_READ))
        share = self.run.memory // (4 * DIRECT_READS) // DIRECT_ALIGN * DIRECT_ALIGN
        return max(DIRECT_ALIGN, min(DIRECT_MAX_READ, share))

    @property
    def batches(self) -> int:
        """Batches under way; direct reads need more of them, for it is they that fill the storage's queue."""
        return int(self.forced.get("batches", 2))

    @property
    def span_nbytes(self) -> int:
        """Bytes that a span reads at least."""
        return CACHED_SPAN_NBYTES if self.run.cost.storage.cached else SPAN_NBYTES

    def locality(self) -> int:
        """Over how many samples a stretch of positions spreads: all, or the order's window."""
        spec = self.run.order.spec()
        size = spec.get("size")
        return int(size) if isinstance(size, int) else self.run.layout.n

    def figures(self, *, stretch: Stretch, passes: float, gap: int, samples: float, copied: float) -> Figures:
        """An epoch of `passes` equal passes, with `copied` bytes copied once more in memory."""
        operations, nbytes = operations_and_bytes(
            stretch=stretch, sizes=self.part_sizes, gap=gap, max_read=self.max_read
        )
        operations, nbytes = operations * passes, nbytes * passes
        seconds = self.storage.seconds(operations, nbytes) + copied / self.run.cost.memory_bandwidth
        return Figures(samples=samples, operations=operations, nbytes=nbytes, seconds=seconds)

    def gap(self, stretch: Stretch) -> int:
        """The forced gap, or the best one for such a stretch."""
        if "gap" in self.forced:
            return int(self.forced["gap"])
        return best_gap(stretch=stretch, sizes=self.part_sizes, max_read=self.max_read, storage=self.storage)

    def candidate(self, switches: Switches, *, steady: Figures, first: Figures) -> Candidate:
        """A candidate, its cost in passes over the dataset."""
        one_pass = self.run.layout.nbytes / self.run.cost.storage.bandwidth
        return Candidate(switches=switches, steady=steady, first=first, passes=steady.seconds / max(one_pass, 1e-12))


def direct(desk: Desk, *, residency: str) -> Candidate | None:
    """Every step reads for itself, into its batch; all memory beyond a few batches keeps samples."""
    run, sizes = desk.run, desk.sizes
    batch, used, n = run.steps.global_batch_size, run.steps.used, run.layout.n
    batches = int(desk.forced.get("batches", _depth(desk)))
    left = desk.spendable(batches)
    staged = any(p.box is not None for p in run.layout.parts)
    span = batch * max(1, min(batches // 2, round(desk.span_nbytes / sizes.batch)))
    slots = 0
    if staged:  # chunks that cut samples are put together from the arena
        slots = max(6 * span, 3 * sizes.largest_step_units)
    left -= slots * sizes.slot + ring_nbytes(4 * span + 32768)
    if left < 0:
        return None
    resident = _resident(desk, residency, left)
    if resident is None:
        return None
    missing = _missing(residency, resident, n=n, used=used)
    steps = max(run.steps.per_epoch, 1)
    sequential = run.order.name == "sequential"
    passed = used / steps if sequential else float(max(desk.locality(), batch))
    stretch = Stretch(passed, (missing / steps / passed,))
    gap = desk.gap(stretch)
    copied = (used - missing + (used if staged else 0)) * sizes.layout.sample_nbytes
    steady = desk.figures(stretch=stretch, passes=steps, gap=gap, samples=missing, copied=copied)
    full = Stretch(passed, (used / steps / passed,))
    first = desk.figures(stretch=full, passes=steps, gap=gap, samples=used, copied=0)
    switches = Switches(
        residency=residency, read="direct", resident=resident, round=batch, slots=slots, span=span,
        lead=span if staged else 0, gap=gap, max_read=desk.max_read, batches=batches,
    )  # fmt: skip
    return desk.candidate(_settle(switches, desk), steady=steady, first=first)


def _depth(desk: Desk) -> int:
    """Batches under way that keep the storage busy: four times what it moves in one latency, 32 MiB at the least."""
    storage = desk.run.cost.storage
    nbytes = max(32 << 20, 4 * storage.bandwidth * storage.latency)
    wanted = math.ceil(nbytes / desk.sizes.batch)
    affordable = desk.run.memory // 4 // desk.sizes.batch
    return int(max(2, min(wanted, affordable, 64)))


def windowed(desk: Desk, *, read: str, residency: str, share: float) -> Candidate | None:
    """Sweep or window: `share` of the memory keeps samples, the rest holds those under way."""
    run, sizes = desk.run, desk.sizes
    batch, used, n = run.steps.global_batch_size, run.steps.used, run.layout.n
    left = desk.spendable(desk.batches)
    slot = sizes.slot * sizes.mean_units
    budget = left * share if residency != "none" else 0.0
    resident = _resident(desk, residency, budget)
    if resident is None:
        return None
    left -= sizes.resident_units(resident) * sizes.slot + resident * resident_table(residency)
    missing = _missing(residency, resident, n=n, used=used)
    swept = min(1.0, max(missing, float(batch)) / used)  # of a step at least: the first epoch sweeps for all
    held = _samples_under_way(left=left, slot=slot, width=2 if read == "sweep" else 1, swept=swept)
    if "slots" in desk.forced:
        held = int(desk.forced["slots"] / sizes.mean_units)
    span = _span(desk, held)
    room = held - 2 * span - 3 * batch - 3 * math.sqrt(held / 3)
    width = int((2 if read == "sweep" else 1) * room / swept)
    if run.steps.epochs is not None:
        width = min(width, max(run.steps.epochs * used, 1))
    if "round" in desk.forced:
        width = int(desk.forced["round"])
    if width < batch or held * sizes.mean_units < sizes.largest_step_units:
        return None
    span = min(span, max(batch, width))
    wanted = densities(width / used if read == "sweep" else min(1.0, width / max(desk.locality(), 1)))
    rounds = used / width
    stretch = Stretch(missing, wanted, cuts=width / span)
    gap = desk.gap(stretch)
    copied = used * sizes.layout.sample_nbytes
    steady = desk.figures(stretch=stretch, passes=rounds, gap=gap, samples=stretch.wanted * rounds, copied=copied)
    whole = Stretch(used, wanted, cuts=width / span)
    first = desk.figures(stretch=whole, passes=rounds, gap=gap, samples=whole.wanted * rounds, copied=copied)
    switches = Switches(
        residency=residency, read=read, resident=resident, round=width, slots=int(held * sizes.mean_units), span=span,
        lead=span, gap=gap, max_read=desk.max_read, batches=desk.batches, ramp_gaps=_ramp_gaps(desk, width),
    )  # fmt: skip
    return desk.candidate(_settle(switches, desk), steady=steady, first=first)


def grouped(desk: Desk, *, residency: str) -> Candidate | None:
    """Whole groups of the order, double-buffered: each is one run of the file, read while the last one is used."""
    run, sizes = desk.run, desk.sizes
    used, n = run.steps.used, run.layout.n
    left = desk.spendable(desk.batches)
    spec_size = run.order.spec().get("size")
    affordable = int(left / (2 * (sizes.slot * sizes.mean_units + 64)))
    size = int(desk.forced.get("round", spec_size if isinstance(spec_size, int) else min(affordable, used)))
    slots = int(desk.forced.get("slots", max(2 * size * sizes.mean_units, sizes.largest_step_units)))
    left -= slots * sizes.slot + ring_nbytes(3 * size + 32768)
    if left < 0 or size < 1:
        return None
    resident = _resident(desk, residency, left)
    if resident is None:
        return None
    missing = _missing(residency, resident, n=n, used=used)
    groups = max(1.0, used / size)
    contiguous = run.order.name in ("group", "window", "sequential")
    passed = used / groups if contiguous else float(n)
    stretch = Stretch(passed, (missing / groups / passed,))
    gap = desk.gap(stretch)
    copied = used * sizes.layout.sample_nbytes
    steady = desk.figures(stretch=stretch, passes=groups, gap=gap, samples=missing, copied=copied)
    first = desk.figures(
        stretch=Stretch(passed, (used / groups / passed,)), passes=groups, gap=gap, samples=used, copied=copied
    )
    switches = Switches(
        residency=residency, read="group", resident=resident, round=size, slots=slots, span=size, lead=0, gap=gap,
        max_read=desk.max_read, batches=desk.batches,
    )  # fmt: skip
    return desk.candidate(_settle(switches, desk), steady=steady, first=first)


def _resident(desk: Desk, residency: str, nbytes: float) -> int | None:
    """How many samples may stay, or None where the residency cannot be had."""
    if residency == "none":
        return 0
    if residency != "static" and desk.sizes.units is not None:
        return None  # next-use and LRU evict one for one: only samples of one size can trade places
    fitting = desk.sizes.resident_fitting(nbytes)
    if residency != "static":
        fitting = int(min(desk.run.layout.n, max(0.0, nbytes) // (desk.sizes.slot + resident_table(residency))))
    wanted = min(int(desk.forced.get("resident", fitting)), desk.run.layout.n)
    return wanted if wanted <= fitting else None


def _missing(residency: str, resident: int, *, n: int, used: int) -> float:
    """Samples of an epoch after the first that are not in memory."""
    share = min(1.0, resident / max(n, 1))
    if residency == "lru":
        return used * lru_miss_rate(share)
    return max(0.0, used * (1 - share))


def _ramp_gaps(desk: Desk, width: int) -> tuple[int, ...]:
    """The best gap of each window of the ramp, which doubles from one step up to `width`."""
    gaps, window = [], desk.run.steps.global_batch_size
    while window < width:
        gaps.append(desk.gap(Stretch(desk.locality(), (density(min(1.0, window / desk.locality())),))))
        window *= 2
    return tuple(gaps)


def _samples_under_way(*, left: float, slot: float, width: int, swept: float) -> int:
    """Samples that `left` bytes hold together with the tables for the positions that they stand for."""
    per_sample = slot + width / max(swept, 1e-9) * (POSITION_SHARE + 8)
    return max(0, int((left - ring_nbytes(32768)) / per_sample))


POSITION_SHARE = 48
"""Bytes of the ring per position: it holds a power of two, and while it grows two copies of which one is half."""


def _span(desk: Desk, held: int) -> int:
    """Positions per span: a step at the least, some hundreds of spans a round, about a megabyte of reads."""
    batch = desk.run.steps.global_batch_size
    enough = desk.span_nbytes / max(desk.run.layout.sample_nbytes, 1)
    target = max(held / 256, min(enough, held / 24))
    return int(batch * max(1, round(target / batch)))


def _settle(switches: Switches, desk: Desk) -> Switches:
    """The switches with what follows from the storage, and with everything that the user set by name."""
    known = {k: v for k, v in desk.forced.items() if k in Switches.__dataclass_fields__ and k != "resident"}
    if "span" in known and known["span"] < 1:
        raise PlanError(f"span={known['span']}: a span has at least one position")
    align = DIRECT_ALIGN if desk.access == "direct" else 1
    return replace(replace(switches, access=desk.access, align=align), **known)
