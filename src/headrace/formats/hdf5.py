"""Where are the samples of an HDF5 file?

h5py opens the file and tells where each dataset's bytes lie; nothing is read through it. Datasets must be stored as
they are in memory: contiguous, or in chunks without filters. At which bytes they lie is the answer of `hdf5_extents`,
what their types are in memory that of `hdf5_types`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.errors import FieldError, FormatError, InputError, TruncatedFileError, UnsupportedError
from headrace.formats.assemble import assemble_layout
from headrace.formats.hdf5_extents import unreadable, whole_extents
from headrace.formats.hdf5_file import import_h5py, open_hdf5
from headrace.formats.hdf5_types import no_fixed_dtype, stored_dtype
from headrace.formats.joining import join_fields
from headrace.formats.names import field_names, missing_name
from headrace.formats.paths import Source
from headrace.values.layout import Field, File, Layout


def open_layout(
    source: Source, fields: str | Sequence[str] | Mapping[str, str] | None, *, suffixes: Sequence[str]
) -> Layout:
    """The samples of all files, one file after the other. The first file says which fields there are."""
    wanted = field_names(fields)
    taken = _Taken()
    for path in source.files(suffixes):
        wanted = _take_file(path, wanted=wanted, taken=taken)
    if not taken.files:
        if taken.lost is not None:
            raise taken.lost
        raise InputError(f"{source.items[0]} holds no samples: every dataset has length 0")
    labels = [f.path for f in taken.files]
    file_maps = [np.array([i], np.int32) for i in range(len(labels))]
    layout = assemble_layout(
        format="hdf5",
        fields=[join_fields(f, labels=labels, file_maps=file_maps) for f in taken.fields.values()],
        files=taken.files,
        notes=taken.notes,
    )
    if taken.lost is not None:
        raise taken.lost
    return layout


@dataclass
class _Taken:
    """What was taken from the files so far: one entry per file in `files` and in the list of every field."""

    files: list[File] = field(default_factory=list)
    fields: dict[str, list[Field]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost: TruncatedFileError | None = None


def _take_file(path: str, *, wanted: dict[str, str] | None, taken: _Taken) -> dict[str, str]:
    """Add one file's fields to `taken`; returns which fields are wanted, decided here if they were not."""
    with open_hdf5(path) as (file, record, lost):
        taken.lost = taken.lost or lost
        if wanted is None:
            wanted, notes = _choose_fields(file, path)
            taken.notes.extend(notes)
        datasets = {name: _find_dataset(file, stored, path) for name, stored in wanted.items()}
        lengths = {wanted[name]: d.shape[0] for name, d in datasets.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name!r} has {n:,}" for name, n in lengths.items())
            raise FieldError(
                f"{path}: fields differ in their number of samples: {listed}; name only fields of one length"
            )
        if next(iter(lengths.values())) == 0:
            taken.notes.append(f"{os.path.basename(path)} holds no samples")
            return wanted
        for name, dataset in datasets.items():
            taken.fields.setdefault(name, []).append(_take_field(name, dataset, path))
        taken.files.append(record)
    return wanted


def _take_field(name: str, dataset: Any, path: str) -> Field:
    reason = unreadable(dataset)
    if reason is not None:
        raise UnsupportedError(f"{path}: dataset {dataset.name!r} {reason}")
    stored, inner = stored_dtype(dataset.id.get_type(), where=f"{path}: dataset {dataset.name!r}")
    shape = tuple(int(d) for d in dataset.shape[1:]) + inner
    if 0 in shape:
        raise FieldError(
            f"{path}: dataset {dataset.name!r} has samples of shape {shape}: they hold no bytes; leave it out"
        )
    return Field(name=name, stored=stored, shape=shape, parts=whole_extents(dataset, path, stored=stored, inner=inner))


def _find_dataset(file: Any, name: str, path: str) -> Any:
    """The dataset of that name, of at least one dimension."""
    h5py = import_h5py()
    try:
        found = file.get(name)
    except (KeyError, OSError) as error:
        raise FormatError(f"{path}: the entry {name!r} cannot be opened: {error}; the file may be damaged") from error
    if isinstance(found, h5py.Dataset):
        if found.file.filename != file.filename:
            raise UnsupportedError(f"{path}: {name!r} is a link into {found.file.filename}: open that file instead")
        if not found.shape:
            raise FieldError(f"{path}: dataset {name!r} is a single value, not one value per sample")
        return found
    known = _dataset_names(file)
    if isinstance(found, h5py.Group):
        inside = [k for k in known if k.startswith(name.strip("/") + "/")]
        raise FieldError(
            f"{path}: {name!r} is a group, not a dataset; it holds {', '.join(map(repr, inside)) or 'none'}"
        )
    raise missing_name(name, known=known, where=path)


def _dataset_names(file: Any) -> list[str]:
    h5py = import_h5py()
    names: list[str] = []

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            names.append(name)

    file.visititems(visit)
    return names


def _choose_fields(file: Any, path: str) -> tuple[dict[str, str], list[str]]:
    """All datasets as long as the largest one, and notes on those that were left out.

    What merely cannot be read (a filter, a layout) is kept, so that it is refused by name, not left out silently.
    """
    names = _dataset_names(file)
    left: dict[str, str] = {}
    for name in names:
        dataset = file[name]
        reason = "is a single value" if not dataset.shape else no_fixed_dtype(dataset.id.get_type())
        if reason is not None:
            left[name] = reason
    candidates = [n for n in names if n not in left]
    if not candidates:
        listed = "; ".join(f"{name!r} {reason}" for name, reason in left.items())
        raise FieldError(f"{path} has no dataset with one fixed-size value per sample{': ' + listed if listed else ''}")
    length = max(candidates, key=lambda n: (file[n].nbytes, n))
    n = file[length].shape[0]
    for name in candidates:
        if file[name].shape[0] != n:
            left[name] = f"has {file[name].shape[0]:,} entries where {length!r} has {n:,}"
    notes = [f"left out of {os.path.basename(path)}: {name!r} {left[name]}" for name in names if name in left]
    return {name: name for name in candidates if name not in left}, notes
