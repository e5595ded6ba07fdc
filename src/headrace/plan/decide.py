"""Which plan is best for this run?

1. lay out every candidate that the memory allows: read mode × residency × split of the memory;
2. estimate an epoch of each (model.py), on the storage that the run describes;
3. take the cheapest, keep the others with their cost for `explain`.

What the user forces by name is not weighed. Opens no file, reads no clock; takes microseconds at any size of dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headrace.errors import PlanError
from headrace.plan.bounds import lower_bound
from headrace.plan.budget import Sizes
from headrace.plan.candidates import Desk, direct, grouped, windowed
from headrace.values.plan import Candidate, Geometry, Plan, Switches
from headrace.values.run import Run
from headrace.values.switches import check_switches

SPLITS = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Shares of the memory that are tried as a resident region beside a sweep."""
WORTH = 0.98
"""A more involved candidate must cost less than this share of a simpler one to be taken."""
MOST_SAMPLES = 2**32 - 2
MAPPED = "what top shows as resident includes mapped pages of the page cache; the kernel takes them back at will"
READ_AT_ONCE_FOR_BOXES = "chunks cut the samples: they are put together from the arena, not read into their batch"


def decide(run: Run, **forced: Any) -> Plan:
    """The cheapest plan for `run`. Any field of `Switches` may be forced by its name."""
    forced = check_switches(forced)
    _check(run, forced)
    sizes = Sizes(run)
    desk = Desk(run=run, sizes=sizes, forced={k: v for k, v in forced.items() if v is not None})
    candidates = [c for c in _candidates(desk) if c is not None]
    if not candidates:
        raise PlanError(_nothing_fits(run, sizes, desk.forced))
    chosen = candidates[0]
    for other in candidates[1:]:
        if other.steady.seconds < chosen.steady.seconds * WORTH:
            chosen = other
    rejected = tuple(
        replace(c, reason=_reason(c, chosen))
        for c in sorted(candidates, key=lambda c: c.steady.seconds)
        if c is not chosen
    )
    laid_out = geometry(run, chosen.switches, sizes)
    _check_memory(run, chosen.switches, laid_out)
    return Plan(
        run=run,
        switches=chosen.switches,
        geometry=laid_out,
        chosen=chosen,
        rejected=rejected,
        bound=lower_bound(run),
        notes=tuple(_notes(run, chosen.switches)),
    )


def _candidates(desk: Desk) -> Iterator[Candidate | None]:
    """Every candidate, the simpler ones first."""
    forced = desk.forced
    reads = [forced["read"]] if "read" in forced else _reads_for(desk.run)
    residencies = [forced["residency"]] if "residency" in forced else ["none", "static", "next-use", "lru"]
    if "resident" in forced and "residency" not in forced:
        residencies = ["static"]
    for read in reads:
        for one in desk.readings(read):
            for residency in residencies:
                yield from _settings(one, read=read, residency=residency)


def _settings(desk: Desk, *, read: str, residency: str) -> Iterator[Candidate | None]:
    """The candidates of one read mode and residency."""
    if read == "direct":
        yield direct(desk, residency=residency)
    elif read == "group":
        yield grouped(desk, residency=residency)
    elif residency == "none":
        yield windowed(desk, read=read, residency="none", share=0.0)
    elif "resident" in desk.forced:
        yield _with_exactly(desk, read=read, residency=residency)
    elif residency == "static" or "residency" in desk.forced:
        for share in SPLITS:
            yield windowed(desk, read=read, residency=residency, share=share)


def _with_exactly(desk: Desk, *, read: str, residency: str) -> Candidate | None:
    """The candidate that keeps just the samples that the user asked for, where the memory has room for them."""
    return windowed(desk, read=read, residency=residency, share=1.0)


def _reads_for(run: Run) -> list[str]:
    name = run.order.name
    if name in ("group", "window"):
        return ["group", "direct"]
    if name == "sequential":
        return ["direct", "group"]
    return ["direct", "window", "sweep"]


