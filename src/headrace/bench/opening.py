"""Which dataset do the contenders read? The one that `headrace.open` gives for the same path, fields and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import headrace
from headrace.bench.sources import READ_BY, record_dtype
from headrace.bench.values import Spec
from headrace.errors import UnsupportedError
from headrace.formats.dataset import Dataset
from headrace.formats.registry import find_format


def load(spec: Spec, *modules: str) -> None:
    """Import, before the clock starts, what opening this format and reading it will import."""
    for name in (find_format(spec.format).module, *READ_BY[spec.format], *modules):
        import_module(name)


def opened(spec: Spec) -> Dataset:
    """The dataset of a spec, opened anew."""
    return _open(spec.paths, spec.fields, spec.format, spec.options)


def described(
    paths: Sequence[str], fields: Sequence[str] | None, format: str | None, options: Mapping[str, Any], **asked: Any
) -> tuple[Spec, Dataset]:
    """The spec of a bench over these paths, and the dataset that it describes."""
    dataset = _open(paths, fields, format, options)
    layout = dataset.layout
    if layout.format not in READ_BY:
        raise UnsupportedError(f"{paths[0]}: bench compares readers of {', '.join(READ_BY)}, not of {layout.format!r}")
    ragged = [one.name for one in layout.fields if one.ragged]
    if ragged:
        raise UnsupportedError(f"{paths[0]}: field {ragged[0]!r} is ragged; bench compares samples of one shape")
    spec = Spec(
        contender="",
        paths=tuple(paths),
        files=tuple(file.path for file in layout.files),
        fields=tuple(dataset.fields),
        format=layout.format,
        samples=layout.n,
        options=dict(options),
        **asked,
    )
    return spec, dataset


def _open(
    paths: Sequence[str], fields: Sequence[str] | None, format: str | None, options: Mapping[str, Any]
) -> Dataset:
    given = dict(options)
    if isinstance(given.get("dtype"), list):
        given["dtype"] = record_dtype(given)
    dataset = headrace.open(
        paths[0] if len(paths) == 1 else list(paths), list(fields) if fields else None, format=format, **given
    )
    assert isinstance(dataset, Dataset), "a path is a dataset of files"
    return dataset
