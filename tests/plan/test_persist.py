"""A plan is kept as a few hundred bytes and comes back as the same plan, or says why it cannot."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given

import headrace as hr
from headrace.errors import InputError, PlanError, StateError, UnsupportedError
from headrace.plan import decide, expand, plan_from_dict
from headrace.values.cost import Cost, Storage
from plan.worlds import runs


@given(run=runs())
def test_a_plan_that_was_saved_reads_the_same_bytes(run):
    """Through JSON and back, on a storage that costs otherwise: the same hash, the same spans."""
    try:
        plan = decide(run)
    except PlanError:
        assume(False)
    elsewhere = replace(run, cost=Cost(Storage(7, 7e6)))
    again = plan_from_dict(json.loads(json.dumps(plan.to_dict())), elsewhere)
    assert again.hash == plan.hash
    for one, other in zip(expand(plan, stop=3), expand(again, stop=3), strict=True):
        assert all(np.array_equal(getattr(one, k), getattr(other, k)) for k in ("reads", "pieces", "copies", "steps"))


@given(run=runs())
def test_a_plan_of_another_run_is_refused_naming_what_differs(run):
    """Memory decides where bytes land: a plan for other memory is another plan."""
    try:
        saved = decide(run).to_dict()
    except PlanError:
        assume(False)
    with pytest.raises(StateError, match=f"memory: the plan has {run.memory}, this run {run.memory + 1}"):
        plan_from_dict(saved, replace(run, memory=run.memory + 1))


def test_a_plan_that_was_edited_is_refused(train):
    """The hash names every switch."""
    saved = hr.Loader(train, global_batch_size=8, memory="8MiB").plan.to_dict()
    edited = {**saved, "switches": {**saved["switches"], "gap": saved["switches"]["gap"] + 1}}
    with pytest.raises(StateError, match="was edited"):
        assert hr.Loader(train, global_batch_size=8, memory="8MiB", plan=edited).plan
    fewer = {**saved, "switches": {k: v for k, v in saved["switches"].items() if k != "gap"}}
    with pytest.raises(StateError, match=r"other switches than this version \(gap\)"):
        assert hr.Loader(train, global_batch_size=8, memory="8MiB", plan=fewer).plan


def test_a_loader_carries_out_a_plan_from_a_file(train, tmp_path):
    """The file that was written is taken; what is no plan, and switches beside a plan, are refused."""
    path = tmp_path / "plan.json"
    made = hr.Loader(train, global_batch_size=8, epochs=1, memory="8MiB", read="window", residency="none")
    path.write_text(json.dumps(made.plan.to_dict()))
    with hr.Loader(train, global_batch_size=8, epochs=1, memory="8MiB", plan=path) as again:
        assert again.plan.hash == made.plan.hash
        assert sum(len(batch) for batch in again) == len(again.dataset)
    for what, error, words in (
        (tmp_path / "missing", InputError, "cannot be read: No such file"),
        ({}, StateError, "expected an object with 'run' and 'switches'"),
    ):
        with pytest.raises(error, match=words):
            assert hr.Loader(train, global_batch_size=8, memory="8MiB", plan=what).plan
    for text, words in (("{", "is not JSON"), ("[1]", "holds a list")):
        path.write_text(text)
        with pytest.raises(StateError, match=words):
            assert hr.Loader(train, global_batch_size=8, memory="8MiB", plan=path).plan
    with pytest.raises(InputError, match="gap=, plan=: a saved plan has all its switches"):
        assert hr.Loader(train, global_batch_size=8, memory="8MiB", plan=path, gap=0).plan
    with pytest.raises(UnsupportedError, match="plan=: a map dataset reads its samples itself"):
        assert hr.Loader([1, 2, 3], global_batch_size=1, plan=path).plan


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """100 records of eight numbers, as one array."""
    path = tmp_path_factory.mktemp("data") / "x.npy"
    np.save(path, np.arange(800, dtype="<i4").reshape(100, 8))
    return path
