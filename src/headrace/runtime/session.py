"""Where is the loop, and what happens when it leaves?

A session has one position (the next batch to hand out) and at most one pass at a time. A pass that reaches its end
leaves the pipeline running into the next epoch. One that is left early (`break`, an exception in the loop) closes the
pipeline at once, and the next pass starts the next epoch. After an error of the loader itself, the next pass starts at
the step that failed. End, failure and leaving are told apart: `next()` after a failure never looks like the end.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import ClosedError, DataError, DeadlineError, InputError, TransformError
from headrace.runtime.failures import Failures
from headrace.runtime.metrics import EpochRecord, Meter
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.state import Position
from headrace.runtime.work import Failed, Made
from headrace.values.run import Steps


@dataclass
class Pass:
    """One pass: its epoch, and whether it is running, ended, left, failed, or replaced by another.

    Threads that share it take turns.
    """

    epoch: int
    handed: int = 0
    state: str = "running"
    why: str = ""
    turn: threading.Lock = field(default_factory=threading.Lock)


class Session:
    """The position of a loader and the pipeline that serves it.

    `start(step)` opens a pipeline at a run-global step; `check()` looks at the files before every epoch. `after` is
    told of each epoch that was delivered and of the next one's number; where it says so, that needs a new pipeline.
    """

    def __init__(
        self,
        *,
        steps: Steps,
        start: Callable[[int], Pipeline],
        check: Callable[[], None],
        failures: Failures,
        meter: Meter,
        across_epochs: bool,
        timeout: float,
        after: Callable[[EpochRecord, int], bool],
    ) -> None:
        self._after = after
        self._across_epochs = across_epochs
        self.position = Position()
        self._steps = steps
        self._start = start
        self._check = check
        self._failures = failures
        self._meter = meter
        self._pipeline: Pipeline | None = None
        self._expected = -1
        self._pass: Pass | None = None
        self._left = False
        self._resumed = False
        self._requested: int | None = None
        self._closed = False
        self._timeout = timeout
        self._before: dict[str, float] = {}
        self._planned_before: dict[str, int] = {}

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or that the next pass will be."""
        if self._pass is not None and self._pass.state == "running":
            return self._pass.epoch
        if self._requested is not None:
            return self._requested
        return self.position.epoch + (1 if self._left else 0)

    def request(self, epoch: int) -> None:
        """Let the next pass be this epoch; a pass that is running goes on."""
        self._requested = epoch

    def resume(self, position: Position) -> None:
        """Let the next pass continue at this position; `request` of the same epoch keeps the step."""
        self._end_pass("replaced", "the loader was moved to a saved state")
        self.position = position
        self._left = False
        self._resumed = True
        self._requested = None

    def begin(self) -> Pass:
        """A new pass. One that is still running is replaced: a loader has one position."""
        began = time.perf_counter()
        if self._closed:
            raise ClosedError("the loader was closed: create a new one")
        self._end_pass("replaced", "another iteration over the same loader was started; two at once need two loaders")
        self._settle_position()
        epochs = self._steps.epochs
        if epochs is not None and self.position.epoch >= epochs:
            raise ClosedError(
                f"the run is over: all {epochs} epochs were delivered. Give a larger epochs= (None is endless), or go "
                "back with set_epoch()"
            )
        self._check()
        if (
            self._pass is not None
            and self._pass.state == "ended"
            and self._after(self._meter.epochs[-1], self.position.epoch)
        ):
            self._close_pipeline()
        fresh = self._ensure_pipeline()
        self._pass = Pass(self.position.epoch)
        place = self.position
        self._meter.begin(epoch=place.epoch, step=place.step, counters=self.counters(), began=began, fresh=fresh)
        return self._pass

    def advance(self, current: Pass) -> Any:
        """The next value of a pass; raises `StopIteration` at the end of its epoch.

        Threads that share an iterator take turns: each value goes to one of them, and the end to all.
        """
        if not current.turn.acquire(timeout=self._timeout):
            raise DeadlineError(f"another thread has waited for this loader's next batch for {self._timeout:g} s")
        try:
            return self._advance(current)
        finally:
            current.turn.release()

    def _advance(self, current: Pass) -> Any:
        if current.state == "ended":
            raise StopIteration
        if current.state != "running":
            raise ClosedError(f"this iteration is over: {current.why}")
        assert self._pipeline is not None
        asked = self._meter.asked(self._pipeline.ready)
        try:
            made = self._next(current)
        except BaseException as error:
            # Also for KeyboardInterrupt: a batch may be lost between the pipeline and here, so it cannot go on.
            self._fail(current, error)
            raise
        if made is None:
            self._finish(current)
            raise StopIteration
        current.handed += 1
        self._meter.handed(asked, len(made.ids))
        return made.value

    def leave(self, current: Pass) -> None:
        """The user let go of the iterator: nothing runs on behind a loop that was left."""
        if current.state != "running":
            return
        current.state, current.why = "left", "it was left"
        self._left = current.handed > 0 and self.position.epoch == current.epoch
        self._meter.end(self.counters(), finished=self.position.epoch > current.epoch)
        if self.position.epoch == current.epoch:
            self._close_pipeline()

    def abandon(self) -> None:
        """The start of a pass did not come to its end: nothing runs on that nobody holds."""
        if self._pass is not None:
            self.leave(self._pass)
        self._close_pipeline()

    def close(self) -> None:
        """Close everything, for good."""
        self._end_pass("closed", "the loader was closed")
        self._closed = True
        self._close_pipeline()

    def _settle_position(self) -> None:
        if self._left:
            self.position = Position(self.position.epoch + 1)
        if self._requested is not None and not (self._resumed and self._requested == self.position.epoch):
            self.position = Position(self._requested)
        self._left = self._resumed = False
        self._requested = None

    def _next(self, current: Pass) -> Made | None:
        assert self._pipeline is not None
        while self.position.epoch == current.epoch:
            made = self._pipeline.next()
            if made is None:
                raise RuntimeError(f"the pipeline ended at {self.position}, before its epoch: please report this")
            for failed in made.failed:
                self._tell(failed, made)
            self.position = Position.of(made.epoch * self._steps.per_epoch + made.step + 1, self._steps)
            self._expected = self.position.number(self._steps)
            if made.value is not None and len(made.ids):
                return made
            self._meter.dropped()
        return None

    def _tell(self, failed: Failed, made: Made) -> None:
        shown = ", ".join(map(str, failed.ids[:8].tolist())) + (" …" if len(failed.ids) > 8 else "")
        what = f"{type(failed.error).__name__}: {failed.error}"
        where = f"epoch {made.epoch}, step {made.step} (samples {shown})"
        if failed.stage == "fetch":
            text = f"the dataset could not give sample {shown} for {where}: {what}"
            error: Exception = DataError(text, sample=int(failed.ids[0]))
        else:
            notes = "".join(f" {note}" for note in getattr(failed.error, "__notes__", []))
            text = f"{failed.stage} failed at {where}{notes}: {what}"
            error = TransformError(text)
        if self._failures.policy.on_error == "raise":
            raise error from failed.error
        self._failures.drop(failed.ids, reason=text, error=failed.error)

    def _ensure_pipeline(self) -> bool:
        wanted = self.position.number(self._steps)
        if self._pipeline is not None and (self._expected != wanted or self._pipeline.foreign):
            self._close_pipeline()
        if self._pipeline is not None:
            return False
        pipeline = self._start(wanted)
        try:
            pipeline.open()
            self._pipeline, self._expected = pipeline, wanted
        except BaseException:  # also an interrupt: what did not open is not kept
            pipeline.close()
            raise
        return True

    def _fail(self, current: Pass, error: BaseException) -> None:
        current.state = "failed"
        current.why = f"it failed with {type(error).__name__}: {error}"
        self._meter.end(self.counters(), finished=False)
        self._close_pipeline()

    def _finish(self, current: Pass) -> None:
        over = self._steps.epochs is not None and self.position.epoch >= self._steps.epochs
        if over:
            try:
                self._check()  # every other epoch's files are looked at before the next one
            except BaseException as error:
                self._fail(current, error)
                raise
        current.state = "ended"
        self._meter.end(self.counters(), finished=True)
        if over or not self._across_epochs:
            self._close_pipeline()

    def _end_pass(self, state: str, why: str) -> None:
        if self._pass is not None and self._pass.state == "running":
            self.leave(self._pass)
            self._pass.state, self._pass.why = state, why

    def counters(self) -> dict[str, float]:
        """What was read so far, over all pipelines of this session."""
        return _summed(self._before, {} if self._pipeline is None else self._pipeline.counters())

    def planned(self) -> dict[str, int]:
        """What the engine was given so far, over all pipelines of this session."""
        return _summed(self._planned_before, {} if self._pipeline is None else self._pipeline.planned())

    def _close_pipeline(self) -> None:
        if self._pipeline is None:
            return
        pipeline, self._pipeline = self._pipeline, None
        pipeline.close()
        if not pipeline.foreign:
            self._before = _summed(self._before, pipeline.counters())
            self._planned_before = _summed(self._planned_before, pipeline.planned())


LEVELS = ("depth_max", "depth_mean", "open_files", "arena", "batch_bytes_used", "spans_unfinished", "bounce_bytes")
"""Counters that are a state and not a sum: the latest one counts."""


def _summed(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return before | {
        key: value if key in LEVELS or key.startswith("buffer") else before.get(key, 0) + value
        for key, value in now.items()
    }


def check_epoch(epoch: int, steps: Steps) -> int:
    """An epoch that the user names."""
    try:
        epoch = -1 if isinstance(epoch, bool) else operator.index(epoch)
    except TypeError as error:
        raise InputError(f"set_epoch({epoch!r}): expected a whole number from 0") from error
    if epoch < 0:
        raise InputError(f"set_epoch({epoch!r}): expected a whole number from 0")
    if steps.epochs is not None and epoch >= steps.epochs:
        raise InputError(f"set_epoch({epoch}): the run has the epochs 0..{steps.epochs - 1}")
    return epoch
