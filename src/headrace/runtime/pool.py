"""How is work done beside the training loop, in order and bounded?

Threads take items from a source one at a time, work on them at the same time, and hand the results out in the order of
the items. At most `ahead` items are taken but not yet handed out. A result is a value, a failure or the end, never
silence; a wait that runs into its deadline says what every worker is doing.

The threads know the shared state only: whoever drops the pool's owner can close it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import ClosedError, DeadlineError


@dataclass(frozen=True)
class Failure:
    """What a worker raised."""

    error: BaseException


class End:
    """The source has no more items."""


class Pool:
    """Ordered, bounded work on daemon threads: `source()` gives an item or None, `work(worker, item)` its result."""

    def __init__(
        self,
        *,
        source: Callable[[], Any],
        work: Callable[[int, Any], Any],
        describe: Callable[[Any], str],
        workers: int,
        ahead: int,
    ) -> None:
        self._source = source
        self._work = work
        self._describe = describe
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._results: dict[int, Any] = {}
        self._doing: dict[int, tuple[str, float]] = {}
        self._taken = 0
        self._given = 0
        self._ahead = max(ahead, 1)
        self._over = False
        self._cancelled = False
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), name=f"headrace-worker-{worker}", daemon=True)
            for worker in range(workers)
        ]

    def open(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    @property
    def ready(self) -> int:
        """Results that wait to be handed out."""
        return len(self._results)

    def next(self, timeout: float) -> Any:
        """The next result in order, None after the last; raises what the worker raised."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._cancelled or self._given in self._results, timeout):
                raise DeadlineError(f"no batch within timeout={timeout:g} s; waiting for {self.waiting()}")
            if self._cancelled:
                raise ClosedError("the loader was closed while a batch was being waited for")
            result = self._results[self._given]
            if isinstance(result, End):
                return None
            del self._results[self._given]
            self._given += 1
            self._changed.notify_all()
        if isinstance(result, Failure):
            raise result.error
        return result

    def waiting(self) -> str:
        """What every worker is doing, and for how long."""
        now = time.monotonic()
        doing = [f"{what} (for {now - since:.1f} s)" for what, since in sorted(self._doing.values())]
        return "; ".join(doing) or "a worker to take the next item"

    def cancel(self) -> None:
        """Take no more items and drop what was made; a waiting `next` raises."""
        with self._changed:
            self._over = self._cancelled = True
            self._results.clear()
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait for the threads; False if one did not end in time (it runs user code that nothing can stop)."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, worker: int) -> None:
        while True:
            # Items are numbered as they are taken, so taking is one worker's turn at a time.
            with self._turn:
                number, item = self._take(worker)
            if number < 0:
                return
            self._doing[worker] = (self._describe(item), time.monotonic())
            try:
                result = self._work(worker, item)
            except BaseException as error:  # a worker must not die unheard: the consumer raises it
                result = Failure(error)
            self._doing.pop(worker, None)
            self._put(number, result)
            del item, result

    def _take(self, worker: int) -> tuple[int, Any]:
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._taken - self._given < self._ahead)
            if self._over:
                return -1, None
            number = self._taken
            self._taken += 1
        self._doing[worker] = ("the next item of the source", time.monotonic())
        last: Any = End()
        try:
            item = self._source()
        except BaseException as error:  # as above
            item, last = None, Failure(error)
        self._doing.pop(worker, None)
        if item is not None:
            return number, item
        self._put(number, last, over=True)
        return -1, None

    def _put(self, number: int, result: Any, *, over: bool = False) -> None:
        with self._changed:
            self._over = self._over or over
            if not self._cancelled:
                self._results[number] = result
            self._changed.notify_all()
