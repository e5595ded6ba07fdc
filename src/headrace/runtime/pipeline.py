"""What runs between storage and the training loop?

    source ──► workers (optional) ──► next()

The source gives items in the order of the steps: batches from storage, or the tasks of a map dataset. Work on them (the
user's transform, the fetch of a map dataset) is done by threads or processes, in order and bounded, or by the caller of
`next()` where there are no workers.

Closing needs nobody's goodwill: a pipeline that is dropped, or still there when the interpreter ends, closes its parts.
A forked child has the objects but not the threads: it leaves them alone.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.errors import ClosedError
from headrace.runtime.batch import Batch
from headrace.runtime.pool import Pool
from headrace.runtime.remote import Remote, pack
from headrace.runtime.work import Made, Task

CLOSE_SECONDS = 5.0
"""How long closing waits for threads; user code that hangs is left behind (its threads are daemons) with a warning."""


class Source(Protocol):
    """Where items come from, in the order of the steps."""

    def open(self) -> None:
        """Acquire."""

    def next(self) -> Any:
        """The next item, None after the last."""

    def waiting(self) -> str:
        """What `next` waits for."""

    @property
    def ready(self) -> int:
        """Batches that `next` would give at once."""

    def counters(self) -> dict[str, float]:
        """What was read so far."""

    def planned(self) -> dict[str, int]:
        """What it was given to read so far."""

    def cancel(self) -> None:
        """Let a waiting `next` return or raise."""

    def join(self, timeout: float) -> bool:
        """Release; False if something did not end in time."""


@dataclass(frozen=True)
class Workers:
    """Who does the work: how many `count`, of which `kind` ('threads', 'processes', started by `method`), and how many
    steps `ahead`. `start(worker)` is the user's function for each of them before its first step."""

    count: int
    kind: str
    ahead: int
    timeout: float
    method: str = "spawn"
    start: Callable[[int], object] | None = None


@dataclass
class Parts:
    """What must be closed. Knows nothing of who uses it."""

    source: Source
    pool: Pool | None = None
    remotes: dict[int, Remote] = field(default_factory=dict)
    pid: int = field(default_factory=os.getpid)
    closed: bool = False

    def close(self) -> None:
        """Cancel everything, then wait for it, a bounded time."""
        if self.closed or os.getpid() != self.pid:
            return
        self.closed = True
        if self.pool is not None:
            self.pool.cancel()
        self.source.cancel()
        for remote in list(self.remotes.values()):
            remote.close()
        ended = self.pool is None or self.pool.join(CLOSE_SECONDS)
        for remote in list(self.remotes.values()):
            ended = remote.join(CLOSE_SECONDS) and ended
        ended = self.source.join(CLOSE_SECONDS) and ended
        if not ended:
            warnings.warn(
                f"closing the loader: a thread did not end within {CLOSE_SECONDS:g} s (a read that hangs, or user code "
                "that does not return); it is left behind",
                ResourceWarning,
                stacklevel=2,
            )


# A child inherits the objects but none of their threads: destroying them would wait for threads that do not exist.
_INHERITED: list[Parts] = []


class Pipeline:
    """A source and the work on its items, running ahead of the training loop."""

    def __init__(self, *, source: Source, work: Callable[[Any], Made] | None, workers: Workers) -> None:
        self._source = source
        self._work = work
        self._parts = Parts(source)
        self._timeout = workers.timeout
        if work is not None and workers.count > 0:
            self._parts.pool = Pool(
                source=source.next,
                work=_worker(work, workers, self._parts.remotes),
                describe=describe,
                workers=workers.count,
                ahead=workers.ahead,
            )
        self._finalizer = weakref.finalize(self, _close, self._parts)

    def open(self) -> None:
        """Start; what was started is closed again if a part fails."""
        try:
            self._source.open()
            if self._parts.pool is not None:
                self._parts.pool.open()
        except BaseException:
            self.close()
            raise

    @property
    def foreign(self) -> bool:
        """Whether this process is a fork of the one that opened the pipeline."""
        return os.getpid() != self._parts.pid

    @property
    def ready(self) -> int:
        """Batches that `next` would give at once."""
        if self.foreign or self._parts.closed:
            return 0
        return self._parts.pool.ready if self._parts.pool is not None else self._source.ready

    def counters(self) -> dict[str, float]:
        """What the source has read so far."""
        return {} if self.foreign else self._source.counters()

    def planned(self) -> dict[str, int]:
        """What the source was given to read so far."""
        return {} if self.foreign else self._source.planned()

    def next(self) -> Made | None:
        """The next step, None after the last."""
        if self.foreign:
            raise ClosedError(
                "this iteration belongs to the process that started it, and a fork has none of its threads: start a "
                "new iteration here (`for batch in loader`), or create the loader after the fork"
            )
        if self._parts.closed:
            raise ClosedError("the loader was closed: create a new one, or iterate before closing")
        if self._parts.pool is not None:
            made: Made | None = self._parts.pool.next(self._timeout)
            return made
        item = self._source.next()
        if item is None:
            return None
        return self._work(item) if self._work is not None else Made(item, item.ids, item.epoch, item.step)

    def close(self) -> None:
        """End all threads, processes and files of the pipeline. Safe to call again."""
        self._finalizer()


def describe(item: Batch | Task) -> str:
    """An item in an error."""
    return f"epoch {item.epoch}, step {item.step}"


def _close(parts: Parts) -> None:
    if os.getpid() != parts.pid:
        _INHERITED.append(parts)
    parts.close()


def _worker(work: Any, workers: Workers, remotes: dict[int, Remote]) -> Callable[[int, Any], Any]:
    """The function that a pool's threads call: the work itself, or a call of the thread's own process."""
    started: set[int] = set()

    def here(worker: int, item: Any) -> Any:
        if workers.start is not None and worker not in started:
            started.add(worker)
            workers.start(worker)
        return work(item)

    if workers.kind == "threads":
        return here
    packed = pack(Started(work, workers.start), what=work.what)

    def there(worker: int, item: Any) -> Any:
        if worker not in remotes:
            remotes[worker] = Remote(packed, method=workers.method)
        return remotes[worker].call((worker, item), timeout=workers.timeout, what=f"{work.what} for {describe(item)}")

    return there


class Started:
    """Work that calls the user's start function before its first item. One pickle serves all workers."""

    def __init__(self, work: Callable[[Any], Made], start: Callable[[int], object] | None) -> None:
        self._work = work
        self._start = start

    def __call__(self, numbered: tuple[int, Any]) -> Made:
        """The work's result for an item that is given with the worker's number."""
        worker, item = numbered
        if self._start is not None:
            self._start(worker)
            self._start = None
        return self._work(item)
