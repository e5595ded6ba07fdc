"""How are the reads of a probe made? Threads of `preadv`, around the page cache or through it without leaving a trace.

Ranges that are in the page cache are found by asking the kernel and left alone. What a buffered read brought in is
dropped again afterwards, and nothing else: pages that were cached before belong to somebody. Every wait ends: a read
that hangs is left to its thread, with an error that names the file.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

import numpy as np

from headrace.cost.estimate import Burst
from headrace.cost.page_cache import cached_bytes
from headrace.cost.probe import SMALL, Spot
from headrace.errors import DeadlineError, InputError, ReadError

MOST_FILES = 256
"""Files that a probe opens: enough to spread over a dataset, few enough for any limit of open files."""

GRACE = 30.0
"""Seconds that a read may take beyond its burst, before it counts as hung."""

TRIES = 4
"""Places that are looked at for each one wanted, before the page cache is said to hold too much."""

LIMIT_SECONDS = 0.04


class ProbedFiles:
    """The files of a probe, as a `Device`. Enter it to open them, leave it to close them.

    `pread(descriptor, buffer, offset)` and `clock` are the effects, `rng` is where places come from.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        pread: Callable[[int, memoryview, int], int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        rng: random.Random | None = None,
        grace: float = GRACE,
    ) -> None:
        self._paths = list(paths[:: max(len(paths) // MOST_FILES, 1)][:MOST_FILES])
        self._pread = pread or _pread
        self.clock = clock
        self._rng = rng or random.Random()
        self._grace = grace
        self._plain: list[int] = []
        self._around: list[int] = []
        self._sizes: list[int] = []
        self._taken: set[Spot] = set()
        self._hung = False
        self.direct = False
        self.tells = False

    def __enter__(self) -> ProbedFiles:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def random(self, *, nbytes: int, most: int, fresh: bool) -> list[Spot]:
        """Places spread evenly over all bytes of the files, no two alike."""
        cells = [max(size // nbytes, 1) for size in self._sizes]
        return list(itertools.islice(self._free(self._drawn(cells, nbytes, TRIES * most), fresh), most))

    def sequential(self, *, nbytes: int, most: int, fresh: bool) -> list[Spot]:
        """Places that follow each other, from one drawn at random on, and round to the first."""
        cells = [max(size // nbytes, 1) for size in self._sizes]
        whole = sum(cells)
        start = self._rng.randrange(whole)
        spots = (self._spot((start + k) % whole, cells, nbytes) for k in range(min(whole, TRIES * most)))
        return list(itertools.islice(self._free(spots, fresh), most))

    def burst(self, spots: Sequence[Spot], *, depth: int, seconds: float, direct: bool) -> Burst:
        """Read the spots with `depth` threads; what a buffered read brought into the page cache is dropped again."""
        descriptors = self._around if direct else self._plain
        try:
            return self._read([(descriptors[s.file], s) for s in spots], depth=depth, seconds=seconds)
        finally:
            if not direct and self.tells:
                for spot in spots:
                    os.posix_fadvise(self._plain[spot.file], spot.offset, spot.nbytes, os.POSIX_FADV_DONTNEED)

    def limit(self, *, depth: int) -> float:
        """Small reads a second of a file in memory: what the threads and their lock allow."""
        descriptor = os.memfd_create("headrace-probe")
        try:
            os.ftruncate(descriptor, SMALL)
            spots = [(descriptor, Spot(-1, 0, SMALL))] * 20_000
            burst = self._read(spots, depth=depth, seconds=LIMIT_SECONDS)
        finally:
            if not self._hung:
                os.close(descriptor)
        return len(burst.ended) / max(float(burst.ended.max()), 1e-9)

    def _open(self) -> None:
        for path in self._paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise InputError(f"{path} cannot be probed: {error.strerror}") from None
            self._plain.append(descriptor)
            self._sizes.append(os.fstat(descriptor).st_size)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        if not any(self._sizes):
            raise InputError(f"{', '.join(self._paths[:3]) or 'no file'}: nothing to read, so nothing to probe")
        self._around = _open_direct(self._paths)
        self.direct = bool(self._around)
        self.tells = all(cached_bytes(fd, 0, SMALL) is not None for fd in self._plain)

    def _close(self) -> None:
        # Threads that hang still hold the descriptors: a number that was given away again would be another file.
        if not self._hung:
            for descriptor in (*self._plain, *self._around):
                os.close(descriptor)
        self._plain, self._around = [], []

    def _drawn(self, cells: list[int], nbytes: int, tries: int) -> Iterator[Spot]:
        whole = sum(cells)
        for _ in range(tries):
            yield self._spot(self._rng.randrange(whole), cells, nbytes)

    def _spot(self, cell: int, cells: list[int], nbytes: int) -> Spot:
        file = 0
        while cell >= cells[file]:
            cell -= cells[file]
            file += 1
        return Spot(file, cell * nbytes, min(nbytes, -(-self._sizes[file] // SMALL) * SMALL))

    def _free(self, spots: Iterator[Spot], fresh: bool) -> Iterator[Spot]:
        """Those that were not read before and, if they must be `fresh`, of which nothing is in the page cache."""
        for spot in spots:
            if not self._sizes[spot.file] or (fresh and spot in self._taken):
                continue
            if fresh and cached_bytes(self._plain[spot.file], spot.offset, spot.nbytes):
                continue
            self._taken.add(spot)
            yield spot

    def _read(self, spots: Sequence[tuple[int, Spot]], *, depth: int, seconds: float) -> Burst:
        counter, done, failed = itertools.count(), list[tuple[float, float, int]](), list[BaseException]()
        begin = self.clock()

        def work() -> None:
            buffer = memoryview(mmap.mmap(-1, max(spot.nbytes for _, spot in spots)))
            while not failed and (k := next(counter)) < len(spots):
                descriptor, spot = spots[k]
                begun = self.clock() - begin
                if begun >= seconds:
                    return
                try:
                    nbytes = self._pread(descriptor, buffer[: spot.nbytes], spot.offset)
                except OSError as error:
                    failed.append(self._error(spot, error))
                    return
                done.append((begun, self.clock() - begin, nbytes))

        threads = [threading.Thread(target=work, name=f"headrace-probe-{k}", daemon=True) for k in range(depth)]
        try:
            for thread in threads:
                thread.start()
            self._join(threads, seconds)
        except BaseException as error:
            failed.append(error)  # so that the threads end
            raise
        if failed:
            raise failed[0]
        times = np.array([(a, b) for a, b, n in done if n > 0], np.float64).reshape(-1, 2)
        return Burst(times[:, 0], times[:, 1], sum(n for _, _, n in done))

    def _join(self, threads: Sequence[threading.Thread], seconds: float) -> None:
        deadline = time.monotonic() + seconds + self._grace
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
            if thread.is_alive():
                self._hung = True
                raise DeadlineError(
                    f"the probe of {self._paths[0]}: a read did not return within {self._grace:g} s; the storage hangs "
                    "or is very slow: describe it with headrace.Storage(...)"
                )

    def _error(self, spot: Spot, error: OSError) -> ReadError:
        path = self._paths[spot.file]
        return ReadError(
            f"the probe could not read {path} at {spot.offset:,}: {error.strerror}", path=path, offset=spot.offset
        )


def _pread(descriptor: int, buffer: memoryview, offset: int) -> int:
    return os.preadv(descriptor, [buffer], offset)


def _open_direct(paths: Sequence[str]) -> list[int]:
    """Descriptors that read around the page cache; none at all where the filesystem refuses that."""
    found: list[int] = []
    try:
        with mmap.mmap(-1, SMALL) as page:
            for path in paths:
                found.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT))
                os.preadv(found[-1], [page], 0)
    except OSError as error:
        for descriptor in found:
            os.close(descriptor)
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.EACCES):
            return []
        raise ReadError(f"the probe could not read {paths[len(found) - 1]}: {error.strerror}") from error
    return found
