"""The sweep: exact order at near-sequential reads, in half the memory that windows need."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.order import make_order
from headrace.plan import decide, expand
from headrace.values.cost import Cost, Storage
from headrace.values.plan import Plan
from headrace.values.run import Run, Steps
from plan.interpreter import fixed_layout

DISK = Storage(1500, 150e6)


def sweep(
    n: int, batch: int, epochs: int, width: int, *, ramp: bool = True, seed: int = 0, read: str = "sweep"
) -> Plan:
    """A sweep with room for everything, so that nothing but the schedule shapes it."""
    order = make_order("exact", n=n, seed=seed)
    run = Run(fixed_layout(n, (100,)), order, Steps(n, batch, False, epochs), 1 << 33, Cost(DISK))
    return decide(run, read=read, residency="none", round=width, slots=4 * n, span=batch, lead=batch, ramp=ramp)


shapes = st.tuples(
    st.integers(20_000, 60_000), st.integers(8, 64), st.integers(2, 3), st.floats(0.1, 0.9), st.integers(0, 99)
)


@given(shapes)
@settings(max_examples=12)
def test_a_round_of_k_positions_holds_half_of_k(shape):
    """K = 2M: the peak of what is held lies within 2 % of K/2, the lead, the span and one step on top."""
    n, batch, epochs, share, seed = shape
    width = int(share * n)
    held = np.array(
        [s.held for s in expand(sweep(n, batch, epochs, width, seed=seed)) if s.after * batch < n * (epochs - 1)]
    )
    extra = 3 * batch  # lead, span, and the step that is being gathered
    noise = 3 * np.sqrt(width / 6)
    assert held.max() <= width / 2 * 1.02 + extra + noise


@given(shapes)
@settings(max_examples=12)
def test_windows_of_the_same_width_hold_twice_as_much(shape):
    """Windows hold a whole width where a sweep holds half of one."""
    n, batch, epochs, share, seed = shape
    width = int(share * n / 2)
    spans = list(expand(sweep(n, batch, epochs, width, seed=seed, read="window")))
    held = max(s.held for s in spans)
    assert width * 0.9 <= held <= width * 1.02 + 4 * batch


@given(shapes, st.booleans())
@settings(max_examples=8)
def test_a_sample_is_read_within_one_round_and_never_after_its_lead(shape, ramp):
    """Reads of the steady sweep lie between a lead and a lead and a round before their use."""
    n, batch, epochs, share, seed = shape
    width = int(share * n)
    plan = sweep(n, batch, epochs, width, ramp=ramp, seed=seed)
    steps, lead, span = plan.run.steps, plan.switches.lead, plan.switches.span
    uses = np.concatenate([e * n + plan.run.order.positions(e, np.arange(n)) for e in range(epochs)]).reshape(epochs, n)
    for made in expand(plan):
        start = steps.position(made.after)
        if start < 3 * width or not len(made.pieces):  # the ramp reads ahead of its window instead
            continue
        ids = made.pieces["id"]
        later = np.where(uses[:, ids] >= start + lead, uses[:, ids], np.iinfo(np.int64).max).min(axis=0)
        assert (later < start + batch + 2 * span + lead + width).all()
        assert made.late == 0


@given(shapes)
@settings(max_examples=10)
def test_every_sample_is_delivered_once_an_epoch_in_the_orders_order(shape):
    """The sweep changes when samples are read, never when they are used."""
    n, batch, epochs, share, seed = shape
    plan = sweep(n, batch, epochs, int(share * n), seed=seed)
    ids = np.concatenate([s.ids for s in expand(plan)])
    for epoch in range(epochs):
        assert np.array_equal(ids[epoch * n : (epoch + 1) * n], plan.run.order.ids(epoch, 0, n))


def test_the_first_batch_waits_for_one_batch_of_reads():
    """The ramp begins with a window of one step: what is read before the first step is that step."""
    plan = sweep(20_000, 50, 2, 8_000)
    first = next(expand(plan))
    assert list(first.steps["step"]) == [0]
    assert set(first.pieces["id"]) == set(plan.run.order.ids(0, 0, 50))


def test_a_resumed_sweep_soon_reads_what_the_first_one_reads():
    """Rounds are anchored to the run, not to its start: after the ramp a resumed run makes the very same reads."""
    plan = sweep(20_000, 50, 3, 6_000)
    whole = {(s.after, s.reads.tobytes()) for s in expand(plan) if s.after > 700}
    resumed = {(s.after, s.reads.tobytes()) for s in expand(plan, 123) if s.after > 700}
    assert whole == resumed
