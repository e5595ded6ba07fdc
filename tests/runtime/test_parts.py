"""Batches, views, pools and worker processes by themselves."""

from __future__ import annotations

import gc
import os
import pickle
import threading

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import ClosedError, DeadlineError, FieldError, WorkerError
from headrace.runtime.pool import Pool
from headrace.runtime.remote import Remote, pack
from headrace.runtime.view import delivered, values_of
from headrace.values.layout import Field


def batch(rows=4):
    fields = {"x": np.arange(rows * 3).reshape(rows, 3), "y": np.arange(rows)}
    return hr.Batch(fields, ids=np.arange(rows) * 10, weight=1.0, epoch=2, step=5)


def test_a_batch_is_a_mapping_of_its_fields_with_the_length_of_its_rows():
    b = batch()
    assert list(b) == ["x", "y"] == list(b.keys()) and len(b.keys()) == len(b.items()) == len(b.values()) == 2
    assert dict(b)["y"] is b["y"] and "x" in b and "z" not in b and b.get("z") is None
    assert len(b) == 4 and b and b == b and b != batch()
    assert "epoch 2, step 5, 4 rows" in repr(b)


def test_a_field_that_a_batch_does_not_have_is_named_beside_those_it_has():
    with pytest.raises(FieldError, match="no field 'z'; its fields are 'x', 'y'"):
        batch()["z"]
    with pytest.raises(KeyError):
        batch()["z"]


def test_rows_of_a_batch_are_its_samples_and_their_share():
    b = batch().rows(np.array([0, 3]))
    assert b.ids.tolist() == [0, 30] and b["x"].tolist() == [[0, 1, 2], [9, 10, 11]] and b.weight == 0.5


def test_a_batch_survives_pickling():
    b = pickle.loads(pickle.dumps(batch()))
    assert (b["x"] == batch()["x"]).all() and (b.epoch, b.step, b.weight) == (2, 5, 1.0)


shapes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=8)


@given(shapes)
def test_a_ragged_field_gives_every_sample_in_its_own_shape(sizes):
    arrays = [np.full(size, k) for k, size in enumerate(sizes)]
    flat = np.concatenate([a.reshape(-1) for a in arrays])
    ragged = hr.Ragged.of(flat, np.array(sizes, np.int64))
    assert len(ragged) == len(sizes)
    for k, (got, want) in enumerate(zip(ragged, arrays, strict=True)):
        assert got.shape == want.shape and (got == k).all()
    assert ragged[-1].shape == sizes[-1]
    assert [a.shape for a in ragged[1:]] == sizes[1:]
    some = ragged.take(np.arange(len(sizes))[::2])
    assert [a.shape for a in some] == sizes[::2] and all((a == 2 * k).all() for k, a in enumerate(some))


def test_an_index_beyond_a_ragged_field_is_an_index_error():
    with pytest.raises(IndexError):
        hr.Ragged.of(np.zeros(3), np.array([[3]]))[1]


leaves = st.sampled_from(
    ["<i2", ">i2", "<i8", ">i8", "<f4", ">f4", ">f8", "<c16", ">c8", "?", "u1", ">U3", "<U2", "S3", ">m8[s]"]
)
dtypes = leaves | st.lists(st.tuples(leaves, st.sampled_from([(), (2,), (2, 3)])), min_size=1, max_size=4)


@given(dtypes, st.integers(0, 6), st.randoms(use_true_random=False))
def test_stored_bytes_of_any_byte_order_become_the_same_values_in_this_machines(described, n, random):
    if isinstance(described, str):
        stored = np.dtype(described)
    else:
        stored = np.dtype([(f"f{k}", leaf, shape) for k, (leaf, shape) in enumerate(described)])
    values = np.zeros(n, stored)
    for name in stored.names or [None]:
        target = values if name is None else values[name]
        target[...] = np.array([random.randint(0, 1) for _ in range(target.size)]).reshape(target.shape)
    got = delivered(np.frombuffer(bytearray(values.tobytes()), np.uint8), stored)
    assert got.dtype == stored.newbyteorder("=")
    for name in stored.names or [...]:
        assert got[name].tolist() == values[name].tolist()


class Bytes:
    def __init__(self, data):
        self.data = np.frombuffer(bytearray(data), np.uint8)

    def view(self, offset, nbytes):
        return self.data[offset : offset + nbytes]


def test_the_values_of_a_field_lie_where_the_plan_says():
    want = np.arange(12, dtype=">f4").reshape(4, 3)
    field = Field("x", np.dtype(">f4"), (3,), ())
    got = values_of(field, buffer=Bytes(b"\0" * 64 + want.tobytes()), offset=64, ids=np.arange(4))
    assert got.dtype == np.float32 and (got == want).all()


