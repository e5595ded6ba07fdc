"""What is an order that somebody else made?

An array (the same in every epoch), a function epoch -> array, or a sampler in the manner of torch (anything that can be
iterated, with a length, and perhaps `set_epoch`). It becomes an order if it is known in advance: of constant length,
with ids in range, and the same whenever an epoch is asked for again. Each of these is checked, and broken by name.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.errors import InputError, StateError
from headrace.order.base import I64, Order, as_int64, check_within

_KEPT_EPOCHS = 8


class Source(ABC):
    """Where the ids of an epoch come from. `kind` goes into the order's spec."""

    kind: ClassVar[str]
    constant: ClassVar[bool] = False

    @abstractmethod
    def draw(self, epoch: int) -> npt.ArrayLike:
        """The ids of one epoch."""


class ArraySource(Source):
    """The same array in every epoch."""

    kind: ClassVar[str] = "array"
    constant: ClassVar[bool] = True

    def __init__(self, array: npt.ArrayLike) -> None:
        self._array = array

    def draw(self, epoch: int) -> npt.ArrayLike:
        """The array."""
        return self._array


class CallableSource(Source):
    """A function of the epoch."""

    kind: ClassVar[str] = "callable"

    def __init__(self, function: Callable[[int], npt.ArrayLike]) -> None:
        self._function = function

    def draw(self, epoch: int) -> npt.ArrayLike:
        """What the function returns."""
        return self._function(epoch)


class SamplerSource(Source):
    """A sampler. With `set_epoch` it can be asked for any epoch.

    Without, every iteration is simply the next epoch, as in a training loop: epochs are drawn one after the other and
    cannot be asked for again once they are out of the cache. Resuming draws the epochs before, so that a sampler whose
    generator is seeded resumes rightly.
    """

    kind: ClassVar[str] = "sampler"

    def __init__(self, sampler: Iterable[int]) -> None:
        self._sampler = sampler
        self._set_epoch: Callable[[int], object] | None = getattr(sampler, "set_epoch", None)
        self._next = 0

    def draw(self, epoch: int) -> npt.ArrayLike:
        """One pass over the sampler (and, without `set_epoch`, over all epochs in between)."""
        if self._set_epoch is not None:
            self._set_epoch(epoch)
            return list(self._sampler)
        if epoch < self._next:
            raise StateError(
                f"given order: epoch {epoch} was asked for again after epoch {self._next - 1}, but "
                f"{type(self._sampler).__name__} has no set_epoch and cannot go back; give it one, or pass a function "
                "epoch -> ids"
            )
        while self._next < epoch:
            for _ in self._sampler:
                pass
            self._next += 1
        ids = list(self._sampler)
        self._next += 1
        return ids


