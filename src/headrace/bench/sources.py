"""What does the format's own library read? h5py, `np.load` and `np.memmap`, as a training script would use them.

A source has samples 0..n-1 in the order of the files. Files are opened in the process that reads them, since an open
HDF5 file does not survive a fork. `item` reads one sample; `rows` fills arrays with several, in one of these ways:

- "each": one after the other, as they come;
- "fancy": one selection with all (ascending) ids of a file; in HDF5 with the sieve buffer off;
- "slabs": of HDF5, one hyperslab after the other by the low-level calls of h5py, straight into the batch.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.bench.values import Spec
from headrace.errors import UnsupportedError

I64 = npt.NDArray[np.int64]
Arrays = dict[str, Any]


class Source(ABC):
    """Samples in files that hold rows: what differs between formats is how a file is opened."""

    def __init__(self, spec: Spec, way: str = "each") -> None:
        self.files = spec.files
        self.fields = spec.fields
        self.options = spec.options
        self.way = way
        self._kept: dict[int, Arrays] = {}
        self._pid = -1
        self.starts: I64 = np.zeros(1, np.int64)
        self.kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        counts = []
        for number in range(len(self.files)):
            arrays = self._open(number)
            counts.append(len(next(iter(arrays.values()))))
            if not number:
                self.kinds = {name: (a.dtype.newbyteorder("="), tuple(a.shape[1:])) for name, a in arrays.items()}
            self._close(arrays)
        self.starts = np.cumsum([0, *counts])

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.starts[-1])

    def item(self, sample: int) -> Arrays:
        """The values of one sample."""
        number = int(np.searchsorted(self.starts, sample, side="right")) - 1
        row = sample - int(self.starts[number])
        return {name: array[row] for name, array in self._arrays(number).items()}

    def rows(self, ids: I64) -> Arrays:
        """The values of several samples; `ids` must ascend unless the way is "each"."""
        out = {name: np.empty((len(ids), *shape), dtype) for name, (dtype, shape) in self.kinds.items()}
        if self.way == "each":
            for k, sample in enumerate(ids.tolist()):
                for name, value in self.item(sample).items():
                    out[name][k] = value
            return out
        cuts = np.searchsorted(ids, self.starts)
        for number, (start, stop) in enumerate(pairwise(cuts)):
            if start < stop:
                where = ids[start:stop] - self.starts[number]
                for name, array in self._arrays(number).items():
                    self._fill(array, where, out[name][start:stop])
        return out

    def _arrays(self, number: int) -> Arrays:
        if self._pid != os.getpid():
            self._kept, self._pid = {}, os.getpid()
        if number not in self._kept:
            self._kept[number] = self._open(number)
        return self._kept[number]

    @abstractmethod
    def _open(self, number: int) -> Arrays:
        """The arrays of one file, by field."""

    def _close(self, arrays: Arrays) -> None:
        """Let go of what `_open` gave."""
        arrays.clear()

    def _fill(self, array: Any, rows: I64, out: npt.NDArray[Any]) -> None:
        out[:] = array[rows]


class Hdf5(Source):
    """Datasets of HDF5 files through h5py."""

    def _open(self, number: int) -> Arrays:
        import h5py

        path = self.files[number]
        if self.way == "each":
            file = h5py.File(path, "r")
        else:
            access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
            access.set_sieve_buf_size(0)
            file = h5py.File(h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY, fapl=access))
        return {name: file[name] for name in self.fields}

    def _close(self, arrays: Arrays) -> None:
        next(iter(arrays.values())).file.close()

    def _fill(self, array: Any, rows: I64, out: npt.NDArray[Any]) -> None:
        if self.way == "fancy":
            array.read_direct(out, rows)
            return
        import h5py

        space, read = array.id.get_space(), array.id.read
        inner = tuple(array.shape[1:])
        memory, kind = h5py.h5s.create_simple(inner or (1,)), h5py.h5t.py_create(out.dtype)
        zeros, count = (0,) * len(inner), (1, *inner)
        for k, row in enumerate(rows.tolist()):
            space.select_hyperslab((row, *zeros), count)
            read(memory, space, out[k : k + 1] if not inner else out[k], kind)


class NpyRows(Source):
    """Arrays whose first axis counts the samples, mapped by `np.load`."""

    def _open(self, number: int) -> Arrays:
        return {self.fields[0]: np.load(self.files[number], mmap_mode="r")}


class NpyFiles(Source):
    """Files of one sample each through `np.load`."""

    def __init__(self, spec: Spec, way: str = "each") -> None:
        self.files, self.fields, self.way = spec.files, spec.fields, way
        self.starts = np.arange(len(self.files) + 1)
        first = np.load(self.files[0])
        self.kinds = {self.fields[0]: (first.dtype.newbyteorder("="), first.shape)}

    def _open(self, number: int) -> Arrays:
        return {self.fields[0]: np.load(self.files[number])}

    def item(self, sample: int) -> Arrays:
        """The values of one sample."""
        return self._open(sample)

    def rows(self, ids: I64) -> Arrays:
        """The values of several samples, file after file."""
        dtype, shape = self.kinds[self.fields[0]]
        out = np.empty((len(ids), *shape), dtype)
        for k, sample in enumerate(ids.tolist()):
            out[k] = np.load(self.files[sample])
        return {self.fields[0]: out}


class Bin(Source):
    """Fixed records through `np.memmap`."""

    def _open(self, number: int) -> Arrays:
        shape = self.options.get("shape") or ()
        record = np.dtype((record_dtype(self.options), tuple(np.atleast_1d(shape)) if shape else ()))
        offset = int(self.options.get("header", 0))
        mapped = np.memmap(self.files[number], np.uint8, mode="r", offset=offset)
        base, inner = record.subdtype or (record, ())
        records = mapped.view(base).reshape(-1, *inner)
        return {name: records[name] if base.names else records for name in self.fields}


def record_dtype(options: Mapping[str, Any]) -> np.dtype[Any]:
    """The dtype of a record, also from JSON, which makes lists of the tuples of a struct."""
    dtype = options.get("dtype")
    return np.dtype([tuple(part) for part in dtype] if isinstance(dtype, list) else dtype)


def open_source(spec: Spec, way: str = "each") -> Source:
    """The source of a spec's format."""
    if spec.format == "hdf5":
        return Hdf5(spec, way)
    if spec.format == "bin":
        return Bin(spec, way)
    if spec.format == "npy":
        several = spec.options.get("per_file") != "rows" and len(spec.files) > 1
        return NpyFiles(spec, way) if several or spec.options.get("per_file") == "sample" else NpyRows(spec, way)
    raise UnsupportedError(f"format {spec.format!r}: bench knows no other reader of it; known: {', '.join(READ_BY)}")


READ_BY: Mapping[str, Sequence[str]] = {"hdf5": ("h5py",), "npy": ("numpy",), "bin": ("numpy",)}
"""The packages that read a format."""
