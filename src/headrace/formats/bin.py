"""Where are the samples of a file of fixed records?

A header of known size, then one record after the other. A record is one value or array of a dtype, or a struct, whose
members are then the fields: each lies in every record at its own offset.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import FieldError, FormatError, InputError, UnsupportedError
from headrace.formats.assemble import assemble_layout
from headrace.formats.names import field_names, missing_name
from headrace.formats.paths import Source
from headrace.formats.segments import make_segments, merge_segments
from headrace.values.layout import Field, File, Layout, Part


def open_layout(
    source: Source,
    fields: str | Sequence[str] | Mapping[str, str] | None,
    *,
    suffixes: Sequence[str],
    dtype: npt.DTypeLike | None = None,
    shape: int | Sequence[int] = (),
    header: int = 0,
) -> Layout:
    """The records of all files, one file after the other."""
    record = _record_dtype(source, dtype)
    dims = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(d) for d in shape)
    if header < 0 or any(d < 1 for d in dims):
        raise InputError(f"header={header} and shape={dims} must not be negative, and no dimension 0")
    size = record.itemsize * prod(dims)
    files = [_file(path) for path in source.files(suffixes)]
    counts = [_count(f, size=size, header=header) for f in files]
    made = [
        _field(name, stored, inner, counts=counts, offset=header + at, stride=size)
        for name, (stored, inner, at) in _members(record, dims, fields, source.items[0]).items()
    ]
    return assemble_layout(format="bin", fields=made, files=files)


def _record_dtype(source: Source, dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    if dtype is None:
        raise InputError(f"{source.items[0]}: fixed records need dtype=, and shape= and header= where they have them")
    try:
        record = np.dtype(dtype)
    except TypeError as error:
        raise InputError(f"dtype={dtype!r} is no NumPy dtype: {error}") from error
    if record.hasobject or record.itemsize == 0:
        raise UnsupportedError(f"dtype={record} has no fixed size in a file: use numbers, S, U or V of a fixed length")
    return record


def _file(path: str) -> File:
    try:
        facts = os.stat(path)
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}; check the path and its permissions") from error
    return File(path=path, size=facts.st_size, mtime_ns=facts.st_mtime_ns)


def _count(file: File, *, size: int, header: int) -> int:
    """The number of records in a file, which must come out even."""
    if file.size < header:
        raise FormatError(
            f"{file.path} has {file.size:,} bytes, fewer than header={header:,}: check header=, or the file"
        )
    count, left = divmod(file.size - header, size)
    if left:
        raise FormatError(
            f"{file.path} has {file.size:,} bytes: behind header={header:,}, {count:,} records of {size:,} bytes leave "
            f"{left:,} bytes over. dtype=, shape= or header= does not fit, or the file was cut: check them or the file"
        )
    return count


def _members(
    record: np.dtype[Any], dims: tuple[int, ...], fields: Any, where: str
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]:
    """{delivered name: (dtype, shape, offset inside the record)}: the members of a struct, or the record as a whole."""
    wanted = field_names(fields)
    if record.fields is None or dims:
        if wanted is not None and len(wanted) != 1:
            raise FieldError(
                f"{where}: a record of {record} has one value, so fields= takes one name, not {list(wanted)!r}"
            )
        base, inner = record.subdtype or (record, ())
        return {next(iter(wanted or {"data": ""})): (base, dims + inner, 0)}
    names = list(record.names or ())
    out = {}
    for new, member in (wanted or {name: name for name in names}).items():
        if member not in names:
            raise missing_name(member, known=names, where=f"{where}: the record")
        kind, at = record.fields[member][:2]
        base, inner = kind.subdtype or (kind, ())
        out[new] = (base, inner, at)
    return out


def _field(
    name: str, stored: np.dtype[Any], shape: tuple[int, ...], *, counts: Sequence[int], offset: int, stride: int
) -> Field:
    segments = make_segments(
        counts=counts,
        file=np.arange(len(counts)),
        offset=offset,
        stride=stride,
        nbytes=prod(shape) * stored.itemsize,
    )
    return Field(name=name, stored=stored, shape=shape, parts=(Part(merge_segments(segments)),))
