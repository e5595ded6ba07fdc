"""A dataset that reads its samples itself gets the same order, resume and errors as one of files."""

from __future__ import annotations

import json
import os
import threading
from collections import namedtuple

import numpy as np
import pytest
from runs import each_once, no_python_threads

import headrace as hr
from headrace.errors import (
    BudgetError,
    DataError,
    DeadlineError,
    FieldError,
    InputError,
    TransformError,
    UnsupportedError,
    WorkerError,
)
from headrace.runtime.work import RemoteTraceback

N = 53
Pair = namedtuple("Pair", "image label")


class Dicts:
    """Samples as dicts of an array and a number."""

    def __init__(self, bad=(), n=N):
        self.bad = set(bad)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i in self.bad:
            raise KeyError(f"no sample {i} in the archive")
        return {"x": np.full((2, 3), i, np.float32), "y": i}


class Many(Dicts):
    """The same, by whole batches."""

    def __getitems__(self, ids):
        return [self[i] for i in ids]


class Killer(Dicts):
    """A dataset whose process dies at a sample."""

    def __getitem__(self, i):
        if i == 20:
            os._exit(3)
        return super().__getitem__(i)


class Unsendable(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class Odd(Dicts):
    def __getitem__(self, i):
        if i == 7:
            raise Unsendable("this", "that")
        return super().__getitem__(i)


def gone(*_):
    raise AttributeError("no such class here")


class Unloadable(Dicts):
    def __reduce__(self):
        return gone, ()


KINDS = [(0, "threads"), (3, "threads"), (2, "processes")]


def loader(dataset, **options):
    return hr.Loader(dataset, **({"global_batch_size": 8, "epochs": 3, "workers": 2, "timeout": 30} | options))


def ids_of(feed):
    out = []
    for batch in feed:
        assert (batch["y"] == batch.ids).all() and (batch["x"] == batch.ids[:, None, None]).all()
        out.append(batch.ids.tolist())
    return out


@pytest.mark.parametrize(("workers", "kind"), KINDS)
@pytest.mark.parametrize("dataset", [Dicts(), Many()], ids=["one by one", "by batches"])
def test_every_sample_comes_once_an_epoch_and_in_the_planned_order(dataset, workers, kind):
    with loader(dataset, workers=workers, workers_kind=kind, epochs=2) as feed:
        for epoch in range(2):
            steps = ids_of(feed)
            each_once(steps, N)
            assert np.concatenate(steps).tolist() == feed.order.ids(epoch, 0, N).tolist()
    assert no_python_threads()


def test_the_loop_itself_fetches_unless_workers_are_asked_for():
    """Threads call one object at the same time: what keeps a file open would give wrong data without an error."""

    class Who(Dicts):
        def __getitem__(self, i):
            return {"thread": threading.get_ident()}

    def callers(**options):
        with hr.Loader(Who(), global_batch_size=8, epochs=1, timeout=30, **options) as feed:
            return {int(i) for batch in feed for i in batch["thread"]}

    assert callers() == callers(workers=0) == {threading.get_ident()}
    assert threading.get_ident() not in callers(workers=2)


def test_the_order_is_that_of_a_dataset_of_files_with_the_same_seed(small):
    with loader(small, epochs=1, memory="4MiB", seed=5) as a, loader(Dicts(n=90), epochs=1, seed=5) as b:
        assert [x.ids.tolist() for x in a] == ids_of(b)


def test_a_dataset_that_a_process_cannot_load_is_refused_with_the_way_out():
    with (
        loader(Unloadable(), workers_kind="processes") as feed,
        pytest.raises(InputError, match="cannot be loaded there"),
    ):
        next(iter(feed))


@pytest.mark.parametrize(("workers", "kind"), KINDS[:2])
def test_a_resume_at_any_step_delivers_exactly_the_rest(workers, kind):
    with loader(Dicts(), workers=workers, workers_kind=kind) as feed:
        states, steps = [feed.state_dict()], []
        for _ in range(3):
            for batch in feed:
                steps.append(batch.ids.tolist())
                states.append(json.loads(json.dumps(feed.state_dict())))
    for k in range(len(steps)):
        with loader(Dicts(), workers=workers, workers_kind=kind) as feed:
            feed.load_state_dict(states[k])
            assert [s for _ in range(feed.epoch, 3) for s in ids_of(feed)] == steps[k:]


def test_tuples_give_numbered_fields_and_single_values_the_field_0():
    class Tuples(Dicts):
        def __getitem__(self, i):
            return np.full(3, i), str(i)

    class Values(Dicts):
        def __getitem__(self, i):
            return float(i)

    with loader(Tuples()) as feed:
        batch = next(iter(feed))
        assert list(batch) == ["0", "1"]
        assert batch["0"].shape == (8, 3) and batch["1"] == [str(i) for i in batch.ids]
    with loader(Values()) as feed:
        batch = next(iter(feed))
        assert list(batch) == ["0"] and (batch["0"] == batch.ids).all()


def test_arrays_of_different_shapes_become_ragged_and_what_is_no_array_a_list():
    class Various(Dicts):
        def __getitem__(self, i):
            return {"r": np.full((i % 3 + 1, 2), i), "d": {"deep": i}, "n": None}

    with loader(Various()) as feed:
        batch = next(iter(feed))
    assert isinstance(batch["r"], hr.Ragged)
    assert all((value == i).all() for value, i in zip(batch["r"], batch.ids, strict=True))
    assert batch["d"] == [{"deep": i} for i in batch.ids] and batch["n"] == [None] * 8


def test_samples_with_different_keys_are_refused_by_name():
    class Mixed(Dicts):
        def __getitem__(self, i):
            return {"x": i} if i % 2 else {"y": i}

    with loader(Mixed()) as feed, pytest.raises(TransformError, match="collate failed") as caught:
        next(iter(feed))
    assert isinstance(caught.value.__cause__, FieldError)


def test_collate_joins_the_samples_as_the_user_wants():
    with loader(Dicts(), collate=lambda samples: {"total": sum(s["y"] for s in samples)}) as feed:
        for batch in feed:
            assert batch["total"] == batch.ids.sum()
    with loader(Dicts(), collate=lambda samples: [s["y"] for s in samples]) as feed:
        assert sorted(y for batch in feed for y in batch) == list(range(N))


def test_a_collate_without_a_return_is_an_error_and_not_an_empty_epoch():
    with (
        loader(Dicts(), collate=lambda samples: None) as feed,
        pytest.raises(TransformError, match=r"collate failed at epoch 0, step 0 .*returned None"),
    ):
        list(feed)


def test_a_transform_follows_the_collate():
    with loader(Dicts(), transform={"y": lambda y: -y}) as feed:
        for batch in feed:
            assert (batch["y"] == -batch.ids).all()


@pytest.mark.parametrize(("workers", "kind"), KINDS)
@pytest.mark.parametrize("dataset", [Dicts(bad=[17]), Many(bad=[17])], ids=["one by one", "by batches"])
def test_an_error_of_the_dataset_comes_with_the_users_own_traceback(dataset, workers, kind):
    with loader(dataset, workers=workers, workers_kind=kind) as feed, pytest.raises(DataError) as caught:
        ids_of(feed)
    assert "17" in str(caught.value) and "epoch 0" in str(caught.value)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError) and "no sample 17 in the archive" in str(cause)
    if kind == "processes":
        assert isinstance(cause.__cause__, RemoteTraceback)
        assert "__getitem__" in str(cause.__cause__) and "test_map_datasets.py" in str(cause.__cause__)


