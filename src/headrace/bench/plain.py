"""What does a reader reach that is written in an afternoon? np.memmap, and plain threads of `pread`.

Both are given each sample's extent by `headrace.open(path).layout`, which counts as their opening.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.bench.contenders import Delivered, Open, shuffled
from headrace.bench.opening import load, opened
from headrace.bench.values import Spec
from headrace.values.layout import I64, Field, Segments

Bytes = npt.NDArray[np.uint8]
THREADS = 32
AHEAD = 4
"""Batches that the threads fill at once."""

KEPT_OPEN = 512
"""Files that stay open; of more, each is opened for each sample."""

DEADLINE = 600.0


def memmap(spec: Spec) -> Open:
    """Rows of np.memmap, picked by an array of ids."""
    load(spec, "numpy.random")
    return lambda: Mapped(spec)


def threads(spec: Spec) -> Open:
    """Whole samples, read by many threads straight into the batch."""
    load(spec, "numpy.random")
    return lambda: Threads(spec)


class Mapped:
    """One view of rows for every run of samples in a file."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        layout = opened(spec).layout
        self._n, self._fields = layout.n, layout.fields
        files = [np.memmap(file.path, np.uint8, mode="r") for file in layout.files]
        self._views = [[_view(field, k, files) for k in range(len(_segments(field).first))] for field in self._fields]

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The batches of one epoch."""
        order, size = shuffled(self._n, seed=self._spec.seed, epoch=number), self._spec.batch_size
        for start in range(0, self._n, size):
            ids = order[start : start + size]
            if any(len(views) > 1 for views in self._views):
                ids = np.sort(ids)
            pairs = zip(self._fields, self._views, strict=True)
            yield Delivered(ids, {field.name: _pick(field, views, ids) for field, views in pairs})

    def close(self) -> None:
        """Unmap."""
        self._views = []

    def notes(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


def _segments(field: Field) -> Segments:
    return field.parts[0].segments


def _view(field: Field, k: int, files: list[np.memmap[Any, Any]]) -> npt.NDArray[Any]:
    """The rows of one segment, as an array over the mapped file."""
    runs = _segments(field)
    count = int((runs.first[k + 1] if k + 1 < len(runs.first) else runs.n) - runs.first[k])
    offset, stride, nbytes = int(runs.offset[k]), int(runs.stride[k]), int(runs.nbytes[k])
    whole = files[runs.file[k]]
    if stride == nbytes or count == 1:
        raw = whole[offset : offset + count * nbytes].reshape(count, nbytes)
    else:
        raw = np.lib.stride_tricks.as_strided(whole[offset:], (count, nbytes), (stride, 1), writeable=False)
    assert field.shape is not None
    return np.asarray(raw).view(field.stored).reshape(count, *field.shape)


def _pick(field: Field, views: list[npt.NDArray[Any]], ids: I64) -> npt.NDArray[Any]:
    if len(views) == 1:
        return views[0][ids]
    assert field.shape is not None
    out = np.empty((len(ids), *field.shape), field.stored)
    first = np.append(_segments(field).first, _segments(field).n)
    cuts = np.searchsorted(ids, first)
    for k, (start, stop) in enumerate(pairwise(cuts)):
        if start < stop:
            # "clip" lets NumPy write into `out` without a buffer of its own; the rows are known to exist.
            np.take(views[k], ids[start:stop] - first[k], axis=0, out=out[start:stop], mode="clip")
    return out


class Threads:
    """A few batches are filled at once, each by all threads; buffers are used again."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        layout = opened(spec).layout
        self._n, self._fields = layout.n, layout.fields
        self._paths = [file.path for file in layout.files]
        self._files = (
            [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in self._paths] if len(self._paths) <= KEPT_OPEN else []
        )
        self._pool = ThreadPoolExecutor(THREADS)
        # The loop holds one batch while the others are filled.
        self._buffers = deque(
            [np.empty((spec.batch_size, _segments(f).fixed or 0), np.uint8) for f in layout.fields]
            for _ in range(AHEAD + 1)
        )

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The batches of one epoch."""
        order, size = shuffled(self._n, seed=self._spec.seed, epoch=number), self._spec.batch_size
        pending: deque[tuple[I64, list[Bytes], list[Future[None]]]] = deque()
        for start in range(0, self._n + AHEAD * size, size):
            ids = order[start : start + size]
            if len(ids):
                buffers = self._buffers[0]
                self._buffers.rotate(-1)
                pending.append((ids, buffers, self._begin(ids, buffers)))
            if pending and (len(pending) == AHEAD or not len(ids)):
                yield self._finish(*pending.popleft())

    def close(self) -> None:
        """End the threads, close the files."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for file in self._files:
            os.close(file)
        self._files = []

    def notes(self) -> Mapping[str, Any]:
        """How many threads, how far ahead."""
        return {"threads": THREADS, "batches_ahead": AHEAD}

    def _begin(self, ids: I64, buffers: list[Bytes]) -> list[Future[None]]:
        located = [_segments(field).locate(ids) for field in self._fields]
        places = [(file.tolist(), offset.tolist()) for file, offset, _ in located]
        share = -(-len(ids) // THREADS)
        return [
            self._pool.submit(self._fill, places, buffers, start, min(start + share, len(ids)))
            for start in range(0, len(ids), share)
        ]

    def _fill(self, places: list[tuple[list[int], list[int]]], buffers: list[Bytes], start: int, stop: int) -> None:
        for (files, offsets), rows in zip(places, buffers, strict=True):
            for k in range(start, stop):
                self._read(files[k], offsets[k], rows[k].data)

    def _read(self, file: int, offset: int, into: memoryview) -> None:
        if self._files:
            found = os.preadv(self._files[file], [into], offset)
        else:
            descriptor = os.open(self._paths[file], os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = os.preadv(descriptor, [into], offset)
            finally:
                os.close(descriptor)
        if found != len(into):
            raise OSError(f"{self._paths[file]}: {found} bytes at {offset} instead of {len(into)}")

    def _finish(self, ids: I64, buffers: list[Bytes], filling: list[Future[None]]) -> Delivered:
        done, late = wait(filling, timeout=DEADLINE)
        if late:
            raise TimeoutError(f"{len(late)} of {len(filling)} threads did not end within {DEADLINE:.0f} s")
        for one in done:
            one.result()
        values = {}
        for field, rows in zip(self._fields, buffers, strict=True):
            assert field.shape is not None
            values[field.name] = rows[: len(ids)].view(field.stored).reshape(len(ids), *field.shape)
        return Delivered(ids, values)
