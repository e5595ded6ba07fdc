"""How does a path become a dataset?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.errors import InputError
from headrace.formats.dataset import Dataset, join_datasets
from headrace.formats.map import MapDataset, is_map, join_maps, open_map
from headrace.formats.paths import make_source
from headrace.formats.registry import detect_format, find_format, open_layout


def open(
    source: Any,
    fields: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    format: str | None = None,
    **options: Any,
) -> Dataset | MapDataset:
    """Open a dataset: a path, pattern, brace pattern, folder, a list of these, or any map dataset object.

    `fields` names what a sample holds, or maps the names to deliver to the names in the files; None takes all. `format`
    is found by suffix and first bytes where it is not given. Options belong to the format: see the guide to formats.
    """
    if isinstance(source, Dataset | MapDataset):
        raise InputError("open was given a dataset that is open already: use its select, subset, split or concat")
    if format == "map" or (format is None and is_map(source) and not _are_paths(source)):
        if fields is not None:
            raise InputError(f"fields={fields!r}: a map dataset has no fields that could be chosen; use transform=")
        unknown = sorted(set(options) - {"identity"})
        if unknown:
            raise InputError(f"open has no option {unknown[0]}= for format 'map'; its options: identity=")
        return open_map(source, **options)
    _check_no_handle(source)
    if not isinstance(source, str | os.PathLike | Iterable):
        raise InputError(
            f"open takes a path, paths or an object with __len__ and __getitem__, not {type(source).__name__}"
        )
    given = make_source(source)
    chosen = find_format(format) if format is not None else detect_format(given, fields)
    return Dataset(open_layout(chosen, given, fields, options))


def _check_no_handle(source: Any) -> None:
    """Refuse what holds the data or names it in another way, and say what to give instead."""
    path = getattr(source, "filename", None) or getattr(source, "name", None)
    if isinstance(path, str) and hasattr(source, "close") and not isinstance(source, os.PathLike):
        kind = f"{type(source).__module__}.{type(source).__qualname__}"
        raise InputError(f"open was given an open file ({kind}): give its path, {path!r}")
    if isinstance(source, bytes):
        raise InputError(
            f"open was given bytes ({source[:60]!r}): a path is a string or a Path, as os.fsdecode() makes it"
        )
    if isinstance(source, Mapping):
        raise InputError("open was given a mapping: give the folder as path and the mapping as fields=")


def concat(datasets: Iterable[Dataset] | Iterable[MapDataset]) -> Dataset | MapDataset:
    """The samples of all datasets, one after the other. Fields must agree; datasets of files and maps do not mix."""
    given: list[Any] = list(datasets)
    if not given:
        raise InputError("concat needs at least one dataset")
    return join_maps(given) if isinstance(given[0], MapDataset) else join_datasets(given)


def _are_paths(source: Any) -> bool:
    """A list of paths has a length and items too: it is told from a map dataset by its first item."""
    return isinstance(source, list | tuple | set) and (not source or isinstance(next(iter(source)), str | os.PathLike))
