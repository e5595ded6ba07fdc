"""A transform runs beside the loop, in order, and what it raises is told with the step and the samples."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from runs import DISK, each_once, no_python_threads

import headrace as hr
from headrace.errors import BudgetError, FieldError, InputError, TransformError
from headrace.runtime.work import RemoteTraceback


def loader(path, **options):
    return hr.Loader(path, **({"global_batch_size": 12, "epochs": 2, "memory": "9MiB", "storage": DISK} | options))


def doubled(values):
    return values * 2


def negative(value):
    return -value


def total(batch):
    return batch.epoch, batch.step, batch.ids.tolist(), float(batch["x"].sum())


def fails_at_37(batch):
    if 37 in batch.ids:
        raise ZeroDivisionError("37 is a bad number")
    return batch


def field_fails(values):
    raise ZeroDivisionError("all numbers are bad")


def forgets(batch):
    batch["x"].sum()


def field_forgets(values):
    values * 2


def dies(batch):
    import os

    os._exit(9)


KINDS = [(0, "threads"), (1, "threads"), (3, "threads"), (2, "processes")]


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_a_transform_per_field_changes_that_field_only(train, workers, kind):
    with loader(train, transform={"x": doubled}, workers=workers, workers_kind=kind) as feed:
        ids = []
        for batch in feed:
            assert (batch["x"] == 2 * batch.ids[:, None]).all() and (batch["y"] == batch.ids).all()
            ids.append(batch.ids)
    each_once(ids, 203)
    assert no_python_threads()


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_a_transform_of_the_batch_gives_whatever_it_likes_in_order(train, workers, kind):
    with loader(train, transform=total, workers=workers, workers_kind=kind, shuffle=False) as feed:
        for epoch in range(2):
            got = list(feed)
            assert [(e, s) for e, s, _, _ in got] == [(epoch, s) for s in range(17)]
            assert all(value == 8000.0 * sum(ids) for _, _, ids, value in got)


def test_results_come_in_order_though_workers_finish_out_of_order(train):
    gates = [threading.Event() for _ in range(17)]

    def later_first(batch):
        if batch.step % 2 == 0 and batch.step < 16:
            assert gates[batch.step + 1].wait(10)
        gates[batch.step].set()
        return batch

    with loader(train, transform=later_first, workers=2, epochs=1) as feed:
        assert [batch.step for batch in feed] == list(range(17))


def test_each_applies_a_function_to_every_sample_and_stacks(train):
    with loader(train, transform={"y": hr.each(negative)}) as feed:
        for batch in feed:
            assert isinstance(batch["y"], np.ndarray) and (batch["y"] == -batch.ids).all()


def test_each_gives_ragged_values_where_the_results_differ_in_shape(train):
    with loader(train, transform={"x": hr.each(lambda x: x[: int(x[0]) % 5 + 1])}) as feed:
        batch = next(iter(feed))
    assert isinstance(batch["x"], hr.Ragged)
    assert [len(v) for v in batch["x"]] == [i % 5 + 1 for i in batch.ids]


def test_each_can_be_sent_to_processes(train):
    with loader(train, transform={"y": hr.each(negative)}, workers_kind="processes", epochs=1) as feed:
        assert all((batch["y"] == -batch.ids).all() for batch in feed)


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_an_error_names_step_and_samples_and_has_the_users_own_as_its_cause(train, workers, kind):
    with (
        loader(train, transform=fails_at_37, workers=workers, workers_kind=kind) as feed,
        pytest.raises(TransformError, match="transform failed at epoch 0, step") as caught,
    ):
        list(feed)
    assert "37 is a bad number" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    if kind == "processes":
        assert isinstance(caught.value.__cause__.__cause__, RemoteTraceback)
        assert "fails_at_37" in str(caught.value.__cause__.__cause__)
    assert no_python_threads()


def test_an_error_in_a_fields_transform_names_the_field(train):
    with loader(train, transform={"x": field_fails}) as feed, pytest.raises(TransformError, match="field 'x'"):
        list(feed)


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_a_transform_without_a_return_is_an_error_and_not_an_empty_epoch(train, workers, kind):
    """A loop over nothing looks like a very fast epoch: the forgotten `return` is named at the first step."""
    for given in (forgets, {"x": field_forgets}):
        with (
            loader(train, transform=given, workers=workers, workers_kind=kind) as feed,
            pytest.raises(TransformError, match=r"epoch 0, step 0 .*returned None"),
        ):
            list(feed)


def test_under_skip_the_whole_batch_of_a_failing_transform_is_left_out_and_listed(train):
    with loader(train, transform=fails_at_37, on_error="skip", epochs=1) as feed:
        steps = list(feed)
        skipped = feed.report().to_dict()["skipped"]
    assert len(steps) == 16
    lost = {s["id"] for s in skipped}
    assert 37 in lost and len(lost) == 12 and not lost & {i for batch in steps for i in batch.ids.tolist()}
    assert all("37 is a bad number" in s["reason"] for s in skipped)


def test_a_failing_transform_spends_the_budget(train):
    with (
        loader(train, transform=fails_at_37, on_error="skip", max_failures=5) as feed,
        pytest.raises(BudgetError, match="12 samples could not be delivered and max_failures allows 5"),
    ):
        list(feed)


def test_a_transform_of_a_field_that_does_not_exist_is_refused_before_the_first_step(train):
    with loader(train, transform={"z": doubled}) as feed, pytest.raises(FieldError, match="'z'"):
        iter(feed)


def test_a_transform_that_cannot_be_sent_is_refused_before_the_first_step(train):
    with (
        loader(train, transform=lambda batch: batch, workers_kind="processes") as feed,
        pytest.raises(InputError, match="top of a module"),
    ):
        iter(feed)
    assert no_python_threads()


def test_a_worker_process_that_dies_is_named(train):
    with (
        loader(train, transform=dies, workers_kind="processes") as feed,
        pytest.raises(hr.errors.WorkerError, match="exited with code 9 during transform for epoch 0, step 0"),
    ):
        list(feed)


def test_a_resume_with_transforms_delivers_exactly_the_rest(train):
    with loader(train, transform=total) as feed:
        states, got = [feed.state_dict()], []
        for _ in range(2):
            for value in feed:
                got.append(value)
                states.append(feed.state_dict())
    for k in range(0, 34, 5):
        with loader(train, transform=total) as feed:
            feed.load_state_dict(states[k])
            assert [value for _ in range(feed.epoch, 2) for value in feed] == got[k:]


def test_batches_in_the_hands_of_workers_are_bounded(train):
    started = []

    def note(batch):
        started.append(batch.step)
        return batch

    with loader(train, transform=note, workers=2) as feed:
        it = iter(feed)
        next(it)
        ahead = feed._setup.workers.ahead
        wait = threading.Event()
        while len(started) < ahead + 1 and not wait.wait(0.01):
            pass
        wait.wait(0.1)
        assert len(started) == ahead + 1