def test_an_error_is_raised_at_the_step_it_belongs_to_and_not_before():
    want = [b.ids.tolist() for b in loader(Dicts(), epochs=1)]
    at = next(k for k, step in enumerate(want) if 17 in step)
    with loader(Dicts(bad=[17]), workers=3) as feed:
        it = iter(feed)
        assert [next(it).ids.tolist() for _ in range(at)] == want[:at]
        with pytest.raises(DataError):
            next(it)
        assert feed.state_dict()["step"] == at


@pytest.mark.parametrize(("workers", "kind"), KINDS)
@pytest.mark.parametrize("make", [Dicts, Many], ids=["one by one", "by batches"])
def test_bad_samples_are_skipped_one_by_one_and_listed(make, workers, kind):
    with loader(make(bad=[3, 17]), workers=workers, workers_kind=kind, on_error="skip", epochs=2) as feed:
        for _ in range(2):
            assert sorted(sum(ids_of(feed), start=[])) == sorted(set(range(N)) - {3, 17})  # noqa: RUF017
        skipped = feed.report().to_dict()["skipped"]
    assert sorted(s["id"] for s in skipped) == [3, 17]
    assert all("no sample" in s["reason"] for s in skipped)


def test_too_many_bad_samples_end_the_run():
    with (
        loader(Dicts(bad=range(10)), on_error="skip", max_failures=4) as feed,
        pytest.raises(BudgetError, match="max_failures allows 4"),
    ):
        ids_of(feed)


