"""A plan is changed in the middle of a run only where that is worth it, and never what the user fixed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.order import make_order
from headrace.plan import decide
from headrace.plan.revise import GAIN, LEAST_SECONDS, revise, seconds_on
from headrace.values.cost import Cost, Storage
from headrace.values.plan import Figures
from headrace.values.run import Run, Steps
from plan.interpreter import fixed_layout

N, SIZE = 50_000, 19_200
SLOW = Storage(150, 150e6)
FAST = Storage(1_000_000, 5e9)


def run_on(storage, *, epochs=10):
    """A run whose memory is a tenth of its data."""
    steps = Steps(N, 256, epochs=epochs)
    return Run(fixed_layout(N, (SIZE,)), make_order("exact", n=N, seed=0), steps, N * SIZE // 10, Cost(storage))


def revised(plan, storage, *, epochs=9, loop=0.0, **forced):
    return revise(plan, storage=storage, epochs=epochs, loop_seconds=loop, forced=forced)


def test_a_storage_that_turns_out_fast_gets_another_plan():
    """The sweep that a disk needs is not what memory wants."""
    plan = decide(run_on(FAST))
    found = revised(plan, SLOW)
    assert found.plan.switches.read == "sweep" != plan.switches.read
    assert found.after < (1 - GAIN) * found.before
    assert found.plan.run.order is plan.run.order and found.plan.run.steps is plan.run.steps
    assert found.plan.run.memory == plan.run.memory


def test_the_storage_that_was_thought_of_changes_nothing():
    """The same question has the same answer."""
    assert revised(decide(run_on(SLOW)), SLOW) is None


def test_a_loop_that_is_slower_than_either_plan_is_left_alone():
    """Nobody would notice."""
    plan = decide(run_on(FAST))
    slowest = revised(plan, SLOW).before
    assert revised(plan, SLOW, loop=slowest) is None


@pytest.mark.parametrize("epochs", [0, -1])
def test_a_run_that_is_over_is_left_alone(epochs):
    """There is no rest to be made shorter."""
    assert revised(decide(run_on(FAST)), SLOW, epochs=epochs) is None


def test_a_run_without_end_may_change():
    """It has epochs before it."""
    assert revised(decide(run_on(FAST, epochs=None)), SLOW, epochs=None) is not None


def test_what_was_forced_stays():
    """And what then is no other plan is none."""
    plan = decide(run_on(FAST), read="direct", residency="none")
    found = revised(plan, SLOW, read="direct", residency="none")
    assert found is None or (found.plan.switches.read, found.plan.switches.residency) == ("direct", "none")


@given(
    st.floats(50, 1e6), st.floats(1e7, 8e9), st.floats(50, 1e6), st.floats(1e7, 8e9), st.integers(1, 20),
    st.floats(0, 100),
)  # fmt: skip
def test_a_change_saves_a_fifth_of_the_rest_at_least(iops, bandwidth, was_iops, was_bandwidth, epochs, loop):
    """Or there is none; and never less than it costs to stop and start."""
    plan = decide(run_on(Storage(was_iops, was_bandwidth)))
    found = revised(plan, Storage(iops, bandwidth), epochs=epochs, loop=loop)
    if found is not None:
        assert found.before - found.after >= max(GAIN * found.before, LEAST_SECONDS)
        assert found.plan.switches != plan.switches


def test_copies_in_memory_take_as_long_on_any_storage():
    """Only what is read gets faster."""
    figures = Figures(samples=0, operations=1500, nbytes=0, seconds=12.0)
    assert seconds_on(figures, old=SLOW, new=FAST) == pytest.approx(2.0, rel=0.01)
