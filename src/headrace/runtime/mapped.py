"""How does a map dataset become batches in a planned order?

The plan of a map dataset is its order and its steps alone: its samples have no extents. The source gives the ids of one
step after the other; workers fetch, collate and transform them (`work.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.runtime.work import Task
from headrace.values.run import Order, Steps


class MapSource:
    """The tasks of a run from step `start`: to its end, or to the end of that epoch with `one_epoch`."""

    def __init__(self, *, order: Order, steps: Steps, start: int, one_epoch: bool) -> None:
        stop = steps.total
        if one_epoch:
            stop = (start // steps.per_epoch + 1) * steps.per_epoch
        self._tasks = plan_tasks(order=order, steps=steps, start=start, stop=stop)

    def open(self) -> None:
        """Nothing is held open."""

    def next(self) -> Task | None:
        """The next step's task, None after the last."""
        return next(self._tasks, None)

    def waiting(self) -> str:
        """What the source waits for."""
        return "the order to give the next ids"

    @property
    def ready(self) -> int:
        """Batches that are ready: none, a task is only the plan of one."""
        return 0

    def counters(self) -> dict[str, float]:
        """What was read: unknown, the dataset reads."""
        return {}

    def planned(self) -> dict[str, int]:
        """What was planned to be read: nothing, as above."""
        return {}

    def cancel(self) -> None:
        """Nothing waits here."""

    def join(self, timeout: float) -> bool:
        """Nothing runs here."""
        return True


def plan_tasks(*, order: Order, steps: Steps, start: int, stop: int | None) -> Iterator[Task]:
    """The ids of every step from `start` to `stop` (None: without end)."""
    number = start
    while stop is None or number < stop:
        epoch, step = divmod(number, steps.per_epoch)
        first = step * steps.global_batch_size
        yield Task(epoch, step, order.ids(epoch, first, first + steps.rows(number)))
        number += 1
