"""How does an object with `__len__` and `__getitem__` take part?

It has samples but no extents: its order is planned like any other, its samples are fetched by calling it. `layout` has
no fields and no files; it tells planners how many samples there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import InputError
from headrace.formats.fingerprint import digest, subset_fingerprint
from headrace.formats.segments import Selection
from headrace.formats.selection import ids_array, resolve_selection, split_ids
from headrace.values.layout import I64, Field, Layout


@dataclass(frozen=True, eq=False, repr=False)
class MapDataset:
    """Samples that an object gives on request. `ids` maps this dataset's samples to the object's; None: one to one."""

    dataset: Any
    layout: Layout
    ids: I64 | None = None

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.layout.n

    def __len__(self) -> int:
        return self.layout.n

    @property
    def fields(self) -> Mapping[str, Field]:
        """Empty: what a sample holds is known only once it was fetched."""
        return MappingProxyType({})

    @property
    def fingerprint(self) -> str:
        """The identity of the object's class, length, given `identity` and selection: its content cannot be seen."""
        return self.layout.fingerprint

    def __repr__(self) -> str:
        return f"MapDataset({self.n:,} samples of {type(self.dataset).__name__})"

    def subset(self, chosen: slice | Iterable[int] | npt.NDArray[Any]) -> MapDataset:
        """The samples of a slice, a boolean mask or a row of ids, in that order."""
        return self._take(resolve_selection(chosen, n=self.n))

    def split(self, parts: Sequence[float], *, seed: int = 0, shuffle: bool = True) -> list[MapDataset]:
        """Disjoint datasets of the given counts or fractions, dealt by `seed`."""
        return [self._take(ids) for ids in split_ids(parts, n=self.n, seed=seed, shuffle=shuffle)]

    def concat(self, others: MapDataset | Iterable[MapDataset]) -> MapDataset:
        """The samples of this dataset, then those of the others."""
        return join_maps([self, *([others] if isinstance(others, MapDataset) else others)])

    def fetch(self, ids: npt.ArrayLike) -> list[Any]:
        """The samples of these ids, in their order: one `__getitems__` call where the object has it."""
        wanted = np.asarray(ids, np.int64)
        if len(wanted) and (int(wanted.min()) < 0 or int(wanted.max()) >= self.n):
            raise InputError(f"sample ids {wanted.tolist()[:8]} do not all lie in 0 to {self.n - 1:,}")
        theirs: list[int] = (wanted if self.ids is None else self.ids[wanted]).tolist()
        many = getattr(self.dataset, "__getitems__", None)
        if many is None:
            return [self.dataset[i] for i in theirs]
        samples = list(many(theirs))
        if len(samples) != len(theirs):
            raise InputError(
                f"{type(self.dataset).__name__}.__getitems__ gave {len(samples)} samples for {len(theirs)} ids: "
                "it must give one per id, in their order"
            )
        return samples

    def _take(self, chosen: Selection) -> MapDataset:
        if isinstance(chosen, range) and chosen == range(self.n):
            return self
        mine = ids_array(chosen)
        layout = _layout(n=len(mine), fingerprint=subset_fingerprint(self.fingerprint, chosen))
        return MapDataset(self.dataset, layout, mine if self.ids is None else self.ids[mine])


def is_map(source: object) -> bool:
    """Whether an object is a map dataset rather than a path or a list of paths."""
    return (
        hasattr(source, "__len__") and hasattr(source, "__getitem__") and not isinstance(source, str | bytes | Mapping)
    )


def open_map(source: Any, *, identity: str = "") -> MapDataset:
    """A map dataset. `identity` tells apart contents that class and length cannot, so that a resume can notice."""
    n = len(source)
    if n == 0:
        raise InputError(f"{type(source).__name__} holds no samples: its len() is 0")
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    return MapDataset(source, _layout(n=n, fingerprint=digest("map", kind, str(n), identity)))


def join_maps(datasets: Sequence[MapDataset]) -> MapDataset:
    """The samples of all map datasets, one after the other."""
    for other in datasets:
        if not isinstance(other, MapDataset):
            raise InputError(f"concat joins map datasets with each other, not with {type(other).__name__}")
    if len(datasets) == 1:
        return datasets[0]
    joined = _Joined(tuple(datasets))
    return MapDataset(joined, _layout(n=len(joined), fingerprint=digest("concat", *(d.fingerprint for d in datasets))))


@dataclass(frozen=True)
class _Joined:
    """Several map datasets as one object; a batch of ids makes one call to each of them at most."""

    datasets: tuple[MapDataset, ...]

    def __len__(self) -> int:
        return sum(d.n for d in self.datasets)

    def __getitem__(self, i: int) -> Any:
        return self.__getitems__([i])[0]

    def __getitems__(self, ids: Sequence[int]) -> list[Any]:
        starts = list(accumulate((d.n for d in self.datasets), initial=0))
        rows: dict[int, list[int]] = {}
        for row, i in enumerate(ids):
            rows.setdefault(bisect_right(starts, i) - 1, []).append(row)
        out: list[Any] = [None] * len(ids)
        for k, mine in rows.items():
            for row, sample in zip(mine, self.datasets[k].fetch([ids[r] - starts[k] for r in mine]), strict=True):
                out[row] = sample
        return out


def _layout(*, n: int, fingerprint: str) -> Layout:
    return Layout(n=n, fields=(), files=(), fingerprint=fingerprint, format="map")
