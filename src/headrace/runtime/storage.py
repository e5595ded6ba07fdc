"""How do planned bytes become batches?

Opens the native engine with the plan's memory, lets a feeder hand it the plan span by span, and takes the steps as they
become ready: views of the batch buffer, in this machine's byte order, without the samples that could not be read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from headrace.errors import ClosedError, DeadlineError, HeadraceError, InputError, PlanError
from headrace.plan.candidates import DIRECT_READS
from headrace.runtime.batch import Batch
from headrace.runtime.failures import Failures, read_error
from headrace.runtime.feeder import Feeder
from headrace.runtime.view import values_of
from headrace.values.layout import Layout
from headrace.values.plan import Plan
from headrace.values.span import SpanPlan

IO = ("auto", "threads", "uring")
SECTOR = 512
MAX_SPANS = 4
"""Spans that the engine holds at once: one being gathered, one being read, and the next ones ready to follow."""


@dataclass(frozen=True)
class Reading:
    """How the engine reads: its interface to the kernel, threads and queue depth (0: its own choice).

    Where the plan maps files, it is those of `map_from` bytes and more (a smaller one is read in less than a mapping
    takes), and after the first `map_after` bytes of the run (the first batch should not wait for page faults).
    `trace` keeps every operation and `fault` injects failures; both are for tests.
    """

    io: str = "auto"
    threads: int = 0
    depth: int = 64
    map_from: int = 1 << 20
    map_after: int = 64 << 20
    trace: bool = False
    fault: Any = None

    def __post_init__(self) -> None:
        if self.io not in IO:
            raise InputError(f"io={self.io!r}: expected one of {', '.join(map(repr, IO))}")


class StorageSource:
    """Batches of a plan, as `spans` gives them. `held` batches are in the hands of workers, beside the engine."""

    def __init__(
        self,
        *,
        plan: Plan,
        spans: Callable[[], Iterator[SpanPlan]],
        failures: Failures,
        reading: Reading,
        timeout: float,
        held: int,
    ) -> None:
        self._plan = plan
        self._layout: Layout = plan.run.layout
        self._spans = spans
        self._failures = failures
        self._reading = reading
        self._timeout = timeout
        self._held = held
        self._engine: Any = None
        self._feeder: Feeder | None = None
        self._last: dict[str, float] = {}

    def open(self) -> None:
        """Take the memory, start the threads. Files are opened when they are first read."""
        from headrace.native import engine

        self._errors = engine
        self._engine = engine.Engine(**engine_arguments(self._plan, reading=self._reading, held=self._held))
        self._feeder = Feeder(spans=self._spans, engine=self._engine)
        self._feeder.start()

    def planned(self) -> dict[str, int]:
        """Sums over what the engine was given so far."""
        return {} if self._feeder is None else asdict(self._feeder.fold.planned)

    @property
    def ready(self) -> int:
        """Batches that are gathered and wait to be taken."""
        return int(self._engine.ready) if self._engine is not None else 0

    def next(self) -> Batch | None:
        """The next step that has a sample to deliver, None after the last."""
        while True:
            ready = self._take()
            if ready is None:
                return None
            batch = self._batch(ready)
            if batch is not None:
                return batch

    def waiting(self) -> str:
        """What the engine waits for."""
        return str(self._engine.waiting()) if self._engine is not None else "the engine to start"

    def counters(self) -> dict[str, float]:
        """The engine's sums; the last ones after it was closed."""
        if self._engine is not None:
            self._last = dict(self._engine.counters())
        return self._last

    def cancel(self) -> None:
        """Stop feeding and reading; what waits in the engine returns."""
        if self._feeder is not None:
            self._feeder.stop()
        if self._engine is not None:
            self._engine.cancel()

    def join(self, timeout: float) -> bool:
        """Wait for the threads and give the memory back."""
        fed = self._feeder is None or self._feeder.join(timeout)
        ended = True
        if self._engine is not None:
            self.counters()
            ended = bool(self._engine.close(timeout))
            self._engine = None
        return fed and ended

    def _take(self) -> Any:
        assert self._engine is not None and self._feeder is not None
        engine = self._engine
        try:
            ready = engine.next(self._timeout)
        except self._errors.EngineTimeout as error:
            raise DeadlineError(f"no batch within timeout={self._timeout:g} s; {error}") from None
        except self._errors.EngineClosed as error:
            self._raise_failure()
            raise ClosedError(f"the loader was closed while a batch was being waited for ({error})") from None
        if ready is None:
            self._raise_failure()
        return ready

    def _raise_failure(self) -> None:
        assert self._feeder is not None
        failure = self._feeder.fold.failure
        if isinstance(failure, HeadraceError):
            raise failure
        if failure is not None:
            raise PlanError(f"expanding the plan failed: {failure!r}") from failure

    def _batch(self, ready: Any) -> Batch:
        assert self._feeder is not None
        note = self._feeder.fold.notes.popleft()
        if note.step != ready.step:
            raise RuntimeError(
                f"the engine is at step {ready.step} but the plan at step {note.step}: please report this"
            )
        if ready.failures:
            self._failures.note([read_error(failure, layout=self._layout) for failure in ready.failures])
        epoch, step = divmod(note.step, self._plan.run.steps.per_epoch)
        fields = {
            field.name: values_of(field, buffer=ready.buffer, offset=int(note.offsets[k]), ids=note.ids)
            for k, field in enumerate(self._layout.fields)
        }
        batch = Batch(fields, ids=note.ids, weight=1.0, epoch=epoch, step=step)
        keep = self._failures.keep(note.ids)
        return batch if keep is None else batch.rows(keep)


