"""What cannot be read is named, and never delivered: not now, and not out of memory later."""

from __future__ import annotations

import errno
import json
import os
import warnings
from itertools import chain

import h5py
import numpy as np
import pytest
from runs import DISK, check, no_python_threads, run

import headrace as hr
from headrace.errors import (
    BudgetError,
    ChangedFileError,
    ClosedError,
    DeadlineError,
    InputError,
    PlanError,
    ReadError,
    SkippedSampleWarning,
    TruncatedFileError,
)
from headrace.runtime.failures import read_error
from headrace.runtime.loader import Loader
from headrace.runtime.setup import Arguments
from headrace.runtime.storage import Reading

SAMPLE = 4000
N = 90
PLANS = [("direct", "none"), ("direct", "static"), ("sweep", "none"), ("window", "next-use"), ("sweep", "static")]


def faulty(path, fault, *, read="direct", residency="none", **options):
    """A loader whose engine fails where it is told to."""
    given = {
        "global_batch_size": 10,
        "epochs": 3,
        "memory": "4MiB",
        "storage": DISK,
        "switches": {"read": read, "residency": residency},
        "reading": Reading(fault=fault),
        "timeout": 20.0,
    }
    return Loader.of(Arguments(path, **(given | options)))


def extent(path, field, sample):
    """Where a sample lies in the file: (offset, size)."""
    part = hr.open(path).fields[field].parts[0].segments
    _, offset, nbytes = part.locate(np.array([sample]))
    return int(offset[0]), int(nbytes[0])


def disk_error_at(path, *samples):
    """A fault: EIO in the middle of these samples of field x."""
    return [{"errno": errno.EIO, "file": 0, "offset": extent(path, "x", s)[0] + 100, "nbytes": 10} for s in samples]


@pytest.mark.parametrize(("read", "residency"), PLANS)
def test_a_failing_read_is_raised_at_the_step_of_its_sample_whatever_the_plan(fresh, read, residency):
    want = run(hr.Loader(fresh, global_batch_size=10, epochs=3, memory="4MiB"), 3)
    at = next(k for k, step in enumerate(want) if 37 in step)
    with faulty(fresh, disk_error_at(fresh, 37), read=read, residency=residency) as loader:
        it = iter(loader)
        assert [check(next(it)) for _ in range(at)] == want[:at]
        with pytest.raises(ReadError, match="EIO") as caught:
            next(it)
    offset, _ = extent(fresh, "x", 37)
    assert (caught.value.path, caught.value.offset, caught.value.sample) == (str(fresh), offset, 37)
    assert "sample 37 of field 'x'" in str(caught.value)


def test_after_a_failure_next_never_looks_like_the_end(fresh):
    with faulty(fresh, disk_error_at(fresh, *range(90))) as loader:
        it = iter(loader)
        with pytest.raises(ReadError):
            next(it)
        with pytest.raises(ClosedError, match="it failed with ReadError"):
            next(it)
        assert no_python_threads()


def test_after_a_failure_the_next_pass_starts_at_the_step_that_failed(fresh):
    want = run(hr.Loader(fresh, global_batch_size=10, epochs=3, memory="4MiB"), 3)
    with faulty(fresh, disk_error_at(fresh, want[4][3])) as loader:
        assert pass_until_error(loader) == want[:4]
        assert loader.state_dict()["step"] == 4
        assert pass_until_error(loader) == []
        assert loader.epoch == 0


def pass_until_error(loader):
    got = []
    with pytest.raises(ReadError):  # noqa: PT012
        for batch in loader:
            got.append(check(batch))
    return got


@pytest.mark.parametrize("io", ["threads", "uring"])
@pytest.mark.parametrize(("read", "residency"), PLANS)
def test_skipped_samples_are_never_delivered_and_all_others_are(fresh, read, residency, io):
    bad = {3, 37, 38, 89}
    reading = Reading(fault=disk_error_at(fresh, *bad), io=io)
    with faulty(fresh, None, read=read, residency=residency, on_error="skip", reading=reading) as loader:
        for _ in range(3):
            steps = run(loader, 1)
            assert sorted(chain(*steps)) == sorted(set(range(90)) - bad)
        skipped = loader.report().to_dict()["skipped"]
    assert {s["id"] for s in skipped} == bad
    assert all(s["path"] == str(fresh) and s["offset"] > 0 and "EIO" in s["reason"] for s in skipped)


