"""What did the run do, and how long did the training loop wait for it?

*Exposed I/O* is the time that `next()` waited: the figure that users feel. *Loop* is the time between two calls of
`next()`: the user's own work. Two clock readings and a few additions a step are all it costs.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import Any

WAITED = 1e-3
"""A step whose batch was not ready within a millisecond counts as one that waited."""


@dataclass
class EpochRecord:
    """One pass over the loader. `wait` has the exposed seconds of every step, for the latest passes only."""

    epoch: int
    first_step: int
    steps: int = 0
    samples: int = 0
    dropped: int = 0
    exposed: float = 0.0
    loop: float = 0.0
    longest: float = 0.0
    waited: int = 0
    queued: int = 0
    first_batch: float | None = None
    finished: bool = False
    counters: dict[str, float] = field(default_factory=dict)
    wait: array[float] | None = None

    @property
    def seconds(self) -> float:
        """Time of the pass: waiting and the user's own work."""
        return self.exposed + self.loop

    @property
    def queue_depth(self) -> float:
        """Batches that were ready when `next()` was called, on average."""
        return self.queued / self.steps if self.steps else 0.0

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return {
            "epoch": self.epoch,
            "first_step": self.first_step,
            "steps": self.steps,
            "samples": self.samples,
            "dropped_batches": self.dropped,
            "seconds": self.seconds,
            "exposed_io_seconds": self.exposed,
            "loop_seconds": self.loop,
            "longest_wait_seconds": self.longest,
            "steps_that_waited": self.waited,
            "queue_depth": self.queue_depth,
            "first_batch_seconds": self.first_batch,
            "finished": self.finished,
            "counters": dict(self.counters),
            "exposed_by_step": list(self.wait) if self.wait is not None else None,
        }


class Meter:
    """The records of a loader's passes. Step by step it keeps the latest two, so that long runs stay small."""

    def __init__(self) -> None:
        self.epochs: list[EpochRecord] = []
        self._handed = 0.0
        self._began = 0.0
        self._fresh = False
        self._base: dict[str, float] = {}

    def begin(self, *, epoch: int, step: int, counters: dict[str, float], began: float, fresh: bool) -> None:
        """A pass was asked for at `began`; `fresh` if a pipeline starts too: then there is a time to first batch."""
        for old in self.epochs[-1:-4:-1][1:]:
            old.wait = None
        self.epochs.append(EpochRecord(epoch, step, wait=array("d")))
        self._fresh, self._began = fresh, began
        self._base = counters
        self._handed = 0.0

    def asked(self, ready: int) -> float:
        """`next()` was called with so many batches ready; gives the time."""
        now = time.perf_counter()
        record = self.epochs[-1]
        if self._handed:
            record.loop += now - self._handed
            self._handed = 0.0
        record.queued += ready
        return now

    def handed(self, asked: float, samples: int) -> None:
        """A batch of so many samples is handed to the user."""
        now = time.perf_counter()
        record = self.epochs[-1]
        if self._fresh and not record.steps:
            record.first_batch = now - self._began
        self._waited(now - asked)
        record.steps += 1
        record.samples += samples
        self._handed = now

    def dropped(self) -> None:
        """A batch of which nothing is left."""
        self.epochs[-1].dropped += 1

    def end(self, counters: dict[str, float], *, finished: bool) -> None:
        """The pass ends: at its end, or because the user left."""
        record = self.epochs[-1]
        if self._handed:
            record.loop += time.perf_counter() - self._handed
            self._handed = 0.0
        record.finished = finished
        record.counters = {key: value - self._base.get(key, 0) for key, value in counters.items()}

    def _waited(self, seconds: float) -> None:
        record = self.epochs[-1]
        if record.wait is not None:
            record.wait.append(seconds)
        record.exposed += seconds
        record.longest = max(record.longest, seconds)
        record.waited += seconds > WAITED
