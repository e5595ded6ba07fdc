"""What was measured, beside what was planned and what is possible?

A `Report` is a value: text, dict or JSON. Its sums are exact: operations and bytes of the engine beside those of the
spans it was given, and per epoch what the loop felt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cost import format_bytes
from headrace.errors import StateError

if TYPE_CHECKING:
    from headrace.runtime.metrics import Meter
    from headrace.runtime.session import Session
    from headrace.runtime.setup import Setup

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Report:
    """The figures of a run so far, as one tree of plain values."""

    data: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain dicts, lists and numbers."""
        out: dict[str, Any] = json.loads(json.dumps(self.data))
        return out

    def to_json(self) -> str:
        """The figures as JSON."""
        return json.dumps(self.data, indent=2)

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file, for `headrace report FILE`."""
        Path(path).write_text(self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """A report that was saved."""
        data = json.loads(Path(path).read_text())
        if not isinstance(data, dict) or data.get("format") != FORMAT or "epochs" not in data:
            raise StateError(f"{path} is not a report of this version of headrace (format {FORMAT})")
        return cls(data)

    def __str__(self) -> str:
        d = self.data
        lines = [f"run: {d['dataset']}, {d['steps_per_epoch']:,} steps of {d['global_batch_size']:,} an epoch"]
        lines += _epoch_table(d["epochs"])
        lines += _storage_lines(d)
        lines += [revision["text"] for revision in d.get("revisions", [])]
        skipped = d["skipped"]
        if skipped:
            lines.append(f"skipped: {len(skipped):,} samples")
            lines += [f"  sample {s['id']}: {s['reason']}" for s in skipped[:20]]
            if len(skipped) > 20:
                lines.append(f"  … and {len(skipped) - 20:,} more (to_dict() has all)")
        return "\n".join(lines)


def make_report(setup: Setup, session: Session, meter: Meter) -> Report:
    """The report of a loader as it stands."""
    steps = setup.steps
    return Report(
        {
            "format": FORMAT,
            "dataset": repr(setup.dataset),
            "fingerprint": setup.dataset.fingerprint,
            "order": setup.order.spec(),
            "global_batch_size": steps.global_batch_size,
            "steps_per_epoch": steps.per_epoch,
            "plan": _plan_of(setup),
            "revisions": _revisions_of(setup),
            "epochs": [record.to_dict() for record in meter.epochs],
            "measured": session.counters(),
            "submitted": session.planned(),
            "skipped": [s.to_dict() for s in setup.failures.skipped],
        }
    )


def _plan_of(setup: Setup) -> dict[str, Any] | None:
    plan = setup.plan
    if plan is None:
        return None
    return {
        "hash": plan.hash,
        "label": plan.chosen.label,
        "steady_epoch": plan.chosen.steady.to_dict(),
        "first_epoch": plan.chosen.first.to_dict(),
        "bound": {"samples": plan.bound.samples, "nbytes": plan.bound.nbytes, "seconds": plan.bound.seconds},
        "memory": plan.run.memory,
    }


def _revisions_of(setup: Setup) -> list[dict[str, Any]]:
    plans = setup.plans if not setup.mapped else None
    return [] if plans is None else [{**r.to_dict(), "text": str(r)} for r in plans.revisions]


_COLUMNS = ("epoch", "steps", "samples", "seconds", "waiting", "share", "loop", "longest wait", "first batch", "read")


def _epoch_table(epochs: list[dict[str, Any]]) -> list[str]:
    rows = [_COLUMNS]
    for e in epochs:
        nbytes = e["counters"].get("bytes")
        rows.append(
            (
                str(e["epoch"]) + ("" if e["finished"] else "*"),
                f"{e['steps']:,}",
                f"{e['samples']:,}",
                f"{e['seconds']:.3f}",
                f"{e['exposed_io_seconds']:.3f}",
                f"{100 * e['exposed_io_seconds'] / e['seconds']:.0f}%" if e["seconds"] else "-",
                f"{e['loop_seconds']:.3f}",
                f"{e['longest_wait_seconds']:.3f}",
                f"{e['first_batch_seconds']:.3f}" if e["first_batch_seconds"] is not None else "-",
                format_bytes(nbytes) if nbytes is not None else "-",
            )
        )
    widths = [max(len(row[k]) for row in rows) for k in range(len(_COLUMNS))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if any(not e["finished"] for e in epochs):
        table.append("* not delivered to its end")
    return table


def _storage_lines(d: Mapping[str, Any]) -> list[str]:
    measured, planned, plan = d["measured"], d["submitted"], d["plan"]
    if not measured or plan is None:
        return []
    steady, bound = plan["steady_epoch"], plan["bound"]
    return [
        f"plan: {plan['label']} ({plan['hash'][:8]})",
        f"read so far: {measured['operations']:,} operations, {format_bytes(measured['bytes'])}; the plan names "
        f"{planned['operations']:,} operations, {format_bytes(planned['nbytes'])} up to where it was expanded",
        f"samples: {planned['samples']:,} read, {planned['hits']:,} from memory, {planned['late']:,} late",
        f"estimated for an epoch after the first: {steady['operations']:,.0f} operations, "
        f"{format_bytes(steady['nbytes'])}, {steady['seconds']:.3f} s; no plan can "
        f"read less than {format_bytes(bound['nbytes'])} or take less than "
        f"{bound['seconds']:.3f} s",
        f"reads in flight: {measured['depth_mean']:.1f} on average, {measured['depth_max']:,} at most; "
        f"copied {format_bytes(measured['bytes_copied'])} into batches in {measured['copy_seconds']:.3f} s",
    ]
