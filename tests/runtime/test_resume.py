"""A state taken anywhere resumes there: nothing lost, nothing repeated, whatever the plan."""

from __future__ import annotations

import json

import numpy as np
import pytest
from runs import DISK, check, run

import headrace as hr
from headrace.errors import PlanError, StateError
from headrace.values.plan import READ_MODES, RESIDENCIES

EPOCHS = 3
ORDERS = {
    "exact": {"shuffle": "exact"},
    "sequential": {"shuffle": "sequential"},
    "echo": {"shuffle": "echo", "order_options": {"carry": 30}},
    "group": {"shuffle": "group", "order_options": {"size": 40}},
    "window": {"shuffle": "window", "order_options": {"size": 40}},
    "given": {"shuffle": lambda epoch: np.random.default_rng(epoch).permutation(203)[:190]},
}
MEMORIES = ("5MiB", "6500KiB", "9MiB", "24MiB")


def make(path, *, order, read, residency, memory, **options):
    return hr.Loader(
        path, global_batch_size=12, epochs=EPOCHS, memory=memory, storage=DISK, read=read, residency=residency,
        timeout=20, **ORDERS[order], **options,
    )  # fmt: skip


COMBINATIONS = [(order, read, residency) for order in ORDERS for read in READ_MODES for residency in RESIDENCIES]


def smallest(path, **how):
    """The least of a few memories with which there is such a plan, so that not everything fits."""
    for memory in MEMORIES[:-1]:
        try:
            if make(path, memory=memory, **how).plan is not None:
                return memory
        except PlanError:
            continue
    return MEMORIES[-1]


def through_json(loader):
    return json.loads(json.dumps(loader.state_dict()))


def run_noting_states(loader):
    """All steps of a run, and the state before each of them and after the last."""
    states, steps = [through_json(loader)], []
    for _ in range(EPOCHS):
        for batch in loader:
            steps.append(check(batch))
            states.append(through_json(loader))
    return steps, states


def check_resume(path, steps_between, order, read, residency):
    """Run once; then resume at every so many steps and compare the rest."""
    how = {"order": order, "read": read, "residency": residency}
    memory = smallest(path, **how)
    with make(path, memory=memory, **how) as loader:
        steps, states = run_noting_states(loader)
        figures = loader.report().to_dict()
    assert figures["measured"]["operations"] == figures["submitted"]["operations"]
    assert figures["measured"]["bytes"] == figures["submitted"]["nbytes"]
    # Each combination begins elsewhere, so that together they resume at every step.
    first = COMBINATIONS.index((order, read, residency)) % steps_between
    for k in range(first, len(steps), steps_between):
        with make(path, memory=memory, **how) as loader:
            loader.load_state_dict(states[k])
            got = run(loader, EPOCHS - loader.epoch)
            assert got == steps[k:], f"resumed at step {k} of {len(steps)}"


@pytest.mark.parametrize(("order", "read", "residency"), COMBINATIONS)
def test_a_resume_delivers_exactly_the_rest(train, order, read, residency):
    """For every order, read mode and residency that a plan exists for."""
    check_resume(train, 11, order, read, residency)


@pytest.mark.heavy
@pytest.mark.parametrize(("order", "read", "residency"), COMBINATIONS)
def test_a_resume_at_any_step_delivers_exactly_the_rest(train, order, read, residency):
    """The same, at every single step."""
    check_resume(train, 1, order, read, residency)


def test_the_state_is_a_few_numbers_and_the_same_for_every_plan(train):
    states = []
    for read, memory in (("direct", "5MiB"), ("sweep", "9MiB")):
        with make(train, order="exact", read=read, residency="none", memory=memory) as loader:
            it = iter(loader)
            for _ in range(5):
                next(it)
            states.append(loader.state_dict())
    assert states[0] == states[1]
    assert (states[0]["epoch"], states[0]["step"]) == (0, 5)
    assert len(json.dumps(states[0])) < 500
    assert states[0].keys() == {"format", "epoch", "step", "dataset", "order", "global_batch_size", "drop_last"}


def test_a_state_taken_with_one_plan_resumes_with_another(train):
    want = run(make(train, order="exact", read="direct", residency="static", memory="32MiB"), EPOCHS)
    with make(train, order="exact", read="direct", residency="static", memory="32MiB") as loader:
        it = iter(loader)
        for _ in range(7):
            next(it)
        state = through_json(loader)
    with make(train, order="exact", read="sweep", residency="none", memory="6MiB") as loader:
        loader.load_state_dict(state)
        assert run(loader, EPOCHS) == want[7:]


