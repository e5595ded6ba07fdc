"""What many do at once, or twice: threads on one iterator, ids that share bytes, starts that fail."""

from __future__ import annotations

import gc
import os
import threading

import numpy as np
import pytest

import headrace as hr
from headrace.errors import ChangedFileError, ClosedError
from headrace.values.plan import RESIDENCIES


@pytest.fixture
def rows(tmp_path):
    """4,000 rows that know their number."""
    path = tmp_path / "rows.npy"
    np.save(path, np.repeat(np.arange(4000), 16).reshape(4000, 16))
    return path


@pytest.mark.parametrize("access", ["buffered", "direct", "mapped"])
@pytest.mark.parametrize("read", ["direct", "window", "sweep"])
@pytest.mark.parametrize("residency", RESIDENCIES)
def test_ids_may_stand_for_the_same_bytes(rows, read, residency, access):
    """A sample that is in a dataset twice is delivered twice, in every mode."""
    one = hr.open(rows).subset(slice(0, 300))
    both = one.subset([3, 3, 5, 7]).concat([one, one.subset(slice(100, 200))])
    stored = np.concatenate([[3, 3, 5, 7], np.arange(300), np.arange(100, 200)])
    options = {"read": read, "residency": residency, "access": access, "storage": hr.Storage(1500, 150e6)}
    with hr.Loader(both, global_batch_size=32, epochs=2, memory="4MiB", **options) as loader:
        for _ in range(2):
            seen = []
            for batch in loader:
                assert (batch["data"] == stored[batch.ids][:, None]).all()
                seen += batch.ids.tolist()
            assert sorted(seen) == list(range(len(stored)))


@pytest.mark.parametrize("transform", [None, lambda batch: batch])
def test_threads_that_share_an_iterator_share_its_batches(rows, transform):
    """Each batch goes to one of them, and the end to all."""
    with hr.Loader(rows, global_batch_size=8, epochs=1, memory="8MiB", transform=transform) as loader:
        batches = iter(loader)
        taken: list[list[int]] = [[] for _ in range(4)]
        ended = []

        def work(mine):
            for batch in batches:
                mine += batch.ids.tolist()
            ended.append(mine)

        threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(ended) == 4
    assert sorted(sample for mine in taken for sample in mine) == list(range(4000))


def test_a_start_that_failed_leaves_nothing_for_the_next_one(rows, monkeypatch):
    """An interrupt while threads start is an interrupt; the next loop begins anew."""
    loader = hr.Loader(rows, global_batch_size=8, epochs=1, memory="8MiB")
    assert loader.plan is not None
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    monkeypatch.undo()
    assert sum(len(batch) for batch in loader) == 4000


@pytest.mark.parametrize("access", ["buffered", "mapped"])
def test_a_file_that_is_replaced_before_it_is_first_read_is_named(tmp_path, access):
    """Files are opened when they are first needed: one that is another by then is not read."""
    for k in range(4):
        np.save(tmp_path / f"r{k}.npy", np.full((1000, 512), k, float))
    options = {"shuffle": False, "memory": "3MiB", "access": access, "storage": hr.Storage(1500, 150e6)}
    dataset = hr.open(str(tmp_path / "r*.npy"), per_file="rows")
    loader = hr.Loader(dataset, global_batch_size=32, epochs=1, read="direct", **options)

    def train():
        for batch in loader:
            if batch.step == 1:
                np.save(tmp_path / "t.npy", np.full((1000, 512), 99.0))
                os.replace(tmp_path / "t.npy", tmp_path / "r3.npy")
            assert not (batch["data"] == 99).any()

    with pytest.raises(ChangedFileError, match=r"r3\.npy is not the file"):
        train()


def test_a_file_that_changes_in_the_last_epoch_is_named_at_its_end(rows):
    """What was delivered may be of two versions: the loop must not end as if nothing had been."""
    loader = hr.Loader(rows, global_batch_size=400, epochs=1, memory="8MiB")

    def train():
        for batch in loader:
            if batch.step == 3:
                with rows.open("r+b") as file:
                    file.seek(1000)
                    file.write(b"another version")

    with pytest.raises(ChangedFileError, match="changed after the dataset was opened"):
        train()
    assert not loader.report().to_dict()["epochs"][0]["finished"]
    loader.close()


def test_an_end_that_is_a_failure_does_not_turn_into_an_end(rows):
    """Asked again, the iterator says that it failed."""
    with hr.Loader(rows, global_batch_size=4000, epochs=1, memory="8MiB") as loader:
        batches = iter(loader)
        next(batches)
        rows.touch()
        with pytest.raises(ChangedFileError):
            next(batches)
        with pytest.raises(ClosedError, match="it failed with ChangedFileError"):
            next(batches)


def test_a_loader_that_is_collected_in_its_own_thread_ends(rows):
    """The collector runs in any thread, also in the one that feeds the engine."""
    raised = []
    hook, threading.excepthook = threading.excepthook, raised.append
    thresholds = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        for _ in range(10):
            loader = hr.Loader(rows, global_batch_size=2, epochs=3, memory="64MiB", read="direct", batches=64)
            cycle: list[object] = [iter(loader)]
            cycle.append(cycle)
            del loader, cycle
        gc.collect()
    finally:
        gc.set_threshold(*thresholds)
        threading.excepthook = hook
    assert not raised
