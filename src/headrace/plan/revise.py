"""Is another plan worth the change, now that the storage is known better?

The rest of the run is weighed: the plan as it is, on the storage as it turned out to be, against the best plan for that
storage, which begins with a first epoch because what is in memory is given up. Nothing is faster than the loop's own
work. The order is the run's, so the steps stay the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import PlanError
from headrace.plan.decide import decide
from headrace.values.cost import Storage
from headrace.values.plan import Figures, Plan

GAIN = 0.2
"""The share of the remaining time that a new plan must save."""
LEAST_SECONDS = 0.5
"""And the seconds: stopping and starting takes some."""
ENDLESS = 8
"""Epochs that a run without end is taken to have before it."""


@dataclass(frozen=True, eq=False)
class Revised:
    """Another plan for the rest of a run, with the seconds of that rest under both."""

    plan: Plan
    before: float
    after: float


def revise(
    plan: Plan, *, storage: Storage, epochs: int | None, loop_seconds: float, forced: Mapping[str, Any]
) -> Revised | None:
    """A plan that makes the remaining `epochs` of the run shorter by enough, or None.

    `loop_seconds` is what the loop's own work takes in an epoch; `forced` are the switches that the user set.
    """
    left = ENDLESS if epochs is None else epochs
    if left < 1:
        return None
    cost = replace(plan.run.cost, storage=storage, step_seconds=loop_seconds / max(plan.run.steps.per_epoch, 1))
    try:
        other = decide(replace(plan.run, cost=cost), **forced)
    except PlanError:
        return None
    if other.switches == plan.switches:
        return None
    before = left * max(seconds_on(plan.chosen.steady, old=plan.run.cost.storage, new=storage), loop_seconds)
    first, steady = max(other.chosen.first.seconds, loop_seconds), max(other.chosen.steady.seconds, loop_seconds)
    after = first + (left - 1) * steady
    if before - after < max(GAIN * before, LEAST_SECONDS):
        return None
    return Revised(other, before, after)


def seconds_on(figures: Figures, *, old: Storage, new: Storage) -> float:
    """What an epoch that was estimated on one storage takes on another; the copies in memory take as long as before."""
    copies = max(figures.seconds - old.seconds(figures.operations, figures.nbytes), 0.0)
    return new.seconds(figures.operations, figures.nbytes) + copies
