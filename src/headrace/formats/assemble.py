"""How does a format's description of its files become a layout?

The last step of every format and of every composition: files that no sample lies in are dropped, the storage order is
noted, bounds are checked. No other module creates a `Layout` with files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace.errors import FieldError, InputError
from headrace.formats.check import check_bounds
from headrace.formats.fingerprint import layout_fingerprint
from headrace.formats.segments import storage_rank
from headrace.values.layout import I64, Field, File, Layout


def assemble_layout(
    *,
    format: str,
    fields: Sequence[Field],
    files: Sequence[File],
    notes: Sequence[str] = (),
    fingerprint: str | None = None,
) -> Layout:
    """A checked layout. Every field has the same number of samples, and every sample lies inside its file."""
    if not fields:
        raise FieldError("a dataset needs at least one field: name one of those that `headrace inspect` lists")
    counts = {f.name: f.parts[0].segments.n for f in fields}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name!r} has {n:,}" for name, n in counts.items())
        raise FieldError(f"fields differ in their number of samples: {listed}; name only fields of one length")
    n = next(iter(counts.values()))
    if n == 0:
        raise InputError(f"{files[0].path if files else 'the dataset'} holds no samples")
    fields, files = _drop_unused(fields, files)
    layout = Layout(
        n=n,
        fields=tuple(fields),
        files=tuple(files),
        fingerprint=fingerprint or layout_fingerprint(format=format, fields=fields, files=files),
        format=format,
        location=_location(fields),
        notes=tuple(notes),
    )
    check_bounds(layout)
    return layout


def _drop_unused(fields: Sequence[Field], files: Sequence[File]) -> tuple[Sequence[Field], Sequence[File]]:
    used = np.zeros(len(files), bool)
    for field in fields:
        for part in field.parts:
            used[part.segments.file] = True
    if used.all():
        return fields, files
    number = (np.cumsum(used) - 1).astype(np.int32)

    def renumber(field: Field) -> Field:
        parts = tuple(replace(p, segments=replace(p.segments, file=number[p.segments.file])) for p in field.parts)
        return replace(field, parts=parts)

    return [renumber(f) for f in fields], [files[i] for i in np.flatnonzero(used).tolist()]


def _location(fields: Sequence[Field]) -> I64 | None:
    """The storage order of the heaviest part: where fields lie apart, the largest decides what a sequential read is."""
    heaviest = max((p for f in fields for p in f.parts), key=lambda p: int(p.segments.nbytes.mean() * p.segments.n))
    return storage_rank(heaviest.segments)