class GivenOrder(Order):
    """An order that was made elsewhere: as long as the array, unique if it is, with gaps where it has them.

    `unique` is found in epoch 0 and then holds for all epochs (an epoch that breaks it is refused); `unique=False` says
    beforehand that ids may repeat. Two given orders are equal if both are arrays with the same content.
    """

    name: ClassVar[str] = "given"

    def __init__(self, source: Source, *, n: int, unique: bool | None = None) -> None:
        if n < 1:
            raise InputError(f"given order: n={n}; there must be at least one sample")
        self.n = n
        self.source = source
        self._lock = threading.RLock()
        self._forward_cache: OrderedDict[int, I64] = OrderedDict()
        self._inverse_cache: OrderedDict[int, I64] = OrderedDict()
        self._digests: dict[int, str] = {}
        self._unique = False
        self._length = -1
        first = self._epoch(0)
        self._length = len(first)
        repeated = first_repeat(first, n)
        if unique and repeated is not None:
            raise InputError(f"given order: unique=True, but epoch 0 has id {repeated} more than once")
        self._unique = repeated is None if unique is None else unique

    @property
    def length(self) -> int:
        """Ids per epoch."""
        return self._length

    @property
    def unique(self) -> bool:
        """Whether every id stands at most once in an epoch."""
        return self._unique

    def spec(self) -> dict[str, object]:
        """Kind, n, length, source and a digest: of the array, or of epoch 0 of a function or sampler."""
        return {
            "kind": self.name,
            "n": self.n,
            "length": self.length,
            "unique": self.unique,
            "source": self.source.kind,
            "digest": self._digests[0],
        }

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, GivenOrder):
            return NotImplemented
        return self.source.constant and other.source.constant and self.spec() == other.spec()

    def __hash__(self) -> int:
        return hash((self.n, self._digests[0]))

    def __repr__(self) -> str:
        return f"GivenOrder({self.source.kind}, n={self.n}, length={self.length}, unique={self.unique})"

    def _range(self, epoch: int, start: int, stop: int) -> I64:
        return self._epoch(epoch)[start:stop].copy()

    def _forward(self, epoch: int, positions: I64) -> I64:
        check_within("position", positions, self.length)
        return self._epoch(epoch)[positions]

    def _inverse(self, epoch: int, ids: I64) -> I64:
        check_within("id", ids, self.n)
        epoch = 0 if self.source.constant else epoch
        with self._lock:
            table = self._inverse_cache.get(epoch)
            if table is None:
                array = self._epoch(epoch)
                table = np.full(self.n, -1, np.int64)
                # Backwards, so that the first of several places is the one that stays.
                table[array[::-1]] = np.arange(len(array) - 1, -1, -1, dtype=np.int64)
                _keep(self._inverse_cache, epoch, table)
            return table[ids]

    def _epoch(self, epoch: int) -> I64:
        epoch = 0 if self.source.constant else epoch
        with self._lock:
            known = self._forward_cache.get(epoch)
            if known is not None:
                self._forward_cache.move_to_end(epoch)
                return known
            array = self._checked(epoch, self.source.draw(epoch))
            _keep(self._forward_cache, epoch, array)
            return array

    def _checked(self, epoch: int, drawn: npt.ArrayLike) -> I64:
        where = f"given order ({self.source.kind}), epoch {epoch}"
        array = as_int64(drawn, where).copy()
        array.flags.writeable = False
        if len(array) == 0:
            raise InputError(f"{where}: no ids; expected at least one")
        if self._length >= 0 and len(array) != self._length:
            raise InputError(
                f"{where}: {len(array)} ids, but epoch 0 had {self._length}; every epoch must have the same number"
            )
        try:
            check_within("id", array, self.n)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        digest = hashlib.blake2b(array.astype("<i8").tobytes(), digest_size=16).hexdigest()
        if self._digests.setdefault(epoch, digest) != digest:
            raise StateError(
                f"{where}: other ids than when this epoch was asked for before; an order must be a function of the "
                "epoch: seed its generator from (seed, epoch)"
            )
        if self._unique and (repeated := first_repeat(array, self.n)) is not None:
            raise InputError(f"{where}: id {repeated} repeats, but no id of epoch 0 did; pass unique=False if they may")
        return array


def given_order(given: Any, *, n: int, unique: bool | None = None) -> GivenOrder:
    """An order from an array, a function or a sampler."""
    return GivenOrder(_source_of(given), n=n, unique=unique)


def first_repeat(ids: I64, n: int) -> int | None:
    """The smallest id that stands more than once, or None."""
    if len(ids) * 16 < n:
        values, counts = np.unique(ids, return_counts=True)
        repeated = values[counts > 1]
    else:
        repeated = np.flatnonzero(np.bincount(ids, minlength=1) > 1)
    return int(repeated[0]) if len(repeated) else None


def _source_of(given: Any) -> Source:
    if hasattr(given, "__array__") or isinstance(given, list | tuple | range):
        return ArraySource(as_int64(given, "given order (array)").copy())
    if hasattr(given, "__iter__") and hasattr(given, "__len__"):
        return SamplerSource(given)
    if callable(given):
        return CallableSource(given)
    raise InputError(
        f"shuffle={given!r}: a {type(given).__name__} is no order; expected a name, an array of ids, a function "
        "epoch -> ids, or a sampler with __iter__ and __len__"
    )


def _keep(cache: OrderedDict[int, I64], epoch: int, array: I64) -> None:
    cache[epoch] = array
    if len(cache) > _KEPT_EPOCHS:
        cache.popitem(last=False)