def test_the_state_counts_batches_that_were_handed_out_and_not_those_prepared(small):
    with hr.Loader(small, global_batch_size=10, epochs=2, memory="16MiB") as loader:
        assert (loader.state_dict()["epoch"], loader.state_dict()["step"]) == (0, 0)
        it = iter(loader)
        for k in range(9):
            next(it)
            state = loader.state_dict()
            assert (state["epoch"], state["step"]) == divmod(k + 1, 9)


def test_a_state_at_an_epochs_end_skips_no_epoch(small):
    def fresh():
        return hr.Loader(small, global_batch_size=10, epochs=3, memory="16MiB")

    want = run(fresh(), 3)
    with fresh() as loader:
        for batch in loader:
            if batch.step == 8:
                inside = through_json(loader)
        after = through_json(loader)
    assert inside == after
    with fresh() as loader:
        loader.load_state_dict(after)
        assert loader.epoch == 1
        assert run(loader, 2) == want[9:]


def test_after_an_early_break_the_state_is_where_the_break_was(small):
    def fresh():
        return hr.Loader(small, global_batch_size=10, epochs=3, memory="16MiB")

    want = run(fresh(), 3)
    with fresh() as loader:
        for batch in loader:
            if batch.step == 3:
                break
        state = through_json(loader)
        assert run(loader, 1) == want[9:18]
    with fresh() as loader:
        loader.load_state_dict(state)
        assert run(loader, 1) == want[4:9]
        assert run(loader, 2) == want[9:]


def test_set_epoch_of_the_resumed_epoch_keeps_the_step_and_another_one_starts_anew(small):
    """Frameworks call set_epoch before every epoch, also right after a resume."""

    def fresh():
        return hr.Loader(small, global_batch_size=10, epochs=3, memory="16MiB")

    want = run(fresh(), 3)
    state = fresh().state_dict() | {"epoch": 1, "step": 4}
    with fresh() as loader:
        loader.load_state_dict(state)
        loader.set_epoch(1)
        assert run(loader, 1) == want[13:18]
    with fresh() as loader:
        loader.load_state_dict(state)
        loader.set_epoch(2)
        assert run(loader, 1) == want[18:]


def test_loading_a_state_while_iterating_ends_that_iteration(small):
    with hr.Loader(small, global_batch_size=10, epochs=3, memory="16MiB") as loader:
        it = iter(loader)
        next(it)
        state = loader.state_dict()
        next(it)
        loader.load_state_dict(state)
        with pytest.raises(RuntimeError, match="saved state"):
            next(it)
        assert len(run(loader, 1)) == 8


def test_a_longer_run_may_continue_a_shorter_one(small):
    def fresh(epochs):
        return hr.Loader(small, global_batch_size=10, epochs=epochs, memory="16MiB")

    want = run(fresh(4), 4)
    with fresh(2) as loader:
        run(loader, 2)
        state = through_json(loader)
    with fresh(4) as loader:
        loader.load_state_dict(state)
        assert run(loader, 2) == want[18:]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "order"),
        ({"shuffle": "sequential"}, "order"),
        ({"global_batch_size": 11}, "global_batch_size: this loader has 11, the state 10"),
        ({"drop_last": True}, "drop_last: this loader has True, the state False"),
    ],
)
def test_a_state_of_another_run_is_refused_naming_what_differs(small, change, named):
    state = hr.Loader(small, global_batch_size=10, memory="16MiB").state_dict()
    other = hr.Loader(small, **({"global_batch_size": 10, "memory": "16MiB"} | change))
    with pytest.raises(StateError, match=named):
        other.load_state_dict(state)


def test_a_state_of_another_dataset_is_refused(small, train):
    state = hr.Loader(small, global_batch_size=10).state_dict()
    with pytest.raises(StateError, match="dataset"):
        hr.Loader(train, global_batch_size=10).load_state_dict(state)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ({"format": 99}, "format 99"),
        ({"step": -1}, "step -1"),
        ({"step": 10}, r"step in 0\.\.9"),
        ({"epoch": "one"}, "epoch 'one'"),
        ({"step": None}, "step None"),
    ],
)
def test_a_damaged_state_is_refused(small, damage, named):
    loader = hr.Loader(small, global_batch_size=10)
    with pytest.raises(StateError, match=named):
        loader.load_state_dict(loader.state_dict() | damage)


def test_something_that_is_no_state_is_refused(small):
    with pytest.raises(StateError, match="not a state"):
        hr.Loader(small, global_batch_size=10).load_state_dict({"model": 1})
