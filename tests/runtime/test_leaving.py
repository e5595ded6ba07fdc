"""However a loop is left, no thread, file, process or memory stays behind."""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings

import psutil
import pytest
from runs import DISK, each_once, no_python_threads, run, script

import headrace as hr
from headrace.errors import ClosedError


class Things:
    """What this process holds that a loader might leave behind."""

    def __init__(self):
        self.before = self.now()

    def now(self):
        me = psutil.Process()
        return me.num_threads(), me.num_fds(), len(me.children(recursive=True))

    def left_behind(self):
        """Threads, files and processes more than before. A joined thread is still seen by the kernel for a moment."""
        deadline = time.monotonic() + 1
        while self.now() != self.before and time.monotonic() < deadline:
            os.sched_yield()
        return [now - before for now, before in zip(self.now(), self.before, strict=True)]


NOTHING = [0, 0, 0]


@pytest.fixture(params=["plain", "transform", "map", "map in the loop"])
def make(request, train):
    """Loaders of every kind of pipeline."""
    if request.param.startswith("map"):
        workers = 0 if request.param == "map in the loop" else 3
        return lambda: hr.Loader(Numbers(), global_batch_size=10, epochs=3, workers=workers)
    transform = None if request.param == "plain" else (lambda batch: batch)
    return lambda: hr.Loader(
        train, global_batch_size=12, epochs=3, memory="9MiB", storage=DISK, transform=transform, read="sweep"
    )


class Numbers:
    def __len__(self):
        return 100

    def __getitem__(self, i):
        return {"y": i}


@pytest.fixture(autouse=True)
def settled(train):
    """Whatever starts once per process (the interpreter's own helpers) has started."""
    run(hr.Loader(train, global_batch_size=12, epochs=1, memory="9MiB", storage=DISK), 1)
    gc.collect()


def test_an_early_break_leaves_nothing_behind(make):
    before = Things()
    loader = make()
    for _ in loader:
        break
    assert before.left_behind() == NOTHING
    assert no_python_threads()


def test_an_exception_in_the_loop_leaves_nothing_behind(make):
    before = Things()
    loader = make()

    def train():
        for _ in loader:
            raise ValueError("the model exploded")

    with pytest.raises(ValueError, match="exploded"):
        train()
    assert before.left_behind() == NOTHING
    assert loader.epoch == 1


def test_the_end_of_the_run_leaves_nothing_behind_even_before_close(make):
    before = Things()
    loader = make()
    for _ in range(3):
        for batch in loader:
            del batch
    assert before.left_behind() == NOTHING


def test_a_loader_that_is_dropped_between_two_epochs_leaves_nothing_behind(make):
    before = Things()
    loader = make()
    for batch in loader:
        del batch
    del loader
    assert before.left_behind() == NOTHING


def test_a_dropped_iterator_and_loader_leave_nothing_behind_without_the_collector(make):
    """Reference counts suffice: no cycle keeps the pipeline alive until somebody collects garbage."""
    gc.disable()
    try:
        before = Things()
        loader = make()
        it = iter(loader)
        next(it)
        del it, loader
        assert before.left_behind() == NOTHING
    finally:
        gc.enable()


def test_an_iterator_keeps_its_loader_alive(train):
    it = iter(hr.Loader(train, global_batch_size=12, epochs=1, memory="9MiB", storage=DISK))
    assert len([len(batch) for batch in it]) == 17


def test_closing_with_many_epochs_prefetched_leaves_no_thread(make):
    loader = make()
    it = iter(loader)
    next(it)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a thread that had to be left behind is a ResourceWarning
        loader.close()
    assert no_python_threads()


def test_files_stay_open_only_while_the_loop_runs(train):
    before = psutil.Process().num_fds()
    loader = hr.Loader(train, global_batch_size=12, epochs=2, memory="9MiB", storage=DISK)
    it = iter(loader)
    next(it)
    assert psutil.Process().num_fds() > before
    loader.close()
    assert psutil.Process().num_fds() == before


def test_a_batch_that_is_kept_outlives_its_loader(train):
    loader = hr.Loader(train, global_batch_size=12, epochs=1, memory="9MiB", storage=DISK)
    batch = next(iter(loader))
    loader.close()
    del loader
    assert (batch["x"] == batch.ids[:, None]).all()


def test_a_user_who_thinks_for_longer_than_the_timeout_is_no_failure(train):
    """The deadline is for the loader's waits, not for the user's."""
    loader = hr.Loader(train, global_batch_size=12, epochs=2, memory="9MiB", storage=DISK, timeout=0.5)
    slow = threading.Event()
    ids = []
    with loader:
        for batch in loader:
            ids.append(batch.ids.tolist())
            if batch.step == 2:
                slow.wait(1.2)
    each_once(ids, 203)