FEW_THREADS, MANY_THREADS = 8, 32
MAX_BOUNCE = 4 << 20
SMALL_PIECE = 1024
"""Below this, merged reads go through a buffer of some megabytes for each thread: then there are few."""


def threads_for(plan: Plan) -> int:
    """How many threads read.

    Copies out of memory keep one thread a core busy, and more would stand in each other's way. A device is kept busy by
    twice as many reads as it answers in one latency (Little's law); one of which only the kind is known, by sixteen.
    """
    if plan.switches.access == "direct":
        return DIRECT_READS
    if plan.switches.access == "mapped":
        return min(len(os.sched_getaffinity(0)), FEW_THREADS)
    small = any(part.segments.n and part.segments.nbytes.min() < SMALL_PIECE for part in plan.run.layout.parts)
    if small and plan.switches.read != "direct":
        return FEW_THREADS
    storage = plan.run.cost.storage
    return min(max(MANY_THREADS // 2, math.ceil(2 * storage.iops * storage.latency)), MANY_THREADS)


def engine_arguments(plan: Plan, *, reading: Reading, held: int) -> dict[str, Any]:
    """What the engine is opened with: everything is in the plan, but for how it talks to the kernel."""
    layout, geometry, switches = plan.run.layout, plan.geometry, plan.switches
    boxes = [
        (
            list(part.box.stored),
            list(part.box.valid),
            list(part.box.origin),
            field.stored.itemsize,
            list(field.shape or ()),
        )
        for field in layout.fields
        for part in field.parts
        if part.box is not None
    ]
    # Workers hold batches that the engine has given away: they come out of the same budget, but two must remain.
    budget = max(
        geometry.batches_nbytes - held * geometry.batch_nbytes, min(2 * geometry.batch_nbytes, geometry.batches_nbytes)
    )
    return {
        "paths": [file.path for file in layout.files],
        "known": [(file.size, file.mtime_ns) for file in layout.files],
        "arena": geometry.arena_nbytes,
        "boxes": boxes,
        "threads": reading.threads or threads_for(plan),
        "depth": reading.depth,
        "io": "threads" if reading.io == "auto" else reading.io,
        "access": switches.access,
        "map_from": reading.map_from,
        "map_after": reading.map_after,
        "align": max(switches.align, SECTOR),
        "batch_bytes": budget,
        "max_spans": MAX_SPANS,
        "bounce": min(switches.max_read, MAX_BOUNCE),
        "trace": reading.trace,
        "fault": reading.fault,
    }
