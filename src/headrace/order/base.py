"""What is an order?

The global sequence of sample ids of every epoch, as a function that can be evaluated anywhere: (epoch, position) -> id,
and its inverse. Resuming is evaluating it at another position; no order keeps a state that moves.

Knows no file, no rank and no time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from headrace.errors import InputError

I64 = npt.NDArray[np.int64]


class Order(ABC):
    """A sequence of `length` sample ids (of 0..n-1) for every epoch. Orders are values: equal if they mean the same."""

    name: ClassVar[str]
    n: int

    @property
    def length(self) -> int:
        """Positions per epoch."""
        return self.n

    @property
    def unique(self) -> bool:
        """Whether every id stands at most once in an epoch."""
        return True

    def ids(self, epoch: int, start: int, stop: int) -> I64:
        """The ids at positions start..stop-1 of the epoch."""
        check_epoch(epoch)
        if not 0 <= start <= stop <= self.length:
            raise InputError(
                f"{self.name} order: positions {start}..{stop} asked for, but an epoch has the positions "
                f"0..{self.length}; keep 0 <= start <= stop <= {self.length}"
            )
        return self._range(epoch, start, stop)

    def at(self, epoch: int, positions: npt.ArrayLike) -> I64:
        """The ids at any positions of the epoch, in the order asked for."""
        check_epoch(epoch)
        return self._forward(epoch, as_int64(positions, f"{self.name} order: positions"))

    def positions(self, epoch: int, ids: npt.ArrayLike) -> I64:
        """Where each id stands in the epoch. In a given order: -1 if nowhere, the first place if several."""
        check_epoch(epoch)
        return self._inverse(epoch, as_int64(ids, f"{self.name} order: ids"))

    @abstractmethod
    def spec(self) -> dict[str, object]:
        """All that defines the order, as JSON: part of the plan's hash; `order_from_spec` reads it back."""

    @abstractmethod
    def _range(self, epoch: int, start: int, stop: int) -> I64: ...

    @abstractmethod
    def _forward(self, epoch: int, positions: I64) -> I64: ...

    @abstractmethod
    def _inverse(self, epoch: int, ids: I64) -> I64: ...


class Map(Protocol):
    """A map of 0..n-1 onto itself, as the core offers it. `forward` and `inverse` return the index of the first value
    that is out of range, or -1."""

    @property
    def n(self) -> int:
        """How many values it maps."""

    def range(self, start: int, out: I64) -> None:
        """Fill `out` with the values at start, start + 1, …."""

    def forward(self, positions: I64, out: I64) -> int:
        """Fill `out` with the values at `positions`."""

    def inverse(self, ids: I64, out: I64) -> int:
        """Fill `out` with the positions of `ids`."""


def map_range(map_: Map, start: int, stop: int) -> I64:
    """The values of a range."""
    out = np.empty(stop - start, np.int64)
    map_.range(start, out)
    return out


def map_forward(map_: Map, positions: I64) -> I64:
    """The values at any positions."""
    out = np.empty(len(positions), np.int64)
    bad = map_.forward(positions, out)
    if bad >= 0:
        raise out_of_range("position", positions, bad, map_.n)
    return out


def map_inverse(map_: Map, ids: I64) -> I64:
    """The positions of any ids."""
    out = np.empty(len(ids), np.int64)
    bad = map_.inverse(ids, out)
    if bad >= 0:
        raise out_of_range("id", ids, bad, map_.n)
    return out


def check_within(what: str, values: I64, n: int) -> None:
    """Refuse values outside 0..n-1."""
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= n):
        raise out_of_range(what, values, int(np.flatnonzero((values < 0) | (values >= n))[0]), n)


def out_of_range(what: str, values: I64, index: int, n: int) -> InputError:
    """The error for `values[index]`, which is not in 0..n-1."""
    return InputError(
        f"{what} {int(values[index])} (number {index} of {len(values)}) is out of range: expected 0..{n - 1}"
    )


def check_epoch(epoch: int) -> None:
    """Epochs count from 0."""
    if epoch < 0:
        raise InputError(f"epoch {epoch}: epochs count from 0")


def as_int64(values: npt.ArrayLike, what: str) -> I64:
    """A flat, contiguous int64 array of whole numbers; anything else is refused by name."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{what}: expected a flat array, found shape {array.shape}")
    if array.dtype.kind not in "iu" and array.size:
        hint = "; a mask becomes ids by np.flatnonzero(mask)" if array.dtype.kind == "b" else ""
        raise InputError(f"{what}: expected whole numbers, found dtype {array.dtype}{hint}")
    return np.ascontiguousarray(array, dtype=np.int64)
