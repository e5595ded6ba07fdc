"""Does every wait end, and say what it waits for?"""

from __future__ import annotations

import signal
import threading
import time

import pytest
from engine_spans import Files, direct_span, make_files

from headrace.native.engine import Engine, EngineClosed, EngineTimeout

both = pytest.mark.parametrize("io", ["threads", "uring"])


@pytest.fixture
def files(tmp_path) -> Files:
    return make_files(tmp_path, [100_000])


def engine_for(files: Files, **options) -> Engine:
    return Engine(paths=files.paths, arena=0, **{"batch_bytes": 1 << 20, "threads": 2, **options})


@both
def test_a_deadline_names_the_span_the_file_and_the_oldest_read(files, io):
    """A read that hangs ends in an error that says which read of which file it is, and how long it has been away."""
    engine = engine_for(files, io=io, fault={"hold": True})
    direct_span(12, step=7, size=20_000, rows=1).submit(engine)
    while "oldest" not in engine.waiting():  # until a thread has begun the read
        pass
    with pytest.raises(EngineTimeout, match=r"span 12: 1 of 1 reads outstanding") as caught:
        engine.next(0.01)
    assert f"oldest is 20,000 bytes at 0 of {files.paths[0]}, in flight for 0." in str(caught.value)
    engine.release()
    assert engine.next(20.0).step == 7
    assert engine.close(10.0)


def test_a_deadline_without_spans_says_that_none_came(files):
    """Waiting for a step that nobody submitted says so."""
    engine = engine_for(files)
    with pytest.raises(TimeoutError, match="no step is submitted beyond the 0 that were taken"):
        engine.next(0.0)


def test_a_span_that_waits_for_its_slots_says_for_which_steps(files):
    """While earlier steps are not gathered, a later span issues nothing and says why."""
    engine = engine_for(files, threads=1, batch_bytes=1, fault={"hold": True})
    direct_span(0, step=3, size=100, rows=1).submit(engine)
    direct_span(1, step=4, size=100, rows=1, after=4).submit(engine)
    assert engine.waiting().startswith("span 0: 1 of 1 reads outstanding")
    assert engine.counters()["operations"] == 0
    engine.release()
    assert [engine.next(20.0).step for _ in range(2)] == [3, 4]


def test_submit_without_room_returns_false_and_finds_room_later(files):
    """The queue holds `max_spans` unfinished spans, and takes the next as soon as one is done."""
    engine = engine_for(files, max_spans=2, fault={"hold": True})
    assert direct_span(0, step=0, size=100).submit(engine, 0.0)
    assert direct_span(1, step=1, size=100).submit(engine, 0.0)
    assert not direct_span(2, step=2, size=100).submit(engine, 0.01)
    engine.release()
    assert direct_span(2, step=2, size=100).submit(engine, 20.0)
    engine.finish()
    assert [engine.next(20.0).step for _ in range(3)] == [0, 1, 2]
    assert engine.next(20.0) is None
    assert engine.next(0.0) is None


@pytest.mark.parametrize("call", ["next", "submit"])
def test_cancel_wakes_whoever_waits(files, call):
    """A blocked next() or submit() raises EngineClosed when the engine is cancelled from elsewhere."""
    engine = engine_for(files, max_spans=1, fault={"hold": True})
    direct_span(0, step=0, size=100).submit(engine)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            engine.next(None) if call == "next" else direct_span(1, step=1, size=100).submit(engine, None)
        except EngineClosed as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    engine.cancel()
    thread.join(20.0)
    assert [str(e) for e in outcome] == ["the engine is closed"]
    engine.release()


def test_a_stuck_thread_is_left_behind_and_touches_nothing(files):
    """close() gives up on a read that never returns; the memory it may still write to outlives the engine."""
    engine = engine_for(files, fault={"hold": True})
    direct_span(0, step=0, size=100).submit(engine)
    while "oldest" not in engine.waiting():
        pass
    assert not engine.close(0.05)
    assert not engine.close(0.0)
    engine.release()
    assert engine.close(20.0)


@both
def test_close_is_idempotent_and_final(files, io):
    """After close() everything but the counters says that the engine is closed."""
    engine = engine_for(files, io=io)
    direct_span(0, step=0, size=100).submit(engine)
    engine.next(20.0)
    assert engine.close(10.0)
    assert engine.close(10.0)
    for call in (lambda: engine.next(0.0), lambda: direct_span(1, step=1, size=100).submit(engine)):
        with pytest.raises(EngineClosed, match="closed"):
            call()
    assert engine.waiting() == "the engine is closed"
    assert engine.counters()["operations"] == 4
    assert engine.counters()["open_files"] == 0
    assert engine.counters()["buffers_live"] == 0


def test_a_signal_interrupts_a_wait(files):
    """Ctrl-C during next() is raised at once, not at the deadline."""

    class Interrupt(Exception):
        pass

    def handler(*_):
        raise Interrupt

    engine = engine_for(files)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Interrupt):
            engine.next(3600.0)  # far beyond the test's own deadline: only the signal can end it
    finally:
        signal.signal(signal.SIGALRM, before)


def test_batches_that_the_user_holds_do_not_count_as_budget(files):
    """A user who keeps every batch never stops the engine."""
    engine = engine_for(files, batch_bytes=400)
    kept = []
    for k in range(20):
        assert direct_span(k, step=k, size=100, first=4 * k).submit(engine, 20.0)
        kept.append(engine.next(20.0))
    assert [r.step for r in kept] == list(range(20))
    for r in kept:
        assert bytes(r.buffer.view(0, 400)) == files.contents[0][400 * r.step : 400 * (r.step + 1)]


def test_nothing_may_follow_finish(files):
    """A span after finish() is a mistake of the caller, not a wait."""
    engine = engine_for(files)
    engine.finish()
    with pytest.raises(ValueError, match="after finish"):
        direct_span(0, step=0, size=100).submit(engine)


def test_steps_that_wait_to_be_taken_are_counted(files):
    """`ready` counts gathered steps without a gap before them: what the training loop finds when it comes."""
    engine = engine_for(files, threads=1)
    assert engine.ready == 0
    for k in range(3):
        direct_span(k, step=k, size=100, rows=2, after=k).submit(engine)
    engine.finish()
    end = time.monotonic() + 20
    while engine.ready < 3 and time.monotonic() < end:
        pass
    for left in (3, 2, 1):
        assert engine.ready == left
        engine.next(20.0)
    assert engine.ready == 0
    assert engine.close(10.0)
