"""What exactly is read, kept and delivered, span by span?

The mechanical half of the planner. From a plan's switches and the order's ids follow the reads, the slots they land in,
the copies and the steps; nothing is decided here. The work is done in the core (native/kernels/expand.hpp).

A fold: slots and next-use residency depend on what has been in memory since the start, so spans come as an iterator
that begins with an empty memory at any step. Opens no file, reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.errors import PlanError
from headrace.native.kernels import Expander
from headrace.plan.next_use import next_uses
from headrace.values.layout import Layout, Part
from headrace.values.plan import READ_MODES, RESIDENCIES, Plan
from headrace.values.run import Run, Steps
from headrace.values.span import COPY, PIECE, READ, STEP, SpanPlan

CHUNK = 16384
"""Positions that the order is asked for at once."""


def expand(plan: Plan, start: int = 0, stop: int | None = None) -> Iterator[SpanPlan]:
    """The spans of a plan from step `start` (counted over the run) to step `stop`, or to the run's end.

    Every step from `start` on is in exactly one span, in order; every sample of a step is a hit, or lies in a read of
    this or an earlier span. The same plan and start give the same spans on every machine.
    """
    run = plan.run
    end = run.steps.total
    if stop is not None and (end is None or stop < end):
        end = stop
    if end is not None and start >= end:
        return
    core = Expander(
        parts=_parts(run.layout),
        fields=[-1 if f.ragged else f.nbytes for f in run.layout.fields],
        file_sizes=np.array([f.size for f in run.layout.files] or [0], np.int64),
        location=run.layout.location,
        n=run.layout.n,
        steps=_steps(run.steps, end),
        switches=_switches(plan),
        start_step=start,
    )
    fed = run.steps.position(start)
    index = 0
    while True:
        try:
            made = core.next()
        except ValueError as error:
            raise PlanError(_too_small(plan)) from error
        if made is None:
            return
        if isinstance(made, bool):
            fed = _feed(core=core, run=run, fed=fed, end=end)
            continue
        yield _span(index, made, len(run.layout.fields))
        index += 1


def _parts(layout: Layout) -> list[tuple[Any, ...]]:
    parts: list[tuple[Any, ...]] = []
    boxes = 0
    for number, f in enumerate(layout.fields):
        for part in f.parts:
            parts.append(_part(part, field=number, box=boxes if part.box is not None else -1))
            boxes += part.box is not None
    return parts


def _part(part: Part, *, field: int, box: int) -> tuple[Any, ...]:
    s = part.segments
    fixed = -1 if s.fixed is None else s.fixed
    return (s.first, s.file, s.offset, s.stride, s.nbytes, fixed, field, box)


def _steps(steps: Steps, end: int | None) -> dict[str, int]:
    return {
        "batch": steps.global_batch_size,
        "used": steps.used,
        "per_epoch": steps.per_epoch,
        "total": -1 if end is None else steps.position(end),
    }


def _switches(plan: Plan) -> dict[str, Any]:
    s, batch = plan.switches, plan.run.steps.global_batch_size
    mode = READ_MODES.index(s.read)
    if s.read == "direct" and plan.geometry.landing == "arena":
        mode = READ_MODES.index("window")
    return {
        "mode": mode,
        "policy": RESIDENCIES.index(s.residency),
        "resident": s.resident,
        "resident_units": plan.geometry.resident_slots,
        "round": s.round,
        "lead": s.lead,
        "span": s.span,
        "widest": max(batch, min(s.round, s.slots - s.lead - 2 * s.span - 2 * batch) // 2),
        "units": s.slots + plan.geometry.resident_slots,
        "unit_nbytes": plan.geometry.slot_nbytes,
        "gap": s.gap,
        "max_read": s.max_read,
        "align": s.align,
        "ramp": int(s.ramp),
        "ramp_gaps": list(s.ramp_gaps),
        "by_group": int(s.read == "group" and plan.run.order.name == "group"),
    }


def _feed(*, core: Expander, run: Run, fed: int, end: int | None) -> int:
    """Feeds the core up to what it needs, a chunk at the least; returns the position up to which it is fed."""
    steps, order = run.steps, run.order
    last = None if end is None else steps.position(end)
    goal = max(core.needs, fed + CHUNK)
    if last is not None:
        goal = min(goal, last)
    while fed < goal:
        epoch, within = divmod(fed, steps.used)
        take = min(goal - fed, steps.used - within, 16 * CHUNK)
        ids = order.ids(epoch, within, within + take)
        ahead = None
        if core.looks_ahead:
            ahead = next_uses(order=order, steps=steps, epoch=epoch, start=within, ids=ids)
        core.feed(ids, ahead)
        fed += take
    return fed


def _span(index: int, made: tuple[Any, ...], fields: int) -> SpanPlan:
    after, hits, held, late, reads, pieces, copies, steps, ids, offsets = made
    return SpanPlan(
        index=index,
        after=after,
        reads=reads.view(READ),
        pieces=pieces.view(PIECE),
        copies=copies.view(COPY),
        steps=steps.view(STEP),
        ids=ids.view(np.int64),
        offsets=offsets.view(np.int64).reshape(-1, fields),
        hits=hits,
        held=held,
        late=late,
    )


def _too_small(plan: Plan) -> str:
    step, arena = plan.run.steps.global_batch_size, plan.geometry.arena_nbytes
    return (
        f"a step of {step:,} samples does not fit into the {arena:,} bytes that memory={plan.run.memory:,} leaves for "
        "samples under way: give more memory, or a smaller batch"
    )
