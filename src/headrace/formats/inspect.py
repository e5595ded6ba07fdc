"""What is in this dataset? Facts for the command line, as values that JSON can hold."""

from __future__ import annotations

from typing import Any

from headrace.formats.dataset import Dataset
from headrace.formats.map import MapDataset
from headrace.formats.opening import open
from headrace.values.layout import Field

FILES_SHOWN = 20


def inspect(source: Any, fields: Any = None, *, format: str | None = None, **options: Any) -> dict[str, Any]:
    """Facts about a path (with the arguments of `open`) or about a dataset that is open."""
    dataset = source if isinstance(source, Dataset | MapDataset) else open(source, fields, format=format, **options)
    layout = dataset.layout
    return {
        "format": layout.format,
        "n": layout.n,
        "fields": [_field_facts(f) for f in layout.fields],
        "file_count": len(layout.files),
        "file_bytes": sum(f.size for f in layout.files),
        "files": [{"path": f.path, "bytes": f.size} for f in layout.files[:FILES_SHOWN]],
        "bytes": layout.nbytes,
        "bytes_per_sample": layout.sample_nbytes,
        "segments": sum(len(p.segments.first) for p in layout.parts),
        "storage_order": "ids" if layout.location is None else "table",
        "fingerprint": layout.fingerprint,
        "notes": list(layout.notes),
    }


def _field_facts(field: Field) -> dict[str, Any]:
    segments = field.parts[0].segments
    return {
        "name": field.name,
        "dtype": str(field.dtype),
        "stored": str(field.stored),
        "shape": None if field.shape is None else list(field.shape),
        "ragged": field.ragged,
        "bytes_per_sample": segments.fixed
        if len(field.parts) == 1
        else sum(p.segments.fixed or 0 for p in field.parts),
        "parts": len(field.parts),
        "segments": sum(len(p.segments.first) for p in field.parts),
    }
