"""Who takes part? One line each: its name, what it does, the module that has it, and for which data it exists.

A contender is a function `prepare(spec, **settings)` that does its imports and returns `open()`; the clock starts when
that is called. It gives a `Delivery`, whose epochs yield batches as the training loop would get them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace.bench.values import Spec
from headrace.errors import InputError
from headrace.values.layout import Layout

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Delivered:
    """One batch: ids and values of its rows; or, of a limit, which has no samples, only the bytes that were moved."""

    ids: I64 | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    moved: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes that were delivered."""
        return self.moved + sum(int(value.nbytes) for value in self.values.values())


class Delivery(Protocol):
    """A dataset that is open."""

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The batches of one epoch."""

    def close(self) -> None:
        """End threads and processes."""

    def notes(self) -> Mapping[str, Any]:
        """What it has to say of itself, after the run."""


Open = Callable[[], Delivery]
Fits = Callable[[Layout], str]
"""Why a contender does not exist for this data; empty where it does."""


@dataclass(frozen=True)
class Contender:
    """One way to read. `limit` says that it moves the bytes without any order: nobody can be faster."""

    name: str
    what: str
    module: str
    function: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fits: Fits = lambda _: ""
    limit: bool = False

    def prepare(self, spec: Spec) -> Open:
        """Import what it needs; the function that opens the dataset."""
        prepare: Callable[..., Open] = getattr(import_module(f"headrace.bench.{self.module}"), self.function)
        return prepare(spec, **self.settings)


SEGMENTS = 1024
"""Runs of samples that are mapped one by one; more of them is not what anybody does."""


def _in_rows(layout: Layout) -> str:
    if not all(one.plain for one in layout.fields):
        return "chunks cut the samples"
    if max(len(part.segments.first) for part in layout.parts) > SEGMENTS:
        return "the bytes are not contiguous"
    return ""


def _in_extents(layout: Layout) -> str:
    return "" if all(one.plain for one in layout.fields) else "chunks cut the samples"


def _in_hdf5(layout: Layout) -> str:
    return "" if layout.format == "hdf5" else "hyperslabs are HDF5's"


_WAYS: tuple[tuple[str, str, Fits], ...] = (
    ("item", "one sample per call", lambda _: ""),
    ("batched", "a batch per call, sample after sample", lambda _: ""),
    ("sorted", "a batch per call, sorted, one selection; HDF5 without sieve buffer", lambda _: ""),
    ("slabs", "a batch per call, sorted, low-level hyperslabs; without sieve buffer", _in_hdf5),
)
WORKERS = (0, 2, 4)

CONTENDERS: dict[str, Contender] = {
    one.name: one
    for one in (
        Contender("sequential", "the files front to back, 4 MiB a read", "limits", "sequential", limit=True),
        Contender("memcpy", "as many bytes, from memory to memory", "limits", "memcpy", limit=True),
        Contender("headrace", "this loader", "planned", "planned"),
        Contender("headrace-echo", "this loader, epochs that share samples", "planned", "planned", {"shuffle": "echo"}),
        Contender("memmap", "np.memmap, fancy indexing", "plain", "memmap", fits=_in_rows),
        Contender("threads", "32 threads of pread, whole samples", "plain", "threads", fits=_in_extents),
        *(
            Contender(
                f"torch-{way}-{workers}",
                f"torch DataLoader, {what}, {workers} workers",
                "torch_loaders",
                "torch_loader",
                {"way": way, "workers": workers},
                fits,
            )
            for way, what, fits in _WAYS
            for workers in WORKERS
        ),
    )
}


def choose(only: Sequence[str], layout: Layout) -> tuple[list[Contender], dict[str, str]]:
    """The contenders that names or patterns like "torch-*" ask for (all, if none does), and why others are left out."""
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in CONTENDERS):
            raise InputError(
                f"--only={pattern} is no contender; there are {', '.join(CONTENDERS)}, and patterns of them"
            )
    asked = [one for one in CONTENDERS.values() if not only or any(fnmatchcase(one.name, pattern) for pattern in only)]
    left = {one.name: one.fits(layout) for one in asked}
    chosen = [one for one in asked if not left[one.name]]
    if not chosen:
        raise InputError(f"none of --only={','.join(only)} fits this data: {'; '.join(sorted(set(left.values())))}")
    return chosen, {name: why for name, why in left.items() if why}


def find_contender(name: str) -> Contender:
    """The contender of that name."""
    if name not in CONTENDERS:
        raise InputError(f"contender {name!r} is not known; known: {', '.join(CONTENDERS)}")
    return CONTENDERS[name]


def shuffled(n: int, *, seed: int, epoch: int) -> I64:
    """A permutation for those who have no order of their own: another one each epoch."""
    return np.random.default_rng((seed, epoch)).permutation(n)
