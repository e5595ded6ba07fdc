"""Which plan is carried out now, and why is it another one than at the start?

At the end of an epoch the engine's counters say what the storage did. Where that is not what the plan rests on, and
another plan would make the rest of the run shorter by enough, the next epoch begins with that one. What the user fixed
stays: the switches set by name, a given storage, a given plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.cost.learned import Observation, learn, observe
from headrace.plan.revise import revise
from headrace.runtime.metrics import EpochRecord
from headrace.values.cost import Storage
from headrace.values.plan import Plan


@dataclass(frozen=True)
class Revision:
    """A change of plan: before which epoch, what the last one did (`seen`), old and new plan.

    The storage was taken for `assumed`, and is taken for `observed` now.
    """

    epoch: int
    seen: Observation
    assumed: Storage
    observed: Storage
    old: str
    new: str
    seconds_before: float
    seconds_after: float

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return {
            "epoch": self.epoch,
            "assumed": self.assumed.to_dict(),
            "observed": self.observed.to_dict(),
            "seen": asdict(self.seen),
            "old": self.old,
            "new": self.new,
            "predicted_seconds_before": self.seconds_before,
            "predicted_seconds_after": self.seconds_after,
            "why": self.why,
        }

    @property
    def why(self) -> str:
        """The reason in words."""
        o, a, b = self.seen, self.assumed, self.observed
        return (
            f"{o.operations:,.0f} reads of {o.nbytes / 1e6:,.0f} MB in {o.busy:.1f} s, so the storage is taken for "
            f"{b.iops:,.0f} operations/s and {b.bandwidth / 1e6:,.0f} MB/s instead of {a.iops:,.0f} and "
            f"{a.bandwidth / 1e6:,.0f} ({a.source}): {self.seconds_after:.1f} s for the rest of the run instead of "
            f"{self.seconds_before:.1f} s"
        )

    def __str__(self) -> str:
        return f"plan revised before epoch {self.epoch}: {self.old} -> {self.new}; {self.why}"


class Plans:
    """The plan of a run and its revisions. `revisable` is False where the user gave what a revision would change."""

    def __init__(self, plan: Plan, *, forced: Mapping[str, Any], revisable: bool) -> None:
        self.current = plan
        self.revisions: list[Revision] = []
        self._known = plan.run.cost.storage
        self._forced = forced
        self._revisable = revisable
        self._seen: list[Observation] = []

    def after(self, record: EpochRecord, *, next_epoch: int) -> bool:
        """Look at an epoch that was delivered; whether the next one has another plan."""
        if not self._revisable or not record.finished or record.first_step != 0:
            return False
        self._seen.append(observe(record.counters, waited=record.exposed, seconds=record.seconds))
        if not self._seen[-1].bound_by_storage:
            return False
        storage = learn(self._known, self._seen)
        old, epochs = self.current, self.current.run.steps.epochs
        if storage == old.run.cost.storage:
            return False
        left = None if epochs is None else epochs - next_epoch
        found = revise(old, storage=storage, epochs=left, loop_seconds=record.loop, forced=self._forced)
        if found is None:
            return False
        self.revisions.append(
            Revision(
                epoch=next_epoch,
                seen=self._seen[-1],
                assumed=old.run.cost.storage,
                observed=storage,
                old=old.chosen.label,
                new=found.plan.chosen.label + _otherwise(old, found.plan),
                seconds_before=found.before,
                seconds_after=found.after,
            )
        )
        self.current = replace(found.plan, notes=(*found.plan.notes, str(self.revisions[-1])))
        return True


def _otherwise(old: Plan, new: Plan) -> str:
    """What differs between two plans of one label."""
    if old.chosen.label != new.chosen.label:
        return ""
    before, after = old.switches.to_dict(), new.switches.to_dict()
    changed = [f"{k}={after[k]:,}" for k in ("gap", "span", "batches", "slots") if before[k] != after[k]]
    return f" ({', '.join(changed or ['access=' + after['access']])})"
