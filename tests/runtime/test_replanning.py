"""A run that learns what its storage is may change its plan between two epochs, and its samples never."""

from __future__ import annotations

import pytest
from runs import each_once, run

import headrace as hr
from headrace.plan import decide, revise
from headrace.runtime import plans
from headrace.runtime.metrics import EpochRecord
from headrace.runtime.plans import Plans
from headrace.runtime.probing import Known
from headrace.runtime.setup import Arguments, Setup

N = 203
WRONG = hr.Storage(iops=20, bandwidth=1e9, name="a very slow disk", source="assumed")
TRUE = {"operations": 100_000, "bytes": 2_000_000_000, "busy_seconds": 1.0, "read_seconds": 8.0}
HOW = {"global_batch_size": 12, "epochs": 4, "memory": "6MiB", "seed": 3}


@pytest.fixture
def mistaken(monkeypatch):
    """A machine whose storage is taken for a very slow one, and an engine that counts as a fast one would."""
    monkeypatch.setattr("headrace.runtime.setup.storage_under", lambda layout, probing: Known(WRONG))
    true = plans.observe
    monkeypatch.setattr(plans, "observe", lambda counters, waited, seconds: true(TRUE, waited=1.0, seconds=2.0))
    monkeypatch.setattr(revise, "LEAST_SECONDS", 0.0)


def record(epoch=0, **changes):
    """An epoch that was delivered whole."""
    made = EpochRecord(epoch, 0, exposed=1.0, loop=0.1, finished=True, counters=TRUE)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_wrong_assumption_is_revised_and_no_sample_moves(train, mistaken):
    """Ids of all epochs equal those of the run that was not revised; the report names the change."""
    with hr.Loader(train, replan=False, **HOW) as fixed:
        expected = run(fixed, 4)
        assert fixed.report().to_dict()["revisions"] == []
    with hr.Loader(train, **HOW) as loader:
        before = loader.plan
        delivered = run(loader, 4)
        after, report = loader.plan, loader.report()
    assert delivered == expected
    each_once(delivered[: len(delivered) // 4], N)
    assert (before.chosen.label, before.hash) != (after.chosen.label, after.hash)
    (revision,) = report.to_dict()["revisions"]
    assert revision["epoch"] == 1
    assert (revision["old"], revision["new"]) == (before.chosen.label, after.chosen.label)
    assert (revision["assumed"]["iops"], revision["observed"]["iops"]) == (20, 100_000)
    line = f"plan revised before epoch 1: {before.chosen.label} -> {after.chosen.label}; 100,000 reads of 2,000 MB"
    assert line in str(report)
    assert line in loader.explain()


def test_a_state_of_a_revised_run_resumes_in_one_that_was_not(train, mistaken):
    """The plan is no part of where a run stands."""
    with hr.Loader(train, **HOW) as loader:
        first = run(loader, 2)
        state = loader.state_dict()
        rest = run(loader, 2)
        assert loader.report().to_dict()["revisions"]
    with hr.Loader(train, replan=False, **HOW) as again:
        again.load_state_dict(state)
        assert run(again, 2) == rest
    assert first != rest


@pytest.mark.parametrize("given", ["storage", "plan", "replan"])
def test_what_the_user_gave_is_not_revised(train, mistaken, given):
    """A storage, a plan, or the word that there shall be none."""
    plan = Setup(Arguments(train, **HOW)).plan.to_dict()
    value = {"storage": WRONG, "plan": plan, "replan": False}[given]
    with hr.Loader(train, **HOW, **{given: value}) as loader:
        first = loader.plan
        run(loader, 4)
        assert loader.plan is first and loader.report().to_dict()["revisions"] == []


def test_a_switch_that_was_set_stays_set(train, mistaken):
    """The rest may change around it."""
    with hr.Loader(train, **HOW, read="sweep", residency="none") as loader:
        run(loader, 4)
        assert (loader.plan.switches.read, loader.plan.switches.residency) == ("sweep", "none")


@pytest.mark.parametrize("changes", [{"finished": False}, {"first_step": 3}, {"counters": {}}, {"exposed": 0.001}])
def test_a_part_of_an_epoch_or_one_that_did_not_wait_teaches_nothing(train, changes):
    """A plan is changed for what was seen over a whole epoch of waiting."""
    setup = Setup(Arguments(train, storage=WRONG, **HOW))
    held = Plans(decide(setup.run), forced={}, revisable=True)
    assert not held.after(record(**changes), next_epoch=1)
    assert held.revisions == []


def test_an_epoch_that_was_left_early_is_no_reason(train, mistaken):
    """The loop may have had its own."""
    with hr.Loader(train, **HOW) as loader:
        for batch in loader:
            if batch.step == 3:
                break
        run(loader, 1)
        assert loader.report().to_dict()["revisions"] == []