def test_the_weight_of_a_batch_is_the_share_of_its_rows_that_came(fresh):
    with faulty(fresh, disk_error_at(fresh, 3, 4), on_error="skip", shuffle=False) as loader:
        weights = [batch.weight for batch in loader]
    assert weights == [0.8, *[1.0] * 8]


def test_a_step_of_which_nothing_is_left_is_not_delivered(fresh):
    with faulty(fresh, disk_error_at(fresh, *range(20, 30)), on_error="skip", shuffle=False) as loader:
        assert [batch.step for batch in loader] == [0, 1, 3, 4, 5, 6, 7, 8]
        assert [batch.step for batch in loader] == [0, 1, 3, 4, 5, 6, 7, 8]
        epochs = loader.report().to_dict()["epochs"]
    assert [e["dropped_batches"] for e in epochs] == [1, 1]


def test_warn_warns_once_per_sample(fresh):
    with (
        faulty(fresh, disk_error_at(fresh, 5, 50), on_error="warn") as loader,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        run(loader, 3)
    texts = [str(w.message) for w in caught if w.category is SkippedSampleWarning]
    assert len(texts) == 2
    assert any("sample 5 is left out" in text for text in texts)


@pytest.mark.parametrize(("budget", "allowed"), [(3, 3), (0.034, 3), (0, 0), (0.0, 0)])
def test_more_failures_than_the_budget_allows_stop_the_run(fresh, budget, allowed):
    options = {"on_error": "skip", "max_failures": budget}
    few, many = range(10, 10 + allowed), range(10, 11 + allowed)
    with faulty(fresh, disk_error_at(fresh, *few), **options) as loader:
        assert len(list(chain(*run(loader, 3)))) == 3 * (90 - allowed)
    with faulty(fresh, disk_error_at(fresh, *many), **options) as loader:
        with pytest.raises(BudgetError, match=f"max_failures allows {allowed}") as caught:
            run(loader, 3)
        assert len(loader.report().to_dict()["skipped"]) == allowed + 1
    assert isinstance(caught.value.__cause__, ReadError)


@pytest.fixture
def cut(fresh):
    """A file with its fields y and then x, cut behind the loader's back in the middle of sample 60 of x."""
    with h5py.File(fresh, "w") as file:
        file["y"] = np.arange(N)
        file["x"] = np.repeat(np.arange(N, dtype=">f4"), 1000).reshape(N, 1000)
    dataset = hr.open(fresh)
    size = extent(fresh, "x", 60)[0] + 1000
    os.truncate(fresh, size)
    return dataset, size


def unwatched(dataset, **options):
    """A loader that does not look at its files before an epoch, so that only the read itself can find out."""
    loader = hr.Loader(dataset, **({"global_batch_size": 10, "epochs": 2, "memory": "4MiB", "storage": DISK} | options))
    loader._setup.check = lambda: None
    return loader


@pytest.mark.parametrize(("read", "residency"), PLANS)
def test_a_file_that_was_cut_is_named_with_its_sample(cut, fresh, read, residency):
    dataset, size = cut
    with (
        unwatched(dataset, read=read, residency=residency, shuffle=False) as loader,
        pytest.raises(TruncatedFileError, match="copy it again") as caught,
    ):
        run(loader, 1)
    assert (caught.value.path, caught.value.offset, caught.value.sample) == (str(fresh), size - 1000, 60)
    assert f"{fresh} ends at byte {size:,} but sample 60" in str(caught.value)


@pytest.mark.parametrize(
    ("now", "end"),
    [(0, "ends at byte 0 but"), (None, "and is now gone, but"), (1 << 20, "when it was read but")],
)
def test_the_end_of_a_cut_file_is_the_one_that_it_has(cut, fresh, now, end):
    """A read knows that it got less than it asked for, but not where the file ends; nobody is told to skip a file."""
    layout = cut[0].layout
    offset = cut[1] - 1000
    if now is None:
        fresh.unlink()
    else:
        os.truncate(fresh, now)
    error = read_error((60, 1, str(fresh), offset, 4000, 0, 0), layout=layout)
    assert isinstance(error, TruncatedFileError) and end in str(error)
    assert "leave it out of the files that are opened" in str(error) and "on_error" not in str(error)


def test_a_cut_file_ends_the_run_at_the_next_epoch_whatever_is_skipped(cut):
    """What the error says to do is all that helps: the file is another one than was opened."""
    loader = hr.Loader(cut[0], global_batch_size=10, epochs=2, memory="4MiB", storage=DISK, on_error="skip")
    with loader, pytest.raises(ChangedFileError, match="restore the file"):
        run(loader, 1)
    with pytest.raises(TruncatedFileError, match="copy it again, or leave it out"):
        hr.open(cut[0].layout.files[0].path)


def test_samples_beyond_a_cut_can_be_skipped(cut):
    with unwatched(cut[0], on_error="skip") as loader:
        for _ in range(2):
            assert sorted(chain(*run(loader, 1))) == list(range(60))


def test_a_file_that_changed_before_the_first_epoch_is_noticed(fresh):
    loader = hr.Loader(fresh, global_batch_size=10, epochs=2, memory="4MiB")
    _ = loader.plan
    with open(fresh, "ab") as file:
        file.write(b"more")
    with pytest.raises(ChangedFileError, match="changed after the dataset was opened") as caught:
        iter(loader)
    assert caught.value.path == str(fresh)


def test_a_file_that_changed_between_two_epochs_is_noticed(fresh):
    with hr.Loader(fresh, global_batch_size=10, epochs=2, memory="4MiB") as loader:
        run(loader, 1)
        os.utime(fresh)
        with pytest.raises(ChangedFileError):
            run(loader, 1)


def test_a_file_that_is_gone_is_named(fresh):
    with hr.Loader(fresh, global_batch_size=10, epochs=2, memory="4MiB") as loader:
        run(loader, 1)
        fresh.unlink()
        with pytest.raises(ChangedFileError, match="it is gone"):
            run(loader, 1)


def test_a_file_that_cannot_be_opened_names_its_errno(fresh):
    with faulty(fresh, {"open": errno.EACCES, "file": 0}) as loader, pytest.raises(ReadError, match="EACCES"):
        run(loader, 1)


def test_a_read_that_hangs_runs_into_the_deadline_which_says_what_it_waited_for(fresh, monkeypatch):
    monkeypatch.setattr("headrace.runtime.pipeline.CLOSE_SECONDS", 0.1)
    fault = {"hold": True, "file": 0, "offset": extent(fresh, "x", 40)[0], "nbytes": 10}
    loader = faulty(fresh, fault, shuffle=False, timeout=0.5)
    with pytest.warns(ResourceWarning, match="left behind"), pytest.raises(DeadlineError) as caught:
        run(loader, 1)
    assert "timeout=0.5" in str(caught.value)
    assert str(fresh) in str(caught.value) or "step 4" in str(caught.value)


def test_short_reads_deliver_the_same_bytes(fresh):
    with faulty(fresh, {"short": 777}) as loader:
        assert len(list(chain(*run(loader, 1)))) == N


def test_an_error_in_the_plans_own_fold_reaches_the_loop_with_its_cause(fresh):
    """The feeder is a thread: what it raises must not die with it."""

    def orders(epoch):
        if epoch == 1:
            raise OSError("the order's own database is gone")
        return np.arange(N)

    with (
        hr.Loader(fresh, global_batch_size=10, epochs=3, memory="4MiB", shuffle=orders) as loader,
        pytest.raises(PlanError, match="the order's own database is gone") as caught,
    ):
        run(loader, 3)
    assert isinstance(caught.value.__cause__, OSError)
    assert no_python_threads()


def test_an_order_that_breaks_its_word_in_a_later_epoch_is_refused_by_name(fresh):
    with (
        hr.Loader(fresh, global_batch_size=10, epochs=3, memory="4MiB", shuffle=lambda e: np.arange(N - e)) as loader,
        pytest.raises(InputError, match="every epoch must have the same number"),
    ):
        run(loader, 3)


def test_a_report_of_skipped_samples_survives_json(fresh):
    with faulty(fresh, disk_error_at(fresh, 7), on_error="skip") as loader:
        run(loader, 1)
        text = str(loader.report())
        again = json.loads(loader.report().to_json())
    assert "skipped: 1 samples" in text and "sample 7" in text
    assert again["skipped"][0]["id"] == 7