LIVE = """
import sys, headrace as hr
from runs import DISK
loader = hr.Loader(sys.argv[1], global_batch_size=12, epochs=100, memory="9MiB", storage=DISK,
                   transform=eval(sys.argv[2]))
it = iter(loader)
batch = next(it)
if sys.argv[3] == "raise":
    raise ValueError("the script failed")
"""


@pytest.mark.parametrize("transform", ["None", "lambda b: b"])
@pytest.mark.parametrize("end", ["return", "raise"])
def test_a_script_that_ends_with_a_live_loader_ends(train, transform, end):
    process = script(LIVE, train, transform, end)
    _, errors = process.communicate(timeout=30)  # bounded: a script that hangs at its end raises here
    assert process.returncode == (0 if end == "return" else 1), errors
    assert ("the script failed" in errors) == (end == "raise")
    assert "Fatal" not in errors and "headrace-" not in errors


INTERRUPTED = """
import os, signal, sys, threading, psutil
import headrace as hr, headrace.runtime.pipeline
headrace.runtime.pipeline.CLOSE_SECONDS = 0.5
from runs import DISK
where = sys.argv[2]
if where == "loop":
    loader = hr.Loader(sys.argv[1], global_batch_size=12, epochs=None, memory="9MiB", storage=DISK)
elif where == "next":
    from headrace.runtime.setup import Arguments
    from headrace.runtime.storage import Reading
    # The first read of the second step's files hangs, so that next() waits.
    loader = hr.Loader.of(Arguments(sys.argv[1], global_batch_size=12, epochs=None, memory="9MiB", storage=DISK,
                                    shuffle=False, switches={"read": "direct", "residency": "none"},
                                    reading=Reading(fault={"hold": True, "file": 1})))
else:
    block = threading.Event()
    def transform(batch):
        if batch.step == 2:
            block.wait(3)
        return batch
    loader = hr.Loader(sys.argv[1], global_batch_size=12, epochs=None, memory="9MiB", storage=DISK, transform=transform)
before = psutil.Process().num_threads()
timer = threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT))
timer.start()
try:
    while True:
        for batch in loader:
            pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
if where == "loop":
    timer.join()
    # Between two epochs the next one is on its way already; that ends with the loader.
    del batch, loader
    print(psutil.Process().num_threads() - before, flush=True)
"""


@pytest.mark.parametrize("where", ["loop", "next", "transform"])
def test_ctrl_c_ends_the_loop_wherever_it_waits(train, where):
    process = script(INTERRUPTED, train, where)
    output, errors = process.communicate(timeout=60)
    assert output.startswith("interrupted"), errors
    assert process.returncode == 0, errors
    assert "Fatal" not in errors
    if where == "loop":
        assert output.split()[1] == "0"


FORKED = """
import os, sys, headrace as hr
from headrace.errors import ClosedError
from runs import DISK, run, each_once
loader = hr.Loader(sys.argv[1], global_batch_size=12, epochs=3, memory="9MiB", storage=DISK,
                   transform=eval(sys.argv[2]))
it = iter(loader)
first = next(it).ids.tolist()
pid = os.fork()
if pid == 0:
    try:
        next(it)
    except ClosedError as error:
        assert "fork" in str(error), error
        # A fresh iteration opens its own engine and goes on from there.
        each_once([first, *run(loader, 1)], 203)
        each_once(run(loader, 1), 203)
        del it
        if sys.argv[3] == "exit":
            sys.exit(7)
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
rest = [batch.ids.tolist() for batch in it]
each_once([first, *rest], 203)
print("fine")
"""


@pytest.mark.parametrize("end", ["exit", "_exit"])
@pytest.mark.parametrize("transform", ["None", "lambda b: b"])
def test_a_fork_can_start_its_own_iteration_but_not_use_the_parents(train, transform, end):
    """And the parent's own goes on as if nothing had happened."""
    process = script(FORKED, train, transform, end)
    output, errors = process.communicate(timeout=60)
    assert (output.strip(), process.returncode) == ("fine", 0), errors


def test_a_session_used_by_a_fork_says_so(train):
    loader = hr.Loader(train, global_batch_size=12, epochs=3, memory="9MiB", storage=DISK)
    it = iter(loader)
    next(it)
    loader._session._pipeline._parts.pid = os.getpid() + 1
    with pytest.raises(ClosedError, match="fork"):
        next(it)
    # Put back, so that the threads of this test end.
    from headrace.runtime.pipeline import _INHERITED

    for parts in _INHERITED:
        parts.pid = os.getpid()
        parts.close()
    _INHERITED.clear()
    assert no_python_threads()
