"""How do the fields and files of several layouts become those of one?

Pure: what comes in are values of files that were looked at before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.errors import ChangedFileError, FieldError, UnsupportedError
from headrace.formats.segments import join_segments
from headrace.values.layout import I32, I64, Field, File, Part


def join_files(tables: Sequence[Sequence[File]]) -> tuple[list[File], list[I32]]:
    """One table of all files, each once, and for each given table the numbers of its files in it."""
    files: list[File] = []
    number: dict[str, int] = {}
    for file in (f for table in tables for f in table):
        known = files[number[file.path]] if file.path in number else None
        if known is None:
            number[file.path] = len(files)
            files.append(file)
        elif known != file:
            raise ChangedFileError(
                f"{file.path} changed between the two times it was opened: first {known.size:,} bytes at "
                f"{known.mtime_ns} ns, then {file.size:,} at {file.mtime_ns} ns; open both datasets again",
                path=file.path,
            )
    return files, [np.array([number[f.path] for f in table], np.int32) for table in tables]


def join_fields(fields: Sequence[Field], *, labels: Sequence[str], file_maps: Sequence[I32]) -> Field:
    """One field of all samples, one field's after the other's. `labels` say in errors where each is from."""
    head = fields[0]
    for other, label in zip(fields, labels, strict=True):
        if other.stored != head.stored or (other.shape != head.shape and not (other.ragged or head.ragged)):
            raise FieldError(
                f"field {head.name!r} is {head.stored!r} of shape {head.shape} in {labels[0]} but {other.stored!r} of "
                f"shape {other.shape} in {label}: only equal fields can be one; open them apart"
            )
        if [p.box for p in other.parts] != [p.box for p in head.parts]:
            raise UnsupportedError(
                f"the chunks of field {head.name!r} cut its samples differently in {labels[0]} ({len(head.parts)} "
                f"parts) and {label} ({len(other.parts)} parts): rewrite one of them with the other's chunk shape"
            )
    parts = tuple(
        Part(join_segments([f.parts[j].segments for f in fields], file_maps=file_maps), box=head.parts[j].box)
        for j in range(len(head.parts))
    )
    if not any(f.ragged for f in fields):
        return replace(head, parts=parts)
    return replace(head, parts=parts, shape=None, shapes=_join_shapes(fields))


def _join_shapes(fields: Sequence[Field]) -> I64:
    """The shapes of all samples; those of fixed fields are written out."""
    tables = [
        f.shapes if f.shapes is not None else np.tile(np.array(f.shape, np.int64), (f.parts[0].segments.n, 1))
        for f in fields
    ]
    if len({t.shape[1] for t in tables}) > 1:
        listed = ", ".join(str(t.shape[1]) for t in tables)
        raise FieldError(f"field {fields[0].name!r} has samples of different numbers of dimensions ({listed})")
    return np.concatenate(tables)
