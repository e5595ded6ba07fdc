"""What are the values of these samples? The slow, obvious answer that every fast path is compared with.

One `pread` per sample and part, straight from the layout's extents, with every check that a file can be given: its size
and time, the length of every read. For tests, `inspect` and small looks; training reads go through the runtime.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import InputError, ReadError
from headrace.formats.check import changed_file, truncated_file
from headrace.values.layout import I64, Field, Layout, Part

Values = npt.NDArray[Any] | list[npt.NDArray[Any]]


def read_samples(layout: Layout, ids: npt.ArrayLike) -> dict[str, Values]:
    """The values of each field for the given ids, in their order: an array, or a list of arrays for a ragged field."""
    wanted = np.asarray(ids)
    if wanted.ndim != 1 or (len(wanted) and wanted.dtype.kind not in "iu"):
        raise InputError(f"read takes a row of sample ids, not {wanted.dtype} of shape {wanted.shape}")
    wanted = wanted.astype(np.int64)
    outside = (wanted < 0) | (wanted >= layout.n)
    if outside.any():
        raise InputError(f"sample id {wanted[outside][0]:,} does not exist: ids go from 0 to {layout.n - 1:,}")
    with ExitStack() as stack:
        reader = _Reader(layout, stack)
        return {f.name: _read_field(reader, f, wanted) for f in layout.fields}


def _read_field(reader: _Reader, field: Field, ids: I64) -> Values:
    samples = [_read_sample(reader, field, int(i)) for i in ids]
    if field.shape is None:
        return samples
    return np.stack(samples) if samples else np.empty((0, *field.shape), field.dtype)


def _read_sample(reader: _Reader, field: Field, sample: int) -> npt.NDArray[Any]:
    shape = field.shape if field.shapes is None else tuple(int(d) for d in field.shapes[sample])
    assert shape is not None, f"field {field.name!r} has neither shape nor shapes"
    out = np.empty(shape, field.stored)
    for part in field.parts:
        data = reader.read(field, part, sample)
        if part.box is None:
            out = np.frombuffer(data, field.stored).reshape(shape)
        else:
            box = part.box
            stored = np.frombuffer(data, field.stored).reshape(box.stored)
            place = tuple(slice(o, o + v) for o, v in zip(box.origin, box.valid, strict=True))
            out[place] = stored[tuple(slice(0, v) for v in box.valid)]
    return out.astype(field.dtype)


class _Reader:
    """Opens each file once, compares it with what the layout recorded, and reads whole extents or fails by name."""

    def __init__(self, layout: Layout, stack: ExitStack) -> None:
        self._layout = layout
        self._stack = stack
        self._open: dict[int, int] = {}

    def read(self, field: Field, part: Part, sample: int) -> bytes:
        """The bytes of one part of one sample."""
        file, offset, nbytes = (int(a[0]) for a in part.segments.locate(np.array([sample], np.int64)))
        record = self._layout.files[file]
        where = f"sample {sample:,} of field {field.name!r} at {offset:,}–{offset + nbytes:,} of {record.path}"
        try:
            descriptor = self._descriptor(file)
            found = os.fstat(descriptor)
            data = os.pread(descriptor, nbytes, offset) if nbytes else b""
            while 0 < len(data) < nbytes:
                more = os.pread(descriptor, nbytes - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except FileNotFoundError:
            raise changed_file(record, None) from None
        except OSError as error:
            message = f"{where} cannot be read: {error.strerror}; check the disk and the file's permissions"
            raise ReadError(message, path=record.path, offset=offset, sample=sample) from error
        if len(data) < nbytes:
            raise truncated_file(
                path=record.path, size=found.st_size, field=field.name, sample=sample, start=offset, nbytes=nbytes
            )
        if (found.st_size, found.st_mtime_ns) != (record.size, record.mtime_ns):
            raise changed_file(record, (found.st_size, found.st_mtime_ns))
        return data

    def _descriptor(self, file: int) -> int:
        if file not in self._open:
            if len(self._open) >= 256:
                # A folder of 100,000 files must not run into the limit of open files: start over with none.
                self._stack.close()
                self._open.clear()
            self._open[file] = os.open(self._layout.files[file].path, os.O_RDONLY | os.O_CLOEXEC)
            self._stack.callback(os.close, self._open[file])
        return self._open[file]
