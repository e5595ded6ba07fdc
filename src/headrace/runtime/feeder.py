"""Who turns the plan into work for the engine?

A thread folds `expand` and submits span after span, as far ahead as the engine takes them. Beside the engine it leaves
a note for every step: which ids, and where each field lies. It ends in one of three ways, and `next()` can tell them
apart: the plan's end, its own failure, or because it was told to stop.

The thread knows the plan, the engine and the notes; it does not know the loader.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace.values.span import SpanPlan

I64 = npt.NDArray[np.int64]
SUBMIT_SECONDS = 60.0
"""One try to submit. A full engine is no failure: the user may think about one batch for hours. Then it tries again."""


class Engine(Protocol):
    """What the feeder needs of the engine."""

    def submit(
        self,
        index: int,
        after: int,
        reads: npt.NDArray[np.void],
        pieces: npt.NDArray[np.void],
        copies: npt.NDArray[np.void],
        steps: npt.NDArray[np.void],
        timeout: float,
    ) -> bool:
        """Take a span; False if there was no room for it in time."""

    def finish(self) -> None:
        """No span follows."""


@dataclass(frozen=True, eq=False)
class Note:
    """A step that is on its way: its number in the run, its ids in the order of the rows, each field's offset."""

    step: int
    ids: I64
    offsets: I64


@dataclass
class Planned:
    """Sums over the spans that were submitted: what the engine must have done when they are complete."""

    spans: int = 0
    steps: int = 0
    samples: int = 0
    operations: int = 0
    nbytes: int = 0
    pieces: int = 0
    hits: int = 0
    late: int = 0

    def add(self, span: SpanPlan) -> None:
        """Count a span."""
        self.spans += 1
        self.steps += len(span.steps)
        ids = np.sort(span.pieces["id"])  # np.unique takes ten times as long for so few, and imports more of NumPy
        self.samples += int(np.count_nonzero(ids[1:] != ids[:-1])) + bool(len(ids))
        self.operations += len(span.reads)
        self.nbytes += span.nbytes
        self.pieces += len(span.pieces)
        self.hits += span.hits
        self.late += span.late


@dataclass
class Fold:
    """What the feeder's thread shares with the loader's."""

    notes: deque[Note] = field(default_factory=deque)
    planned: Planned = field(default_factory=Planned)
    failure: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)


class Feeder:
    """The thread. `spans` is called in it, so that a plan that is slow to start delays nobody."""

    def __init__(self, *, spans: Callable[[], Iterator[SpanPlan]], engine: Engine) -> None:
        self.fold = Fold()
        self._thread = threading.Thread(
            target=_feed, args=(spans, engine, self.fold), name="headrace-feeder", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Submit nothing more. The engine must be cancelled too, or the thread may still wait in it."""
        self.fold.stopped.set()

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end; False if it did not end in time."""
        if self._thread is threading.current_thread():
            return True  # a collection in this very thread found the loader unused: it ends after this
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()


def _feed(spans: Callable[[], Iterator[SpanPlan]], engine: Any, fold: Fold) -> None:
    try:
        for span in spans():
            _leave_notes(span, fold)
            while not fold.stopped.is_set() and not engine.submit(
                span.index, span.after, span.reads, span.pieces, span.copies, span.steps, SUBMIT_SECONDS
            ):
                continue
            if fold.stopped.is_set():
                return
    except BaseException as error:  # told to `next()`, which raises it after the batches that are still good
        if fold.stopped.is_set():
            return
        fold.failure = error
    # A loader that is closed just now has cancelled the engine: then there is nobody to tell.
    with contextlib.suppress(RuntimeError):
        engine.finish()


def _leave_notes(span: SpanPlan, fold: Fold) -> None:
    first = 0
    for k, (step, rows) in enumerate(zip(span.steps["step"].tolist(), span.steps["rows"].tolist(), strict=True)):
        fold.notes.append(Note(step, span.ids[first : first + rows], span.offsets[k]))
        first += rows
    fold.planned.add(span)
