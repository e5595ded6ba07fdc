"""A loader delivers every sample exactly once an epoch, and its position is always clear."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from runs import DISK, check, each_once, no_python_threads, run

import headrace as hr
from headrace.errors import ClosedError, InputError, PlanError


def loader(path, **options):
    return hr.Loader(path, **{"global_batch_size": 12, "memory": "16MiB", "storage": DISK} | options)


def test_every_epoch_delivers_every_sample_exactly_once_with_its_own_bytes(train):
    with loader(train, epochs=3) as feed:
        epochs = [run(feed, 1) for _ in range(3)]
    for steps in epochs:
        each_once(steps, 203)
        assert [len(s) for s in steps] == [12] * 16 + [11]
    assert epochs[0] != epochs[1] != epochs[2]


def test_values_equal_what_the_dataset_reads_one_by_one(train):
    ds = hr.open(train, fields=["y", "x"])
    with loader(ds, epochs=1) as feed:
        for batch in feed:
            want = ds.read(batch.ids)
            assert list(batch) == ["y", "x"]
            for name in batch:
                assert batch[name].dtype == want[name].dtype
                assert np.array_equal(batch[name], want[name])


def test_the_same_seed_gives_the_same_steps_and_another_seed_others(small):
    a, b, c = (run(loader(small, epochs=2, seed=seed), 2) for seed in (7, 7, 8))
    assert a == b != c


def test_steps_do_not_depend_on_memory_or_plan(train):
    runs = [
        run(loader(train, epochs=2, memory=memory, read=read), 2)
        for memory, read in (("5MiB", "direct"), ("9MiB", "sweep"), ("64MiB", "direct"))
    ]
    assert runs[0] == runs[1] == runs[2]


def test_drop_last_leaves_out_the_smaller_step(train):
    with loader(train, epochs=2, drop_last=True) as feed:
        assert len(feed) == 16
        assert [len(s) for s in run(feed, 2)] == [12] * 32


def test_batch_size_is_the_step_on_one_rank(small):
    with hr.Loader(small, batch_size=20, epochs=1) as feed:
        assert [len(batch) for batch in feed] == [20, 20, 20, 20, 10]


def test_a_batch_knows_its_place_and_its_share_of_the_step(small):
    with loader(small, epochs=2) as feed:
        places = [(b.epoch, b.step, b.weight, len(b)) for _ in range(2) for b in feed]
    assert places == [(e, s, 1.0, 12 if s < 7 else 6) for e in range(2) for s in range(8)]


@pytest.mark.parametrize("shuffle", [False, "sequential", None])
def test_without_shuffle_samples_come_in_file_order(small, shuffle):
    with loader(small, epochs=1, shuffle=shuffle) as feed:
        assert np.array_equal(np.concatenate(run(feed, 1)), np.arange(90))


@pytest.mark.parametrize(
    ("shuffle", "options"),
    [("exact", {}), (True, {}), ("echo", {"carry": 9}), ("group", {"size": 10}), ("window", {"size": 30})],
)
def test_every_named_order_delivers_every_sample_once(small, shuffle, options):
    with loader(small, epochs=2, shuffle=shuffle, order_options=options) as feed:
        for _ in range(2):
            each_once(run(feed, 1), 90)


def test_an_array_a_function_and_a_sampler_are_orders(small):
    ids = np.arange(89, -1, -2)

    class Sampler:
        def __len__(self):
            return len(ids)

        def __iter__(self):
            return iter(ids.tolist())

    for order in (ids, lambda epoch: ids, Sampler()):
        with loader(small, epochs=1, shuffle=order) as feed:
            assert np.array_equal(np.concatenate(run(feed, 1)), ids)


def test_ids_that_repeat_are_delivered_as_often_as_the_order_says(small):
    ids = np.repeat(np.arange(30), 3)
    with loader(small, epochs=2, shuffle=ids) as feed:
        assert np.array_equal(np.concatenate(run(feed, 2)), np.tile(ids, 2))


def test_a_subset_and_a_split_are_loaded_as_datasets_of_their_own(small):
    ds = hr.open(small)
    left, right = ds.split([0.5, 0.5], seed=1)
    seen = []
    for part in (left, right):
        with hr.Loader(part, global_batch_size=7, epochs=1) as feed:
            seen += [y for batch in feed for y in batch["y"].tolist()]
    assert sorted(seen) == list(range(90))


def test_the_constructor_opens_nothing_and_the_first_pass_opens_all(tmp_path):
    feed = loader(tmp_path / "not there.h5", epochs=1)
    assert "not there" in repr(feed)
    with pytest.raises(InputError, match="not there"):
        iter(feed)


def test_explain_takes_no_memory_and_starts_no_thread(train):
    feed = loader(train, epochs=2)
    text = feed.explain()
    assert "memory" in text and no_python_threads()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 3}, "exactly one"),
        ({"global_batch_size": None}, "exactly one"),
        ({"global_batch_size": 0}, "whole number from 1"),
        ({"epochs": 0}, "whole number from 1"),
        ({"workers": -1}, "whole number from 0"),
        ({"workers_kind": "fibres"}, "threads"),
        ({"timeout": 0}, "deadline"),
        ({"io": "carrier pigeon"}, "uring"),
        ({"transform": 3}, "function of the batch"),
        ({"on_error": "ignore"}, "raise"),
        ({"max_failures": 3}, "means nothing with on_error='raise'"),
        ({"on_error": "skip", "max_failures": 1.5}, "0.0 to 1.0"),
        ({"shuffle": "a lot"}, "no such order"),
        ({"memory": "8G"}, "8GiB"),
        ({"batch_size": True, "global_batch_size": None}, "batch_size=True"),
        ({"global_batch_size": 4.0}, "global_batch_size=4.0: expected a whole number"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"step_seconds": "x"}, "step_seconds='x'"),
        ({"step_seconds": -1}, "step_seconds=-1"),
        ({"drop_last": "no"}, "drop_last='no': expected True or False"),
        ({"storage": "nvme"}, "storage='nvme': expected headrace.Storage"),
        ({"plan": 5}, "plan=5: expected what"),
        ({"on_error": "skip", "max_failures": float("nan")}, "max_failures=nan"),
        ({"on_error": "skip", "max_failures": "3"}, "max_failures='3'"),
        ({"on_error": "skip", "max_failures": True}, "max_failures=True"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_by_name(small, options, message):
    with pytest.raises(InputError, match=message):
        iter(loader(small, **options))


@pytest.mark.parametrize("dataset", ["files", [1, 2, 3]])
@pytest.mark.parametrize(
    ("name", "message"),
    [("sprocket", "sprocket="), ("suffle", "did you mean shuffle="), ("residence", "did you mean resid")],
)
def test_a_name_that_nothing_knows_is_refused_by_the_constructor_with_the_nearest_one(small, dataset, name, message):
    """A misspelt `shuffle=` must not train unshuffled, whatever the dataset is."""
    with pytest.raises(InputError, match=message):
        hr.Loader(small if dataset == "files" else dataset, global_batch_size=3, **{name: False})


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ({"gap": "big"}, "gap='big': expected a whole number from 0"),
        ({"resident": -1}, "resident=-1: expected a whole number from 0"),
        ({"lead": -3}, "lead=-3"),
        ({"round": 0}, "round=0: expected a whole number from 1"),
        ({"align": 2**62}, "align=4611686018427387904: expected a whole number from 1"),
        ({"align": 3}, "align=3: expected a power of two"),
        ({"max_read": 2**63}, "max_read=9223372036854775808"),
        ({"batches": True}, "batches=True"),
        ({"ramp": 5}, "ramp=5: expected True or False"),
        ({"ramp_gaps": 5}, "ramp_gaps=5: expected a tuple"),
        ({"read": ["sweep"]}, "expected one of direct"),
    ],
)
def test_a_value_that_a_switch_cannot_have_is_refused_by_the_constructor(small, switch, message):
    with pytest.raises(PlanError, match=message):
        loader(small, **switch)


def test_processes_that_have_nothing_to_do_are_told(small):
    with pytest.warns(UserWarning, match="workers_kind='processes': without effect") as caught:
        feed = loader(small, workers_kind="processes", epochs=1)
    assert caught[0].filename == __file__
    each_once(run(feed, 1), 90)


def test_numpys_integers_are_the_numbers_that_they_stand_for(small):
    sizes = {"global_batch_size": np.int64(9), "epochs": np.int32(2), "workers": np.uint8(1), "gap": np.int64(64)}
    with loader(small, **sizes) as feed:
        feed.set_epoch(np.int64(1))
        assert [batch.epoch for batch in feed] == [1] * 10
        json.dumps([feed.state_dict(), feed.plan.to_dict(), feed.report().to_dict()])
        for wrong in (True, 1.0, -1, "1"):
            with pytest.raises(InputError, match="set_epoch"):
                feed.set_epoch(wrong)


def test_collate_has_no_meaning_for_files_and_is_refused_by_the_constructor(small):
    with pytest.raises(InputError, match="collate= joins the samples of a map dataset"):
        loader(small, collate=list)


def test_too_little_memory_is_a_plan_error_before_the_first_step(train):
    with pytest.raises(PlanError, match="memory"):
        iter(loader(train, memory="1MiB"))


def test_a_batch_larger_than_the_dataset_with_drop_last_leaves_no_step(small):
    with pytest.raises(InputError, match="leaves no step"):
        len(loader(small, global_batch_size=91, drop_last=True))


def test_after_an_early_break_the_next_pass_is_the_next_epoch(train):
    whole = loader(train, epochs=3)
    want = [run(whole, 1) for _ in range(3)]
    with loader(train, epochs=3) as feed:
        for k, batch in enumerate(feed):
            assert check(batch) == want[0][k]
            if k == 4:
                break
        assert feed.epoch == 1
        assert run(feed, 1) == want[1]
        assert run(feed, 1) == want[2]


def test_a_pass_that_handed_out_nothing_uses_up_no_epoch(small):
    with loader(small, epochs=1) as feed:
        iter(feed)
        assert feed.epoch == 0
        each_once(run(feed, 1), 90)


def test_the_epoch_counts_by_itself(small):
    with loader(small, epochs=3) as feed:
        for epoch in range(3):
            assert feed.epoch == epoch
            for batch in feed:
                assert feed.epoch == batch.epoch == epoch


def test_when_all_epochs_are_delivered_another_pass_is_refused(small):
    with loader(small, epochs=2) as feed:
        run(feed, 2)
        with pytest.raises(ClosedError, match="all 2 epochs were delivered"):
            iter(feed)


def test_without_epochs_the_loader_goes_on_as_long_as_it_is_asked(small):
    with loader(small) as feed:
        for _ in range(7):
            each_once(run(feed, 1), 90)


def test_set_epoch_goes_to_any_epoch_and_the_running_pass_goes_on(small):
    want = [run(loader(small, epochs=4), 4)[8 * e : 8 * e + 8] for e in range(4)]
    with loader(small, epochs=4) as feed:
        feed.set_epoch(2)
        assert feed.epoch == 2
        got = []
        for batch in feed:
            feed.set_epoch(1)
            got.append(check(batch))
        assert got == want[2]
        assert run(feed, 1) == want[1]
        assert run(feed, 1) == want[2]
        with pytest.raises(InputError, match=r"0\.\.3"):
            feed.set_epoch(4)


def test_calling_set_epoch_with_the_next_epoch_anyway_keeps_the_prefetch(small):
    with loader(small, epochs=3) as feed:
        run(feed, 1)
        feed.set_epoch(1)
        run(feed, 1)
        firsts = [e["first_batch_seconds"] for e in feed.report().to_dict()["epochs"]]
    assert firsts[0] is not None and firsts[1] is None


def test_a_second_iterator_replaces_the_first_which_then_says_so(small):
    with loader(small, epochs=3) as feed:
        first = iter(feed)
        next(first)
        second = iter(feed)
        with pytest.raises(ClosedError, match="two at once need two loaders"):
            next(first)
        assert next(second).epoch == 1


def test_zip_of_a_loader_with_itself_is_an_error_and_not_a_wrong_answer(small):
    with loader(small, epochs=3) as feed, pytest.raises(ClosedError, match="two loaders"):
        list(zip(feed, feed, strict=False))


def test_two_loaders_over_one_dataset_do_not_disturb_each_other(small):
    ds = hr.open(small)
    with loader(ds, epochs=1) as a, loader(ds, epochs=1) as b:
        pairs = [(check(x), check(y)) for x, y in zip(a, b, strict=True)]
    assert all(x == y for x, y in pairs)


def test_next_after_the_end_stays_the_end(small):
    with loader(small, epochs=2) as feed:
        it = iter(feed)
        assert len(list(it)) == 8
        assert list(it) == []


def test_closing_twice_is_fine_and_using_it_then_says_closed(small):
    feed = loader(small, epochs=2)
    it = iter(feed)
    next(it)
    feed.close()
    feed.close()
    with pytest.raises(ClosedError, match="closed"):
        next(it)
    with pytest.raises(ClosedError, match="closed"):
        iter(feed)
    assert no_python_threads()


def test_batches_that_the_user_keeps_are_never_overwritten(train):
    with loader(train, epochs=4, memory="6MiB") as feed:
        kept = [batch for _ in range(4) for batch in feed]
    feed.close()
    for batch in kept:
        check(batch)


def test_values_are_views_and_their_memory_is_used_again_when_they_are_gone(train):
    with loader(train, epochs=3, read="direct", residency="none") as feed:
        for _ in range(3):
            for batch in feed:
                assert batch["x"].base is not None and batch["x"].flags.writeable
                del batch
    made = feed.report().to_dict()["measured"]["buffers_allocated"]
    fitting = feed.plan.geometry.batches_nbytes // feed.plan.geometry.batch_nbytes
    assert made <= fitting + 3 < 3 * len(feed)


def test_writing_into_a_batch_changes_no_later_batch(small):
    with loader(small, epochs=3) as feed:
        for _ in range(3):
            for batch in feed:
                check(batch)
                batch["x"][:] = -1
                batch["y"][:] = -1


def test_a_dataset_of_ragged_samples_comes_as_views_of_one_array(tmp_path):
    rng = np.random.default_rng(0)
    want = [rng.random((int(rng.integers(1, 9)), 3)) for _ in range(50)]
    for i, array in enumerate(want):
        np.save(tmp_path / f"{i:03}.npy", array)
    with hr.Loader(tmp_path, global_batch_size=8, epochs=2, memory="16MiB") as feed:
        seen = 0
        for _ in range(2):
            for batch in feed:
                (name,) = batch.keys()
                field = batch[name]
                assert isinstance(field, hr.Ragged) and len(field) == len(batch)
                for value, sample in zip(field, batch.ids.tolist(), strict=True):
                    assert np.array_equal(value, want[sample])
                    assert np.shares_memory(value, field.values)
                    seen += 1
    assert seen == 100


def test_a_compound_dtype_of_both_byte_orders_arrives_in_this_machines_own(tmp_path):
    dtype = np.dtype([("a", ">i4"), ("b", "<f8"), ("c", ">u2", (3,)), ("s", "S4")])
    want = np.zeros(40, dtype)
    want["a"], want["b"], want["c"], want["s"] = np.arange(40), np.arange(40) / 7, 5, b"abc"
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["r"] = want
    with hr.Loader(tmp_path / "r.h5", global_batch_size=8, epochs=1, memory="16MiB") as feed:
        for batch in feed:
            value = batch["r"]
            assert value.dtype == dtype.newbyteorder("=")
            assert (value == want[batch.ids].astype(value.dtype)).all()
