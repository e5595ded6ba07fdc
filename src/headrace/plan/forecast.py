"""What exactly will each epoch read? Counted by folding `expand` without carrying anything out."""

from __future__ import annotations

import numpy as np

from headrace.plan.expand import expand
from headrace.values.plan import Figures, Plan
from headrace.values.span import SpanPlan


def forecast(plan: Plan, *, epochs: int, start: int = 0) -> list[Figures]:
    """Exact figures of `epochs` epochs from step `start`: what a run that starts there and is not disturbed reads.

    A read counts in the epoch of the first step that is delivered after it is issued; what the ramp reads ahead is part
    of the epoch in which it is read.
    """
    steps = plan.run.steps
    first_epoch = start // steps.per_epoch
    stop = (first_epoch + epochs) * steps.per_epoch
    totals = [[0, 0, 0] for _ in range(epochs)]
    for span in expand(plan, start, stop):
        epoch = min(span.after // steps.per_epoch, first_epoch + epochs - 1) - first_epoch
        totals[epoch][0] += _samples(span)
        totals[epoch][1] += len(span.reads)
        totals[epoch][2] += span.nbytes
    storage = plan.run.cost.storage
    return [
        Figures(samples=samples, operations=operations, nbytes=nbytes, seconds=storage.seconds(operations, nbytes))
        for samples, operations, nbytes in totals
    ]


def _samples(span: SpanPlan) -> int:
    """Samples that a span reads."""
    return len(np.unique(span.pieces["id"]))
