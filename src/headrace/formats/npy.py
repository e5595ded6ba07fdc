"""Where are the samples of .npy files?

One big array whose first axis counts the samples, or many files of one sample each (of equal shapes, or of different
ones: a ragged field), or many files of several samples each. `per_file` says which: "rows" (the default for a single
file) or "sample" (the default for several).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from headrace.errors import FieldError, InputError, UnsupportedError
from headrace.formats.assemble import assemble_layout
from headrace.formats.check import truncated_file
from headrace.formats.names import field_names
from headrace.formats.npy_header import Header, HeaderReader
from headrace.formats.paths import Source, make_source
from headrace.formats.scan import map_paths
from headrace.formats.segments import make_segments, merge_segments
from headrace.values.layout import I64, Field, File, Layout, Part


def open_layout(
    source: Source,
    fields: str | Sequence[str] | Mapping[str, str] | None,
    *,
    suffixes: Sequence[str],
    per_file: str | Mapping[str, str] | None = None,
) -> Layout:
    """One field per array or pattern. `fields` names the one field, or maps names to patterns below the folder."""
    made: list[Field] = []
    files: list[File] = []
    reader = HeaderReader()
    for name, paths in _field_paths(source, fields, suffixes).items():
        mode = per_file.get(name) if isinstance(per_file, Mapping) else per_file
        found = map_paths(reader.read, paths)
        records = [File(path=p, size=size, mtime_ns=time) for p, (_, size, time) in zip(paths, found, strict=True)]
        headers = [header for header, _, _ in found]
        first_file = len(files)
        files.extend(records)
        made.append(_make_field(name, headers, records, rows=_is_rows(mode, len(paths)), first_file=first_file))
    return assemble_layout(format="npy", fields=made, files=files)


def _field_paths(
    source: Source, fields: str | Sequence[str] | Mapping[str, str] | None, suffixes: Sequence[str]
) -> dict[str, list[str]]:
    """The files of each field, in the order of their samples."""
    wanted = field_names(fields)
    if not isinstance(fields, Mapping):
        names = list(wanted or {"data": "data"})
        if len(names) > 1:
            raise InputError(
                f"fields={names!r}: .npy files have no names inside; map each field to its files: "
                'fields={"x": "x/*.npy", "y": "y.npy"}'
            )
        return {names[0]: source.files(suffixes)}
    if not source.root:
        raise InputError(
            f"fields={dict(fields)!r} maps names to files below a folder, but {source.items[0]} is not a folder"
        )
    return {
        name: make_source(os.path.join(source.root, pattern)).files(suffixes)
        for name, pattern in (wanted or {}).items()
    }


def _is_rows(mode: str | None, count: int) -> bool:
    if mode not in (None, "rows", "sample"):
        raise InputError(f'per_file={mode!r}: it is "rows" (many samples in a file) or "sample" (one file, one sample)')
    return mode == "rows" or (mode is None and count == 1)


def _make_field(name: str, headers: Sequence[Header], records: Sequence[File], *, rows: bool, first_file: int) -> Field:
    """The field whose samples lie in these files."""
    # Equal headers are one object, so that what is asked of every header is asked of few.
    kinds = {id(h): (h, i) for i, h in reversed(list(enumerate(headers)))}
    _check_kinds(name, list(kinds.values()), records, rows=rows)
    _check_sizes(name, headers, records, rows=rows)
    stored, inner = headers[0].stored, headers[0].shape[1:]
    shapes: I64 | None = None
    if rows:
        counts = np.array([h.shape[0] for h in headers], np.int64)
        nbytes = np.full(len(headers), int(np.prod(inner, dtype=np.int64)) * stored.itemsize, np.int64)
    else:
        counts = np.ones(len(headers), np.int64)
        nbytes = np.array([h.nbytes for h in headers], np.int64)
        if any(h.shape != headers[0].shape for h, _ in kinds.values()):
            shapes = np.array([h.shape for h in headers], np.int64)
        inner = headers[0].shape
    if shapes is None and 0 in inner:
        raise FieldError(f"{records[0].path}: samples of shape {inner} hold no bytes; leave field {name!r} out")
    segments = make_segments(
        counts=counts,
        file=np.arange(first_file, first_file + len(headers)),
        offset=[h.offset for h in headers],
        stride=nbytes,
        nbytes=nbytes,
    )
    shape = inner if shapes is None else None
    return Field(name=name, stored=stored, shape=shape, parts=(Part(merge_segments(segments)),), shapes=shapes)


def _check_kinds(name: str, kinds: Sequence[tuple[Header, int]], records: Sequence[File], *, rows: bool) -> None:
    """All files of a field have one dtype; their shapes agree as far as they must."""
    head, first = min(kinds, key=lambda k: k[1])
    for header, i in kinds:
        if header.stored != head.stored:
            raise FieldError(
                f"field {name!r} is {head.stored!r} in {records[first].path} but {header.stored!r} in "
                f"{records[i].path}: files of one field must have one dtype"
            )
        if rows and (not header.shape or header.shape[1:] != head.shape[1:]):
            raise FieldError(
                f"{records[i].path} has shape {header.shape}, which does not hold samples of shape {head.shape[1:]} "
                f'along its first axis (as {records[first].path} does); for one sample per file use per_file="sample"'
            )
        if not rows and len(header.shape) != len(head.shape):
            raise UnsupportedError(
                f"field {name!r} has {len(head.shape)} dimensions in {records[first].path} but {len(header.shape)} in "
                f"{records[i].path}: ragged samples may differ in shape, not in the number of dimensions"
            )


def _check_sizes(name: str, headers: Sequence[Header], records: Sequence[File], *, rows: bool) -> None:
    """Every file holds the array that its header announces; the first sample that is cut is named."""
    first = 0
    for header, record in zip(headers, records, strict=True):
        if header.offset + header.nbytes > record.size:
            nbytes = header.nbytes // header.shape[0] if rows else header.nbytes
            whole = max(record.size - header.offset, 0) // nbytes if rows else 0
            raise truncated_file(
                path=record.path,
                size=record.size,
                field=name,
                sample=first + whole,
                start=header.offset + whole * nbytes,
                nbytes=nbytes,
            )
        first += header.shape[0] if rows else 1
