"""What `expand` hands to the runtime and to the simulator: the mechanical work of one span of positions.

Addresses are bytes in one of two spaces: the *arena* (the loader's long-lived memory) and the *batch* of one step
(row-major arrays of its fields, one after the other). The runtime needs no other knowledge: it reads, it copies.

A span's reads may be issued once every step below `after` has been gathered (its slots are then free). A step of the
span is gathered once all reads of this and of earlier spans are complete: its copies are then done in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

READ = np.dtype([("file", "<i4"), ("pieces", "<i4"), ("first", "<i8"), ("offset", "<i8"), ("nbytes", "<i8")])
"""One I/O operation: `nbytes` at `offset` of `file`; its pieces are `pieces[first : first + pieces]`."""

PIECE = np.dtype(
    [("offset", "<i8"), ("nbytes", "<i8"), ("dest", "<i8"), ("id", "<i8"), ("step", "<i4"), ("part", "<i4")]
)
"""Where bytes of a read go: file offset, size, and `dest`: in the arena (`step` = -1), or in the batch of `steps[step]`
of the same span. `id` and `part` name the sample for errors. Pieces of a read ascend and do not overlap; bytes between
them are read and dropped."""

COPY = np.dtype([("arena", "<i8"), ("batch", "<i8"), ("nbytes", "<i8"), ("kind", "<i4"), ("box", "<i4")])
"""One copy of a step: see GATHER, KEEP, REPEAT and BOX."""

GATHER, KEEP, REPEAT, BOX = 0, 1, 2, 3
"""Kinds of copy: arena to batch; batch to arena; batch (at address `arena`) to batch; arena to batch through `box`."""

STEP = np.dtype(
    [("step", "<i8"), ("position", "<i8"), ("rows", "<i8"), ("nbytes", "<i8"), ("first", "<i8"), ("copies", "<i8")]
)
"""One step: its number in the run, its first position over the run (epoch × positions used + position), its rows, the
size of its batch, and its copies `copies[first : first + copies]`."""


@dataclass(frozen=True, eq=False)
class SpanPlan:
    """The work of one span. `ids` are the samples of its steps in the order of their rows, one step after the other;
    `offsets` (steps × fields) is where each field's array starts in its batch."""

    index: int
    after: int
    reads: npt.NDArray[np.void]
    pieces: npt.NDArray[np.void]
    copies: npt.NDArray[np.void]
    steps: npt.NDArray[np.void]
    ids: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    hits: int
    held: int
    late: int

    @property
    def nbytes(self) -> int:
        """Bytes that this span reads from storage, gaps included."""
        return int(self.reads["nbytes"].sum())
