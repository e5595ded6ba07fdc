"""Which orders are pure arithmetic, and what does each promise?

- `sequential`: 0, 1, 2, … in every epoch;
- `exact`: a uniform permutation in every epoch, independent of the others;
- `echo`: a uniform permutation in every epoch, which starts with what the epoch before ended with;
- `group`: contiguous groups in random order, random (or file order) inside;
- `window`: front to back from a random rotation, random inside consecutive windows.

None holds a table: memory and time per id are constant for any n, forward and inverse, at any position of any epoch.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from headrace.errors import InputError, UnsupportedError
from headrace.native import kernels
from headrace.order.base import I64, Map, Order, check_within, map_forward, map_inverse, map_range
from headrace.order.keys import derive_below, derive_key


@dataclass(frozen=True)
class SequentialOrder(Order):
    """Ids as they are stored, in every epoch."""

    name: ClassVar[str] = "sequential"
    n: int

    def __post_init__(self) -> None:
        _check_count("sequential", self.n, limit=2**62)

    def spec(self) -> dict[str, object]:
        """The kind and n."""
        return {"kind": self.name, "n": self.n}

    def _range(self, epoch: int, start: int, stop: int) -> I64:
        return np.arange(start, stop, dtype=np.int64)

    def _forward(self, epoch: int, positions: I64) -> I64:
        check_within("position", positions, self.n)
        return positions.copy()

    def _inverse(self, epoch: int, ids: I64) -> I64:
        check_within("id", ids, self.n)
        return ids.copy()


class KeyedOrder(Order):
    """An order whose epochs are chains of maps from the core: the ids at p are last(… second(first(p)))."""

    seed: int

    @abstractmethod
    def _chain(self, epoch: int) -> tuple[Map, ...]:
        """The maps of the epoch, in the order in which the forward direction applies them. At least one."""

    def _range(self, epoch: int, start: int, stop: int) -> I64:
        first, *others = self._chain(epoch)
        values = map_range(first, start, stop)
        for link in others:
            values = map_forward(link, values)
        return values

    def _forward(self, epoch: int, positions: I64) -> I64:
        for link in self._chain(epoch):
            positions = map_forward(link, positions)
        return positions

    def _inverse(self, epoch: int, ids: I64) -> I64:
        for link in reversed(self._chain(epoch)):
            ids = map_inverse(link, ids)
        return ids


@dataclass(frozen=True)
class ExactOrder(KeyedOrder):
    """Every epoch a permutation of its own, uniform and independent of every other epoch and seed."""

    name: ClassVar[str] = "exact"
    n: int
    seed: int

    def __post_init__(self) -> None:
        _check_count("exact", self.n)

    def spec(self) -> dict[str, object]:
        """The kind, n and seed."""
        return {"kind": self.name, "n": self.n, "seed": self.seed}

    def _chain(self, epoch: int) -> tuple[Map, ...]:
        return (_permutation(self.n, derive_key(seed=self.seed, epoch=epoch, purpose="exact")),)


@dataclass(frozen=True)
class EchoOrder(KeyedOrder):
    """Every epoch uniform; epoch e+1 begins with the last `carry` samples of epoch e, reshuffled.

    π_{e+1} = π_e ∘ f_e, where f_e sends the first `carry` positions to a shuffle of the last `carry` and the others to
    a shuffle of the rest. The chain starts afresh every `restart` epochs, so that evaluating it costs at most `restart`
    permutations; at a restart nothing is carried, so of E epochs about E · (restart − 1) / restart save `carry` reads.
    """

    name: ClassVar[str] = "echo"
    n: int
    seed: int
    carry: int
    restart: int

    def __post_init__(self) -> None:
        _check_count("echo", self.n)
        if not 0 <= self.carry <= self.n:
            raise InputError(f"echo order: carry={self.carry} of n={self.n} samples; expected 0..{self.n}")
        if self.restart < 1:
            raise InputError(f"echo order: restart={self.restart}; the chain restarts every 1 or more epochs")

    def spec(self) -> dict[str, object]:
        """The kind, n, seed, carry and restart."""
        return {"kind": self.name, "n": self.n, "seed": self.seed, "carry": self.carry, "restart": self.restart}

    def carried(self, epoch: int) -> int:
        """How many ids at the epoch's start are the last ids of the epoch before: 0 where the chain starts afresh."""
        return self.carry if epoch % self.restart else 0

    def _chain(self, epoch: int) -> tuple[Map, ...]:
        base = epoch - epoch % self.restart
        links: list[Map] = [self._link(e) for e in range(epoch - 1, base - 1, -1)]
        return (*links, _permutation(self.n, derive_key(seed=self.seed, epoch=base, purpose="echo base")))

    def _link(self, epoch: int) -> Map:
        head = derive_key(seed=self.seed, epoch=epoch, purpose="echo head")
        rest = derive_key(seed=self.seed, epoch=epoch, purpose="echo rest")
        return _echo(self.n, self.carry, head, rest)


