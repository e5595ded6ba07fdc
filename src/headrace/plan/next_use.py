"""When is each sample used again? Asked by the next-use residency, which evicts what is used furthest ahead."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.values.run import Order, Steps

I64 = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
HORIZON = 8
"""Epochs that are searched for a sample that `drop_last` leaves out; beyond, it counts as never used again."""


def next_uses(*, order: Order, steps: Steps, epoch: int, start: int, ids: I64) -> I64:
    """The position (over the run) of the next use of each of `ids`, which stand at `start` of `epoch`, or NEVER."""
    found = _within_epoch(order=order, steps=steps, epoch=epoch, start=start, ids=ids)
    for later in range(epoch + 1, epoch + 1 + HORIZON):
        if steps.epochs is not None and later >= steps.epochs:
            break
        missing = np.flatnonzero(found == NEVER)
        if not len(missing):
            break
        at = order.positions(later, ids[missing])
        used = (at >= 0) & (at < steps.used)
        found[missing[used]] = later * steps.used + at[used]
    return found


def _within_epoch(*, order: Order, steps: Steps, epoch: int, start: int, ids: I64) -> I64:
    """Next uses inside the same epoch: only orders that repeat samples have any."""
    found = np.full(len(ids), NEVER, np.int64)
    if order.unique or not len(ids):
        return found
    rest = order.ids(epoch, start, steps.used)
    by_id = np.argsort(rest, kind="stable")
    same = rest[by_id][1:] == rest[by_id][:-1]
    following = np.full(len(rest), NEVER, np.int64)
    following[by_id[:-1][same]] = by_id[1:][same] + start + epoch * steps.used
    found[:] = following[: len(ids)]
    return found
