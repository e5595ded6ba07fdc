"""What is a dataset, and how are datasets cut and joined?

A frozen value around a `Layout`. Every verb returns a new dataset and works on segments alone: no file is opened, no
data is copied, and slices cost the same for ten samples as for ten billion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from headrace.errors import FieldError, InputError
from headrace.formats.assemble import assemble_layout
from headrace.formats.fingerprint import digest, subset_fingerprint
from headrace.formats.joining import join_fields, join_files
from headrace.formats.names import missing_name
from headrace.formats.reference import Values, read_samples
from headrace.formats.segments import Selection, take_segments
from headrace.formats.selection import ids_array, resolve_selection, split_ids
from headrace.values.layout import Field, Layout


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples 0..n-1 and where their bytes are. Made by `open`; cut and joined by its own verbs."""

    layout: Layout

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.layout.n

    def __len__(self) -> int:
        return self.layout.n

    @property
    def fields(self) -> Mapping[str, Field]:
        """The fields by name, in their order."""
        return MappingProxyType({f.name: f for f in self.layout.fields})

    @property
    def fingerprint(self) -> str:
        """The identity of files, fields and selection: the same wherever the same data is opened the same way."""
        return self.layout.fingerprint

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}: {describe_field(f)}" for f in self.layout.fields)
        files = len(self.layout.files)
        return f"Dataset({self.n:,} samples, {{{fields}}}, {self.layout.format}, {files:,} file{'s' * (files != 1)})"

    def select(self, fields: str | Sequence[str]) -> Dataset:
        """The same samples with these fields only, in this order."""
        names = [fields] if isinstance(fields, str) else list(fields)
        for name in names:
            if name not in self.fields:
                raise missing_name(name, known=list(self.fields), where="the dataset")
        if len(set(names)) < len(names):
            raise FieldError(f"select names a field twice: {names!r}; name each once")
        if names == list(self.fields):
            return self
        return Dataset(
            assemble_layout(
                format=self.layout.format,
                fields=[self.fields[name] for name in names],
                files=self.layout.files,
                notes=self.layout.notes,
                fingerprint=digest("select", self.fingerprint, *names),
            )
        )

    def subset(self, chosen: slice | Iterable[int] | npt.NDArray[Any]) -> Dataset:
        """The samples of a slice, a boolean mask or a row of ids, in that order; an id may come more than once."""
        return self._take(resolve_selection(chosen, n=self.n))

    def split(self, parts: Sequence[float], *, seed: int = 0, shuffle: bool = True) -> list[Dataset]:
        """Disjoint datasets of the given counts or fractions.

        With `shuffle` the samples are dealt by `seed`, the same on every machine; inside a split they keep the order of
        storage, since the loader's own shuffle follows.
        """
        return [self._take(ids) for ids in split_ids(parts, n=self.n, seed=seed, shuffle=shuffle)]

    def concat(self, others: Dataset | Iterable[Dataset]) -> Dataset:
        """The samples of this dataset, then those of the others."""
        return join_datasets([self, *([others] if isinstance(others, Dataset) else others)])

    def read(self, ids: npt.ArrayLike) -> dict[str, Values]:
        """The values of these samples, read one by one and verified: for tests and small looks, not for training."""
        return read_samples(self.layout, ids)

    def _take(self, ids: Selection) -> Dataset:
        if isinstance(ids, range) and ids == range(self.n):
            return self

        def take(field: Field) -> Field:
            parts = tuple(replace(p, segments=take_segments(p.segments, ids)) for p in field.parts)
            shapes = None if field.shapes is None else field.shapes[ids_array(ids)]
            return replace(field, parts=parts, shapes=shapes)

        return Dataset(
            assemble_layout(
                format=self.layout.format,
                fields=[take(f) for f in self.layout.fields],
                files=self.layout.files,
                notes=self.layout.notes,
                fingerprint=subset_fingerprint(self.fingerprint, ids),
            )
        )


def describe_field(field: Field) -> str:
    """A field's dtype and shape in a few characters, as in `float32[1600, 3]`."""
    dtype = "struct" if field.dtype.names else str(field.dtype)
    return f"{dtype}[ragged]" if field.shape is None else f"{dtype}{list(field.shape)}"


def join_datasets(datasets: Sequence[Dataset]) -> Dataset:
    """The samples of all datasets, one after the other. Their fields must agree in names, dtypes and shapes."""
    if not datasets:
        raise InputError("concat needs at least one dataset")
    for other in datasets:
        if not isinstance(other, Dataset):
            raise InputError(f"concat joins datasets of files with each other, not with {type(other).__name__}")
    if len(datasets) == 1:
        return datasets[0]
    layouts = [d.layout for d in datasets]
    files, file_maps = join_files([x.files for x in layouts])
    labels = [f"dataset {i}" for i in range(len(datasets))]
    return Dataset(
        assemble_layout(
            format="+".join(dict.fromkeys(x.format for x in layouts)),
            fields=[
                join_fields(_aligned(datasets, f.name), labels=labels, file_maps=file_maps) for f in layouts[0].fields
            ],
            files=files,
            notes=tuple(dict.fromkeys(note for x in layouts for note in x.notes)),
            fingerprint=digest("concat", *(x.fingerprint for x in layouts)),
        )
    )


def _aligned(datasets: Sequence[Dataset], name: str) -> list[Field]:
    for i, other in enumerate(datasets):
        if set(other.fields) != set(datasets[0].fields):
            raise FieldError(
                f"concat needs the same fields everywhere: dataset 0 has {list(datasets[0].fields)}, dataset {i} has "
                f"{list(other.fields)}; use select on both"
            )
    return [d.fields[name] for d in datasets]