def pool(source, work=lambda worker, item: item, **options):
    items = iter(source)
    made = Pool(source=lambda: next(items, None), work=work, describe=str, **({"workers": 3, "ahead": 4} | options))
    made.open()
    return made


def drain(made):
    out = []
    while (item := made.next(10)) is not None:
        out.append(item)
    assert made.next(10) is None
    assert made.join(5)
    return out


@given(st.integers(0, 40), st.integers(1, 5), st.integers(1, 7))
def test_a_pool_gives_every_result_once_and_in_order(n, workers, ahead):
    assert drain(pool(range(1, n + 1), workers=workers, ahead=ahead, work=lambda _, i: -i)) == [
        -i for i in range(1, n + 1)
    ]


def test_a_pool_tells_a_failure_in_its_place_and_goes_on():
    def work(_, item):
        if item == 3:
            raise ValueError("three")
        return item

    made = pool(range(1, 6), work)
    assert [made.next(5), made.next(5)] == [1, 2]
    with pytest.raises(ValueError, match="three"):
        made.next(5)
    assert [made.next(5), made.next(5), made.next(5)] == [4, 5, None]


def test_a_failure_of_the_source_comes_after_the_items_before_it():
    def source():
        yield 1
        yield 2
        raise OSError("gone")

    made = pool(source())
    assert [made.next(5), made.next(5)] == [1, 2]
    with pytest.raises(OSError, match="gone"):
        made.next(5)
    assert made.join(5)


def test_even_a_system_exit_in_a_worker_is_heard():
    def work(_, item):
        raise SystemExit("a library called exit()")

    with pytest.raises(SystemExit):
        pool([1], work).next(5)


def test_a_wait_that_takes_too_long_says_what_the_workers_do():
    block = threading.Event()
    made = pool(["the slow one"], lambda _, item: block.wait(20))
    with pytest.raises(DeadlineError, match="the slow one"):
        made.next(0.05)
    made.cancel()
    block.set()
    assert made.join(5)


def test_a_waiting_next_is_woken_when_the_pool_is_cancelled():
    block = threading.Event()
    made = pool([1], lambda _, item: block.wait(20))
    timer = threading.Timer(0.05, made.cancel)
    timer.start()
    with pytest.raises(ClosedError):
        made.next(10)
    block.set()
    timer.join()
    assert made.join(5)


def test_a_pool_drops_results_it_handed_out():
    class Big:
        alive = 0

        def __init__(self):
            Big.alive += 1

        def __del__(self):
            Big.alive -= 1

    made = pool(range(1, 100), lambda _, item: Big(), ahead=3)
    for _ in range(50):
        made.next(5)
    gc.collect()
    assert Big.alive <= 4
    made.cancel()
    made.join(5)
    gc.collect()
    assert Big.alive == 0


def square(value):
    return value * value


def fail(value):
    raise ValueError(f"no {value}")


def leave(value):
    os._exit(value)


def hang(value):
    threading.Event().wait(60)


@pytest.fixture
def remote():
    made = []

    def start(function):
        made.append(Remote(pack(function, what="it")))
        return made[-1]

    yield start
    for r in made:
        r.close()
        assert r.join(5)
        assert not psutil.pid_exists(r._process.pid)


def test_a_remote_function_gives_what_the_function_gives(remote):
    r = remote(square)
    assert r.call(7, timeout=20, what="seven") == 49
    big = np.arange(300_000, dtype=np.float64)
    got = r.call(big, timeout=20, what="many")
    assert (got == big * big).all() and got.flags.writeable
    assert r.call(np.zeros((0, 3)), timeout=20, what="none").shape == (0, 3)


def test_a_remote_error_comes_back_and_the_process_goes_on(remote):
    r = remote(fail)
    for value in (1, 2):
        with pytest.raises(ValueError, match=f"no {value}") as caught:
            r.call(value, timeout=20, what="it")
        assert "in fail" in str(caught.value.__cause__)


def test_a_remote_process_that_dies_is_noticed_before_the_deadline(remote):
    """The deadline is far beyond the test's own: waiting for it would fail."""
    with pytest.raises(WorkerError, match="exited with code 4 during the work"):
        remote(leave).call(4, timeout=3600, what="the work")


def test_a_remote_process_that_is_killed_names_the_signal(remote):
    r = remote(hang)
    threading.Timer(1.0, lambda: os.kill(r._process.pid, 9)).start()
    with pytest.raises(WorkerError, match="killed by SIGKILL"):
        r.call(1, timeout=60, what="it")


def test_a_remote_call_that_takes_too_long_says_what_it_waited_for(remote):
    with pytest.raises(DeadlineError, match="did not finish the long one within timeout"):
        remote(hang).call(1, timeout=0.2, what="the long one")
