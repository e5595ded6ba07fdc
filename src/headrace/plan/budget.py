"""How is the memory split?

`memory=` pays for everything: batches that are being filled, ready or in the user's hands, the planner's own tables,
resident samples, and slots for samples under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headrace.errors import PlanError
from headrace.values.layout import Layout
from headrace.values.run import Run

HELD_BATCHES = 2
"""Batches that the user may hold at once: the one in use, and the next one while the first is let go."""
POSITION_NBYTES = 16
ENTRY_NBYTES = 8
FIELD_ALIGNMENT = 64
TABLE_FLOOR = 2 << 20


@dataclass(frozen=True, eq=False)
class Sizes:
    """Bytes of samples, slots and batches of a run. Ragged samples take several slots of a page each."""

    run: Run

    @property
    def layout(self) -> Layout:
        """The run's layout."""
        return self.run.layout

    @cached_property
    def samples(self) -> npt.NDArray[np.int64] | None:
        """Stored bytes of every sample by id, where they differ; None where all are the same."""
        if self.layout.fixed:
            return None
        ids = np.arange(self.layout.n, dtype=np.int64)
        total = np.zeros(self.layout.n, np.int64)
        for part in self.layout.parts:
            total += part.segments.locate(ids)[2]
        return total

    @cached_property
    def slot(self) -> int:
        """Bytes of one slot: a sample, or a page that wastes little of a ragged one."""
        if self.samples is None:
            return max(1, round(self.layout.sample_nbytes))
        page = int(self.layout.sample_nbytes / 8)
        return int(np.clip(page // 64 * 64, 512, 1 << 20))

    @cached_property
    def units(self) -> npt.NDArray[np.int64] | None:
        """Slots of every sample by id, where they differ."""
        return None if self.samples is None else -(-self.samples // self.slot)

    @cached_property
    def mean_units(self) -> float:
        """Slots of a sample, on average."""
        return 1.0 if self.units is None else float(self.units.mean())

    @cached_property
    def largest_step_units(self) -> int:
        """Slots that the largest possible step takes."""
        batch = self.run.steps.global_batch_size
        if self.units is None:
            return batch
        return int(np.sort(self.units)[-batch:].sum())

    @cached_property
    def batch(self) -> int:
        """Bytes of the largest possible batch as it is delivered."""
        rows = min(self.run.steps.global_batch_size, self.run.steps.used)
        fixed = sum(f.nbytes * rows + FIELD_ALIGNMENT for f in self.layout.fields if not f.ragged)
        for f in self.layout.fields:
            if f.ragged:
                fixed += int(np.sort(f.parts[0].segments.nbytes)[-rows:].sum()) + FIELD_ALIGNMENT
        return max(fixed, 1)

    @cached_property
    def tables(self) -> int:
        """Bytes of the layout's own tables."""
        arrays = [a for p in self.layout.parts for a in (p.segments.first, p.segments.file, p.segments.offset)]
        total = sum(a.nbytes for a in arrays) * 2
        total += sum(f.shapes.nbytes for f in self.layout.fields if f.shapes is not None)
        return total + (0 if self.layout.location is None else self.layout.location.nbytes)

    def resident_units(self, resident: int) -> int:
        """Slots of the first `resident` locations."""
        if self.units is None:
            return resident
        if self.layout.location is None:
            return int(self.units[:resident].sum())
        return int(self.units[self.layout.location < resident].sum())

    def resident_fitting(self, nbytes: float) -> int:
        """How many of the first locations fit into `nbytes`, with the tables that keeping them takes."""
        if self.units is None:
            return int(max(0, min(self.layout.n, nbytes // (self.slot + resident_table("static")))))
        by_location = self.units
        if self.layout.location is not None:
            by_location = np.empty_like(self.units)
            by_location[self.layout.location] = self.units
        return int(np.searchsorted(np.cumsum(by_location * self.slot + resident_table("static")), nbytes, side="right"))


def resident_table(residency: str) -> int:
    """Bytes of bookkeeping for one resident sample (cells, hash and heap or list of native/kernels/residency.cpp)."""
    return {"none": 0, "static": 5, "next-use": 60, "lru": 40}[residency]


def ring_nbytes(positions: int) -> int:
    """Bytes of the table of positions under way: it doubles, and for a moment both copies exist.

    The first `TABLE_FLOOR` bytes are part of the constant that every process pays.
    """
    size = 1024
    while size < positions:
        size *= 2
    return max(0, size * POSITION_NBYTES * 3 // 2 + positions * ENTRY_NBYTES - TABLE_FLOOR)


def spendable(*, sizes: Sizes, batches: int) -> int:
    """What is left for the arena and its tables when the batches and the layout are paid; PlanError if nothing is."""
    run = sizes.run
    needed = sizes.tables + (batches + HELD_BATCHES) * sizes.batch
    if needed > run.memory:
        raise PlanError(
            f"memory={run.memory:,} bytes cannot hold {batches} batches under way and {HELD_BATCHES} in use, of "
            f"{sizes.batch:,} bytes each (with {sizes.tables:,} bytes of tables: {needed:,}): give at least that much "
            f"memory, or a batch smaller than {run.steps.global_batch_size:,} samples"
        )
    return run.memory - needed
