"""What can nobody beat? Reading the files front to back, and copying as many bytes from memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headrace.bench.contenders import Delivered, Open
from headrace.bench.opening import opened
from headrace.bench.values import Spec
from headrace.cost import usable_memory

PIECE = 4 << 20
SOURCE = 256 << 20
"""Bytes that `memcpy` copies round and round: more than the caches of a core hold, little enough for a small cgroup."""


def sequential(spec: Spec) -> Open:
    """`readv` of 4 MiB into one buffer, file after file."""
    buffer = bytearray(PIECE)
    return lambda: Sequential(spec, buffer)


def memcpy(spec: Spec) -> Open:
    """The bytes of all samples, 4 MiB at a time into one buffer."""
    nbytes = opened(spec).layout.nbytes
    # In a cgroup that is smaller than the data, a part of it is copied several times; the speed is the same.
    source = np.full(max(min(nbytes, SOURCE, usable_memory().nbytes // 4), 1), 7, np.uint8)
    return lambda: Memcpy(nbytes, source, np.zeros(PIECE, np.uint8))


class Sequential:
    """The files, one after the other."""

    def __init__(self, spec: Spec, buffer: bytearray) -> None:
        self._files, self._buffer = spec.files, buffer

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The pieces of one pass."""
        for path in self._files:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                while found := os.readv(descriptor, [self._buffer]):
                    yield Delivered(moved=found)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Nothing is open."""

    def notes(self) -> Mapping[str, Any]:
        """What one read takes."""
        return {"read": PIECE}


class Memcpy:
    """Pieces of memory, one after the other."""

    def __init__(self, nbytes: int, source: np.ndarray[Any, Any], into: np.ndarray[Any, Any]) -> None:
        self._nbytes, self._source, self._into = nbytes, source, into

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The pieces of one pass."""
        left, at = self._nbytes, 0
        while left:
            size = min(left, PIECE, len(self._source) - at)
            np.copyto(self._into[:size], self._source[at : at + size])
            yield Delivered(moved=size)
            left, at = left - size, (at + size) % len(self._source)

    def close(self) -> None:
        """Nothing is open."""

    def notes(self) -> Mapping[str, Any]:
        """How much memory is copied from."""
        return {"source": len(self._source), "piece": PIECE}