@dataclass(frozen=True)
class GroupOrder(KeyedOrder):
    """Contiguous groups of `size` ids in random order; random order inside a group, or file order (`within=False`).

    Where `size` does not divide n the last group is shorter; it takes a random place like every other.
    """

    name: ClassVar[str] = "group"
    n: int
    seed: int
    size: int
    within: bool = True

    def __post_init__(self) -> None:
        _check_count("group", self.n)
        _check_size("group", self.size)

    def spec(self) -> dict[str, object]:
        """The kind, n, seed, size and within."""
        return {"kind": self.name, "n": self.n, "seed": self.seed, "size": self.size, "within": self.within}

    def _chain(self, epoch: int) -> tuple[Map, ...]:
        outer = derive_key(seed=self.seed, epoch=epoch, purpose="group order")
        inner = derive_key(seed=self.seed, epoch=epoch, purpose="group inside")
        return (_groups(self.n, self.size, outer, inner, self.within),)


@dataclass(frozen=True)
class WindowOrder(KeyedOrder):
    """Front to back from a random sample on (and round the end), shuffled inside consecutive windows of `size`.

    The rotation is by samples, not by whole windows: every id is uniform over the positions, and the windows cut the
    dataset at other places in every epoch, so that neighbours of one epoch may part in the next.
    """

    name: ClassVar[str] = "window"
    n: int
    seed: int
    size: int

    def __post_init__(self) -> None:
        _check_count("window", self.n)
        _check_size("window", self.size)

    def spec(self) -> dict[str, object]:
        """The kind, n, seed and size."""
        return {"kind": self.name, "n": self.n, "seed": self.seed, "size": self.size}

    def rotation(self, epoch: int) -> int:
        """The id that the first window of the epoch starts from."""
        return derive_below(self.n, seed=self.seed, epoch=epoch, purpose="window rotation")

    def _chain(self, epoch: int) -> tuple[Map, ...]:
        inner = derive_key(seed=self.seed, epoch=epoch, purpose="window inside")
        return (_windows(self.n, self.size, inner, self.rotation(epoch)),)


def _check_count(kind: str, n: int, limit: int = kernels.MAX_PERMUTATION) -> None:
    if n < 1:
        raise InputError(f"{kind} order: n={n}; there must be at least one sample")
    if n > limit:
        raise UnsupportedError(
            f"{kind} order: n={n:,} samples, but this order has at most {limit:,}; "
            "split the dataset, or count groups of samples as samples"
        )


def _check_size(kind: str, size: int) -> None:
    if size < 1:
        raise InputError(f"{kind} order: size={size}; a {kind} holds at least one sample")


# The maps are immutable and small (under 2 KB), so that all threads share them; building one takes microseconds.
@lru_cache(maxsize=64)
def _permutation(n: int, key: bytes) -> Map:
    return kernels.Permutation(n, key)


@lru_cache(maxsize=64)
def _echo(n: int, carry: int, head: bytes, rest: bytes) -> Map:
    return kernels.Echo(n, carry, head, rest)


@lru_cache(maxsize=64)
def _groups(n: int, size: int, outer: bytes, inner: bytes, within: bool) -> Map:
    return kernels.Groups(n, min(size, n), outer, inner, within)


@lru_cache(maxsize=64)
def _windows(n: int, size: int, key: bytes, rotation: int) -> Map:
    return kernels.Windows(n, min(size, n), key, rotation)
