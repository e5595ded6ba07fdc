"""What `expand` promises, over random runs: the right bytes, once an epoch, in the order's order, in its memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.order import make_order
from headrace.plan import decide, expand
from headrace.values.cost import Cost
from headrace.values.plan import READ_MODES, RESIDENCIES, Plan
from headrace.values.run import Run, Steps
from plan.interpreter import Interpreter, content, fixed_layout, sample_bytes
from plan.worlds import STORAGES, runs


def try_decide(run: Run, **forced) -> Plan:
    """The plan, or no example where the memory is too small for one."""
    try:
        return decide(run, **forced)
    except PlanError:
        assume(False)
        raise


def check(plan: Plan, start: int = 0) -> Interpreter:
    """Carries the plan out and compares every byte of every step."""
    run = plan.run
    files = content(run.layout)
    machine = Interpreter(plan, files)
    expected = start
    for step, ids, rows in machine.run(expand(plan, start)):
        assert step == expected
        expected += 1
        epoch, within = divmod(step, run.steps.per_epoch)
        first = within * run.steps.global_batch_size
        assert ids.tolist() == run.order.ids(epoch, first, first + run.steps.rows(step)).tolist()
        for f, row in zip(run.layout.fields, rows, strict=True):
            wanted = [sample_bytes(run.layout, files, f, int(i)) for i in ids]
            assert np.array_equal(row, np.concatenate(wanted)), (step, f.name)
    assert expected == run.steps.total
    return machine


@given(runs(), st.data())
@settings(max_examples=150)
def test_every_step_has_its_bytes_in_the_orders_order(run, data):
    """Whatever is decided, each step delivers the order's samples with the bytes that storage holds."""
    start = data.draw(st.integers(0, max(0, run.steps.total - 1)))
    check(try_decide(run), start)


@given(runs(), st.sampled_from(READ_MODES), st.sampled_from(RESIDENCIES), st.data())
@settings(max_examples=300)
def test_every_switch_delivers_the_same(run, read, residency, data):
    """Every read mode with every residency, any round, slots, gap, ramp and alignment: the same bytes."""
    batch = run.steps.global_batch_size
    plan = try_decide(
        run,
        read=read,
        residency=residency,
        gap=data.draw(st.sampled_from([None, 0, 7, 500])),
        max_read=data.draw(st.sampled_from([None, 1 if run.layout.fixed else 100, 64, 4096])),
        align=data.draw(st.sampled_from([None, 16, 512])),
        ramp=data.draw(st.booleans()),
        resident=data.draw(st.sampled_from([None, 0, 1, 5, 50])),
        round=data.draw(st.sampled_from([None, batch, 2 * batch + 1, 7 * batch])),
    )
    machine = check(plan, data.draw(st.integers(0, run.steps.total - 1)))
    assert machine.peak <= plan.switches.slots + plan.geometry.resident_slots


@given(runs(), st.integers(1, 4), st.integers(1, 9), st.booleans())
@settings(max_examples=150)
def test_too_little_room_is_slow_never_wrong_never_stuck(run, steps_of_room, width, ramp):
    """With slots for hardly more than a step, samples are read late and directly, and still all arrive."""
    assume(run.layout.fixed)
    batch = run.steps.global_batch_size
    plan = try_decide(run, read="sweep", residency="none", round=width * batch, slots=steps_of_room * batch, ramp=ramp)
    machine = check(plan)
    assert machine.peak <= plan.switches.slots


@given(runs())
@settings(max_examples=60)
def test_the_same_plan_gives_the_same_spans(run):
    """Expanding twice gives the same work, byte for byte."""
    plan = try_decide(run)
    for a, b in zip(expand(plan), expand(plan), strict=True):
        assert (a.after, a.hits, a.held, a.late) == (b.after, b.hits, b.held, b.late)
        for name in ("reads", "pieces", "copies", "steps", "ids", "offsets"):
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes()


@given(runs(), st.sampled_from(["static", "next-use", "lru"]))
@settings(max_examples=80)
def test_resident_samples_are_not_read_again(run, residency):
    """Over a whole run, reads and hits together are the uses, but for repeats inside one step or round."""
    plan = try_decide(run, read="direct", residency=residency)
    assume(run.order.unique)
    hits = sum(s.hits for s in expand(plan))
    read = sum(len(np.unique(s.pieces[["step", "id"]])) for s in expand(plan)) if run.layout.sample_nbytes else 0
    assume(all(int(p.segments.nbytes.min()) > 0 for p in run.layout.parts) and plan.geometry.landing == "batch")
    assert hits + read == run.steps.used * (run.steps.epochs or 0)


def test_stopping_early_reads_nothing_for_later_steps():
    """A plan that is expanded up to a step reads what those steps need, and only that."""
    layout = fixed_layout(500, (10,))
    order = make_order("exact", n=500, seed=1)
    run = Run(layout, order, Steps(500, 20, False, None), 1_000_000, Cost(STORAGES[3]))
    plan = decide(run, read="direct", residency="none", gap=0)
    spans = list(expand(plan, 3, 7))
    assert [int(s) for span in spans for s in span.steps["step"]] == [3, 4, 5, 6]
    assert sum(span.nbytes for span in spans) == 4 * 20 * 10


def test_a_step_that_cannot_fit_is_refused_with_figures():
    """Memory that cannot hold a few batches is a PlanError that says how much it takes."""
    layout = fixed_layout(500, (1000,))
    run = Run(layout, make_order("exact", n=500, seed=1), Steps(500, 100, False, 2), 150_000, Cost(STORAGES[0]))
    with pytest.raises(PlanError, match=r"memory=150,000 bytes cannot hold"):
        decide(run)
