"""What will happen, and why? The plan as text, like a database's EXPLAIN: figures, bound, and what was rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.plan.budget import HELD_BATCHES
from headrace.values.plan import Candidate, Figures, Plan

ACCESS = {
    "buffered": "through the page cache",
    "direct": "around the page cache",
    "mapped": "copied out of the page cache without a system call",
}


def explain(plan: Plan, *, rejected: int = 6) -> str:
    """The plan in about thirty lines."""
    return "\n".join(
        [*_run(plan), "", *_choice(plan), "", *_figures(plan), "", *_rejected(plan, rejected), *_notes(plan)]
    )


def explain_dict(plan: Plan) -> dict[str, Any]:
    """The same as `explain`, for programs."""
    return {
        "hash": plan.hash,
        "run": plan.run.spec(),
        "world": {"engine": plan.run.world.engine, "ranks": plan.run.world.ranks},
        "storage": plan.run.cost.storage.to_dict(),
        "switches": plan.switches.to_dict(),
        "geometry": vars(plan.geometry),
        "steady": plan.chosen.steady.to_dict(),
        "first": plan.chosen.first.to_dict(),
        "bound": vars(plan.bound),
        "rejected": [
            {"label": c.label, "switches": c.switches.to_dict(), "steady": c.steady.to_dict(), "reason": c.reason}
            for c in plan.rejected
        ],
        "notes": list(plan.notes),
    }


def size(nbytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(nbytes) < 1024 or unit == "TiB":
            return f"{nbytes:,.0f} {unit}" if unit == "B" else f"{nbytes:,.1f} {unit}"
        nbytes /= 1024
    raise AssertionError("unreachable")


def _run(plan: Plan) -> Iterator[str]:
    run, layout = plan.run, plan.run.layout
    epochs = "endless" if run.steps.epochs is None else f"{run.steps.epochs} epochs"
    share = run.memory / max(layout.nbytes, 1)
    storage = run.cost.storage
    yield f"plan {plan.hash[:12]}"
    yield (
        f"  data     {layout.n:,} samples in {len(layout.files):,} {layout.format} file(s), {size(layout.nbytes)}, "
        + (f"{size(layout.sample_nbytes)} each" if layout.fixed else f"{size(layout.sample_nbytes)} on average")
    )
    yield f"  order    {run.order.name}, {run.steps.length:,} positions an epoch, {epochs}"
    yield (
        f"  steps    {run.steps.per_epoch:,} an epoch, global batch {run.steps.global_batch_size:,} = "
        f"{run.steps.global_batch_size // run.world.ranks:,} on each of {run.world.ranks} rank(s) ({run.world.engine})"
    )
    yield f"  memory   {size(run.memory)} = {share:.0%} of the data"
    yield (
        f"  storage  {storage.name}: {storage.iops:,.0f} operations/s, {size(storage.bandwidth)}/s, "
        f"{storage.latency * 1e3:.2f} ms ({storage.source})"
    )


def _choice(plan: Plan) -> Iterator[str]:
    s, g = plan.switches, plan.geometry
    yield f"chosen: {plan.chosen.label}"
    if s.read == "sweep":
        rounds = plan.run.steps.used / s.round
        yield f"  {rounds:.2f} rounds of the data an epoch; a sample is read on the last round before its use"
    elif s.read == "direct":
        yield "  every step's missing samples are read for that step alone"
    else:
        yield f"  the reads of {s.round:,} positions are sorted and made together"
    yield (
        f"  memory: {size(g.resident_slots * g.slot_nbytes)} resident, {size(s.slots * g.slot_nbytes)} under way, "
        f"{s.batches} batches of {size(g.batch_nbytes)} prepared and {HELD_BATCHES} in use"
    )
    yield (
        f"  reads: gaps up to {size(s.gap)} are read through, none longer than {size(s.max_read)}, "
        f"{ACCESS[s.access]}; {s.lead:,} positions of lead"
    )


def _figures(plan: Plan) -> Iterator[str]:
    yield f"  {'':22}{'samples read':>14}{'operations':>14}{'bytes':>14}{'seconds':>10}"
    yield _row("first epoch (about)", plan.chosen.first)
    yield _row("each later (about)", plan.chosen.steady)
    bound = plan.bound
    yield f"  {'no plan can beat':22}{bound.samples:>14,}{'':>14}{size(bound.nbytes):>14}{bound.seconds:>10.2f}"
    step = plan.run.cost.step_seconds
    if step > 0:
        compute = step * plan.run.steps.per_epoch
        waits = max(0.0, plan.chosen.steady.seconds - compute)
        yield f"  compute {compute:.2f} s an epoch: exposed I/O about {waits:.2f} s"


def _row(name: str, figures: Figures) -> str:
    return (
        f"  {name:22}{figures.samples:>14,.0f}{figures.operations:>14,.0f}{size(figures.nbytes):>14}"
        f"{figures.seconds:>10.2f}"
    )


def _rejected(plan: Plan, most: int) -> Iterator[str]:
    if not plan.rejected:
        yield "rejected: nothing; the setting was forced or the only one possible"
        return
    yield "rejected:"
    for candidate in _different(plan.rejected)[:most]:
        yield f"  {candidate.label:44}{candidate.steady.seconds:>10.2f} s  {candidate.reason}"


def _different(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """The best candidate of each kind (read mode and residency), cheapest first."""
    seen: dict[tuple[str, str], Candidate] = {}
    for c in candidates:
        seen.setdefault((c.switches.read, c.switches.residency), c)
    return list(seen.values())


def _notes(plan: Plan) -> Iterator[str]:
    if plan.notes:
        yield ""
    for note in plan.notes:
        yield f"note: {note}"
