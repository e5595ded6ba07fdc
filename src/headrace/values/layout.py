"""Where is sample i?

A layout maps sample -> extent. It is kept piecewise affine: a *segment* is a run of samples that lie in one file at a
constant stride. One contiguous array is one segment; a folder of 100,000 arrays is 100,000 segments of one sample; a
ragged dataset is one segment per sample. There is one representation, so every reader of a layout is one loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class File:
    """One file of a dataset, as it was when the layout was taken. `exact` says that nothing may follow the data."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, eq=False)
class Segments:
    """Piecewise-affine extents: samples `first[k] .. first[k+1]-1` lie in `file[k]`, at
    `offset[k] + (i - first[k]) * stride[k]`.

    All arrays have one entry per segment; `first` ascends from 0; `n` ends the last segment. Every sample of a segment
    has `nbytes[k]` bytes.
    """

    n: int
    first: I64
    file: I32
    offset: I64
    stride: I64
    nbytes: I64

    def find(self, ids: I64) -> I64:
        """The segment of each sample id."""
        if len(self.first) == 1:
            return np.zeros(len(ids), np.int64)
        if len(self.first) == self.n:
            return ids
        return np.searchsorted(self.first, ids, side="right").astype(np.int64) - 1

    def locate(self, ids: I64) -> tuple[I32, I64, I64]:
        """(file, offset, nbytes) of each sample id."""
        k = self.find(ids)
        return self.file[k], self.offset[k] + (ids - self.first[k]) * self.stride[k], self.nbytes[k]

    @cached_property
    def fixed(self) -> int | None:
        """The size of every sample, or None where sizes differ."""
        return int(self.nbytes[0]) if self.n and bool((self.nbytes == self.nbytes[0]).all()) else None


@dataclass(frozen=True)
class Box:
    """A part that is a box of its sample: a storage chunk that cuts the sample's own dimensions.

    The stored bytes are a row-major array of `stored` elements (edge chunks are stored whole); of it, the leading
    `valid` elements of each dimension go to `origin` in the sample.
    """

    stored: tuple[int, ...]
    valid: tuple[int, ...]
    origin: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """What storage gives back for one field of one sample in one piece. A field has one part unless chunks cut it."""

    segments: Segments
    box: Box | None = None


@dataclass(frozen=True, eq=False)
class Field:
    """A named array of a sample.

    `stored` is the dtype on storage (any byte order); `dtype` what is delivered (native byte order). `shape` is None
    for a ragged field, whose `shapes` then holds the shape of every sample (n × ndim).
    """

    name: str
    stored: np.dtype[np.generic]
    shape: tuple[int, ...] | None
    parts: tuple[Part, ...]
    shapes: I64 | None = None

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The delivered dtype: the stored one in this machine's byte order."""
        return self.stored.newbyteorder("=")

    @property
    def ragged(self) -> bool:
        """Whether the shape differs from sample to sample."""
        return self.shape is None

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one delivered sample of a fixed field."""
        if self.shape is None:
            raise ValueError(f"field {self.name!r} is ragged: its size differs from sample to sample")
        return int(np.prod(self.shape, dtype=np.int64)) * self.stored.itemsize

    @property
    def plain(self) -> bool:
        """Whether a sample's stored bytes are its delivered bytes, in one extent."""
        return len(self.parts) == 1 and self.parts[0].box is None


@dataclass(frozen=True, eq=False)
class Layout:
    """The samples 0..n-1 of a dataset: their fields and the files that hold them.

    `location` gives the rank of each sample in storage order, where that is not the order of ids; None otherwise.
    `fingerprint` names the content's identity: paths' base names, sizes, times and the fields.
    """

    n: int
    fields: tuple[Field, ...]
    files: tuple[File, ...]
    fingerprint: str
    format: str
    location: I64 | None = None
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts of all fields, in the fields' order."""
        return tuple(p for f in self.fields for p in f.parts)

    @cached_property
    def sample_nbytes(self) -> float:
        """Mean stored bytes of a sample, over all fields."""
        return self.nbytes / max(self.n, 1)

    @cached_property
    def nbytes(self) -> int:
        """Stored bytes of all samples."""
        total = 0
        for part in self.parts:
            s = part.segments
            counts = np.diff(np.append(s.first, s.n))
            total += int((counts * s.nbytes).sum())
        return total

    @cached_property
    def fixed(self) -> bool:
        """Whether every sample has the same stored size in every part."""
        return all(p.segments.fixed is not None for p in self.parts)