def test_a_worker_that_dies_is_noticed_at_once():
    with loader(Killer(), workers_kind="processes") as feed, pytest.raises(WorkerError, match="exited with code 3"):
        ids_of(feed)


def test_an_exception_that_cannot_leave_its_process_is_told_as_text():
    with loader(Odd(), workers_kind="processes") as feed, pytest.raises(DataError, match="this and that") as caught:
        ids_of(feed)
    assert "Unsendable" in str(caught.value.__cause__)


def test_a_dataset_that_cannot_be_sent_to_a_process_is_refused_before_the_first_step():
    class Local(Dicts):
        pass

    with loader(Local(), workers_kind="processes") as feed, pytest.raises(InputError, match="workers_kind='threads'"):
        iter(feed)


def test_a_dataset_that_hangs_runs_into_the_deadline_which_says_where(monkeypatch):
    monkeypatch.setattr("headrace.runtime.pipeline.CLOSE_SECONDS", 0.1)
    block = threading.Event()

    class Hangs(Dicts):
        def __getitem__(self, i):
            if i == 20:
                block.wait(60)
            return super().__getitem__(i)

    feed = loader(Hangs(), shuffle=False, timeout=0.4)
    with pytest.warns(ResourceWarning, match="left behind"), pytest.raises(DeadlineError, match="epoch 0, step 2"):
        ids_of(feed)
    block.set()
    feed.close()


def test_no_more_steps_are_made_ahead_than_allowed():
    made = []

    class Counting(Dicts):
        def __getitem__(self, i):
            made.append(i)
            return super().__getitem__(i)

    with loader(Counting(), workers=1, global_batch_size=1) as feed:
        it = iter(feed)
        next(it)
        ahead = feed._setup.workers.ahead
        deadline = threading.Event()
        while len(made) < ahead + 1 and not deadline.wait(0.01):
            pass
        deadline.wait(0.1)
        assert len(made) == ahead + 1


@pytest.mark.parametrize(
    "option",
    [
        {"residency": "static"}, {"plan": "nofile.json"}, {"memory": "8MiB"}, {"storage": hr.Storage(100, 1e8)},
        {"step_seconds": 1.0}, {"io": "threads"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("dataset", [Dicts(), hr.open(Dicts()), [1, 2, 3]], ids=["object", "opened", "list"])
def test_what_only_plans_have_is_refused_by_the_constructor(dataset, option):
    """Who gives memory= believes that it bounds something: nothing is accepted and ignored."""
    with pytest.raises(UnsupportedError, match=f"{next(iter(option))}=: a map dataset reads its samples itself"):
        loader(dataset, **option)


def test_explain_and_report_say_what_is_known():
    with loader(Dicts()) as feed:
        assert "reads its samples itself" in feed.explain() and feed.plan is None
        ids_of(feed)
        report = feed.report().to_dict()
    assert report["plan"] is None and report["epochs"][0]["samples"] == N


def test_an_iterable_dataset_is_refused_with_the_reason():
    with pytest.raises(InputError, match="no order that could be planned"):
        len(loader(iter(range(5))))


def test_samples_lists_and_subsets_work_as_map_datasets():
    data = [{"y": i} for i in range(20)]
    with hr.Loader(data, global_batch_size=6, epochs=1) as feed:
        assert sorted(y for b in feed for y in b["y"].tolist()) == list(range(20))
    part = hr.open(data).subset(slice(5, 9))
    with hr.Loader(part, global_batch_size=6, epochs=1) as feed:
        assert sorted(y for b in feed for y in b["y"].tolist()) == [5, 6, 7, 8]
