"""Where are the samples of the original dataset, and how are they read?

A folder of HDF5 files with the datasets `x` (a sample a row) and perhaps `y` (labels), or a folder of .npy files of one
sample each. Sample i is row i of the files in the order of their names. Every peer that converts reads through this,
and so do those that take the user's own reading code. Needs numpy, and h5py for HDF5.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 8 << 20  # bytes of x that a conversion reads at once


@dataclass(frozen=True)
class Field:
    """One array of a sample."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of one sample of it."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Source:
    """A dataset as it lies on disk."""

    kind: str  # hdf5 or npy
    files: tuple[Path, ...]
    counts: tuple[int, ...]
    fields: tuple[Field, ...]

    @cached_property
    def ends(self) -> np.ndarray:
        """The first id behind each file."""
        return np.cumsum(self.counts)

    @property
    def samples(self) -> int:
        """How many there are."""
        return int(sum(self.counts))

    @property
    def sample_nbytes(self) -> int:
        """Bytes of one sample, all fields."""
        return sum(field.nbytes for field in self.fields)

    @property
    def nbytes(self) -> int:
        """Bytes of all samples."""
        return self.samples * self.sample_nbytes

    def chunks(self) -> Iterator[tuple[np.ndarray, ...]]:
        """All samples in order, in runs of some megabytes: one array a field."""
        step = max(CHUNK // self.sample_nbytes, 1)
        rows = Rows(self)
        for first in range(0, self.samples, step):
            yield rows.run(first, min(first + step, self.samples))

    def each(self) -> Iterator[tuple[np.ndarray, ...]]:
        """All samples in order, one after the other."""
        for chunk in self.chunks():
            yield from zip(*chunk, strict=True)

    def batches(self, *, epoch: int, seed: int, batch_size: int) -> list[np.ndarray]:
        """The ids of an epoch's batches in a uniform shuffle, for peers that leave the order to the user."""
        order = np.random.default_rng((seed, epoch)).permutation(self.samples)
        return [order[first : first + batch_size] for first in range(0, self.samples, batch_size)]


def open_source(folder: str | os.PathLike[str]) -> Source:
    """The dataset in a folder."""
    files = tuple(sorted(path for path in Path(folder).iterdir() if path.suffix in (".h5", ".hdf5", ".npy")))
    if not files:
        raise ValueError(f"{folder} holds no .h5, .hdf5 or .npy file: name the folder of the dataset")
    if files[0].suffix == ".npy":
        one = np.load(files[0], mmap_mode="r")
        return Source("npy", files, (1,) * len(files), (Field("x", one.dtype, one.shape),))
    import h5py

    counts = []
    for path in files:
        with h5py.File(path, "r") as file:
            counts.append(len(file["x"]))
            found = tuple(Field(n, file[n].dtype, file[n].shape[1:]) for n in ("x", "y") if n in file)
    return Source("hdf5", files, tuple(counts), found)


class Rows:
    """Samples by id. Files are opened by the process that reads, once; may be pickled and used by many threads."""

    def __init__(self, source: Source):
        self.source = source
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._open: dict[
            int, tuple[Any, list[Any]]
        ] = {}  # files and their datasets: a file that nobody holds is closed
        self._lock = threading.Lock()

    def __getstate__(self) -> Source:
        return self.source

    def __setstate__(self, source: Source) -> None:
        self.__init__(source)

    def __len__(self) -> int:
        return self.source.samples

    def __getitem__(self, sample: int) -> tuple[np.ndarray, ...]:
        if not 0 <= sample < len(self):
            raise IndexError(sample)
        return tuple(field[0] for field in self.run(int(sample), int(sample) + 1))

    def run(self, first: int, stop: int) -> tuple[np.ndarray, ...]:
        """The samples first … stop-1."""
        return self.take(np.arange(first, stop))

    def take(self, ids: np.ndarray) -> tuple[np.ndarray, ...]:
        """The samples with these ids, in this order: one array a field. Each file is read in the order of its rows."""
        source = self.source
        out = tuple(np.empty((len(ids), *field.shape), field.dtype) for field in source.fields)
        if source.kind == "npy":
            for place, sample in enumerate(ids):
                out[0][place] = np.load(source.files[sample])
            return out
        places = np.argsort(ids, kind="stable")
        cuts = np.searchsorted(np.asarray(ids)[places], source.ends)
        for file, (begin, end) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
            if begin == end:
                continue
            here = places[begin:end]
            local = np.asarray(ids)[here] - (source.ends[file] - source.counts[file])
            together = local[-1] - local[0] + 1 == len(local)
            rows = slice(int(local[0]), int(local[-1]) + 1) if together else local
            for field, data in zip(out, self._datasets(file), strict=True):
                field[here] = data[rows]
        return out

    def _datasets(self, file: int) -> list[Any]:
        if self._pid != os.getpid():  # a handle that was opened before a fork is shared with the parent: not usable
            self._forget()
        with self._lock:
            if file not in self._open:
                handle = _open_without_sieve(self.source.files[file])
                self._open[file] = handle, [handle[field.name] for field in self.source.fields]
            return self._open[file][1]


def _open_without_sieve(path: Path) -> Any:
    """Open a file so that a row is read by itself: HDF5's sieve buffer would read 64 KiB around each."""
    import h5py

    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_sieve_buf_size(0)
    return h5py.File(h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY, fapl=access))