def geometry(run: Run, switches: Switches, sizes: Sizes) -> Geometry:
    """Where things lie in memory under these switches."""
    resident = sizes.resident_units(switches.resident)
    staged = any(p.box is not None for p in run.layout.parts)
    landing = "batch" if switches.read == "direct" and not staged else "arena"
    return Geometry(
        slot_nbytes=sizes.slot,
        resident_slots=resident,
        arena_nbytes=(switches.slots + resident) * sizes.slot,
        batch_nbytes=sizes.batch,
        batches_nbytes=switches.batches * sizes.batch,
        table_nbytes=sizes.tables,
        landing=landing,
    )


def _check(run: Run, forced: dict[str, Any]) -> None:
    unknown = sorted(set(forced) - set(Switches.__dataclass_fields__))
    if unknown:
        raise PlanError(
            f"no switch is called {', '.join(unknown)}; there are {', '.join(Switches.__dataclass_fields__)}"
        )
    for key in ("round", "lead", "span", "slots", "resident"):
        if forced.get(key) is not None and not 0 <= forced[key] <= MOST_SAMPLES:
            raise PlanError(f"{key}={forced[key]!r}: expected 0 to {MOST_SAMPLES:,}")
    if run.layout.n > MOST_SAMPLES:
        raise PlanError(f"the dataset has {run.layout.n:,} samples; at most {MOST_SAMPLES:,} can be planned")
    if not run.steps.used:
        raise PlanError(
            f"no step: {run.steps.length:,} samples an epoch do not fill one batch of "
            f"{run.steps.global_batch_size:,} and drop_last is set; use a smaller batch or drop_last=False"
        )


def _check_memory(run: Run, switches: Switches, laid_out: Geometry) -> None:
    """What is chosen by cost fits; what is forced may not."""
    if laid_out.arena_nbytes + laid_out.batches_nbytes > run.memory:
        raise PlanError(
            f"slots={switches.slots:,}, resident={switches.resident:,} and batches={switches.batches} take "
            f"{laid_out.arena_nbytes + laid_out.batches_nbytes:,} bytes; memory={run.memory:,}: force fewer of them, "
            "or give more memory"
        )
    if switches.read != "direct" and switches.lead > switches.slots:
        raise PlanError(
            f"lead={switches.lead:,} positions cannot be in memory before their use: there is room for "
            f"{switches.slots:,} samples under way; force a shorter lead, or give more memory"
        )


def _reason(candidate: Candidate, chosen: Candidate) -> str:
    if chosen.steady.seconds <= 0:
        return "as good, and more involved" if candidate.steady.seconds <= 0 else "reads where none is needed"
    ratio = candidate.steady.seconds / chosen.steady.seconds
    return f"{ratio:.2f}× the time" if ratio > 1.005 else "no better, and more involved"


def _notes(run: Run, switches: Switches) -> Iterator[str]:
    if not run.cost.storage.source.startswith("measured"):
        yield f"the storage is {run.cost.storage.source}, not measured: {run.cost.storage.name}"
    if switches.access == "mapped":
        yield MAPPED
    if switches.read == "direct" and any(p.box is not None for p in run.layout.parts):
        yield READ_AT_ONCE_FOR_BOXES
    yield from run.layout.notes


def _nothing_fits(run: Run, sizes: Sizes, forced: dict[str, Any] | Any) -> str:
    asked = ", ".join(f"{k}={v!r}" for k, v in forced.items()) or "any setting"
    why = ""
    if sizes.units is not None and forced.get("residency") in ("next-use", "lru"):
        why = " (samples of different sizes cannot trade places: next-use and lru need samples of one size)"
    return (
        f"no plan for {asked} with memory={run.memory:,} bytes{why}: a step is {sizes.batch:,} bytes, the dataset "
        f"{run.layout.nbytes:,}; give more memory, a smaller batch, or fewer settings by force"
    )
