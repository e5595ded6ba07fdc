"""When is a batch's memory used again? When nobody holds it or a view of it, and not before."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from engine_spans import Files, direct_span, make_files

from headrace.native.engine import Engine

SIZE, ROWS = 5_000, 4
BATCH = SIZE * ROWS


@pytest.fixture
def files(tmp_path) -> Files:
    return make_files(tmp_path, [2_000_000])


@pytest.fixture
def engine(files) -> Engine:
    return Engine(paths=files.paths, arena=0, batch_bytes=2 * BATCH, max_spans=8)


def feed(engine: Engine, step: int) -> None:
    assert direct_span(step, step=step, size=SIZE, first=ROWS * step, rows=ROWS).submit(engine, 20.0)


def content(files: Files, step: int) -> bytes:
    return files.contents[0][BATCH * step : BATCH * (step + 1)]


def test_a_pipeline_in_its_steady_state_maps_no_memory(engine, files):
    """A user who holds one batch at a time sees a handful of buffers, however many steps there are."""
    for step in range(3):
        feed(engine, step)
    ready = None
    for step in range(90):
        ready = engine.next(20.0)
        assert bytes(ready.buffer.view(0, BATCH)) == content(files, step)
        if step + 3 < 90:
            feed(engine, step + 3)
    assert engine.counters()["buffers_allocated"] <= 5
    assert ready is not None


def test_a_held_view_is_never_overwritten(engine, files):
    """Every batch that a user keeps stays what it was, also when only a small view of it is kept."""
    views = []
    for step in range(30):
        feed(engine, step)
        views.append(engine.next(20.0).buffer.view(100, 64))
    gc.collect()
    for step, view in enumerate(views):
        assert bytes(view) == content(files, step)[100:164]
    assert len({v.ctypes.data for v in views}) == 30


def test_memory_is_used_again_only_when_handle_and_views_are_gone(engine):
    """The handle lives as long as its last view; then, and only then, its address comes back."""
    feed(engine, 0)
    ready = engine.next(20.0)
    address, handle = ready.buffer.address, weakref.ref(ready.buffer)
    view = ready.buffer.view(0, 10)
    part = view[2:4]
    del ready, view
    gc.collect()
    assert handle() is not None
    feed(engine, 1)
    second = engine.next(20.0)
    assert second.buffer.address != address
    del part
    gc.collect()
    assert handle() is None
    feed(engine, 2)
    assert engine.next(20.0).buffer.address == address


def test_many_batches_let_go_at_once_give_their_memory_back(engine):
    """What a user hoarded returns to the system, not to a free list without bound."""
    kept = []
    for step in range(40):
        feed(engine, step)
        kept.append(engine.next(20.0))
    assert engine.counters()["buffers_live"] == 40
    kept.clear()
    gc.collect()
    assert engine.counters()["buffers_live"] <= 5
    assert engine.counters()["buffer_bytes"] <= 4 * BATCH + 4 * 8192


def test_a_batch_survives_its_engine(engine, files):
    """Closing and dropping the engine leaves the user's batches as they are."""
    feed(engine, 0)
    view = engine.next(20.0).buffer.view(0, BATCH)
    feed(engine, 1)
    assert engine.close(10.0)
    del engine
    gc.collect()
    assert bytes(view) == content(files, 0)


def test_views_are_writable_arrays_over_the_same_bytes(engine):
    """Two views of a range are the same memory, without a copy."""
    feed(engine, 0)
    buffer = engine.next(20.0).buffer
    a, b = buffer.view(0, BATCH), buffer.view(8, 4)
    assert a.dtype == np.uint8
    assert a.flags.writeable
    b[:] = 7
    assert (a[8:12] == 7).all()
    assert a.ctypes.data % 4096 == 0


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 2), (0, BATCH + 1), (BATCH, 1), (0, -1)])
def test_a_view_cannot_leave_its_batch(engine, offset, nbytes):
    """A range outside the batch is an IndexError that says how large the batch is."""
    feed(engine, 0)
    with pytest.raises(IndexError, match="20000 bytes"):
        engine.next(20.0).buffer.view(offset, nbytes)
