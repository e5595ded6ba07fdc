"""Are mapped files as safe as files that are read by system calls? They fail by a signal, not by an error code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from engine_spans import direct_span, drain, make_files

from headrace.native.engine import Engine

SIZE = 4096


def mapped(paths: list[str], **options) -> Engine:
    """An engine that maps files of any size."""
    return Engine(paths=paths, arena=0, batch_bytes=1 << 20, access="mapped", map_from=0, map_after=0, **options)


def test_mapped_reads_share_one_system_call(tmp_path):
    """A look at the size of the file after every handful of copies, and no call for each."""
    files = make_files(tmp_path, [1024 * 64])
    engine = mapped(files.paths, threads=1)
    spans = [direct_span(k, step=k, size=64, rows=256, first=256 * k, after=k) for k in range(4)]
    for step, batch, failures in drain(engine, spans):
        assert batch.tobytes() == files.contents[0][256 * 64 * step : 256 * 64 * (step + 1)]
        assert not failures
    counters = engine.counters()
    assert engine.close(10.0)
    assert counters["operations"] == 1024
    assert counters["syscalls"] < 80


def test_a_file_that_is_cut_while_it_is_mapped_fails_by_name(tmp_path):
    """The kernel's SIGBUS becomes what a read of a cut file gives: what lies beyond the end fails, the rest comes."""
    files = make_files(tmp_path, [64 * SIZE])
    engine = mapped(files.paths, threads=2)
    handler = signal.getsignal(signal.SIGBUS)
    assert direct_span(0, step=0, size=SIZE).submit(engine)
    assert engine.next(20.0).failures == []
    with open(files.paths[0], "r+b") as file:
        file.truncate(10 * SIZE + 100)
    for k, first in ((1, 8), (2, 20)):
        assert direct_span(k, step=k, size=SIZE, first=first, after=k).submit(engine)
    engine.finish()
    first, second = engine.next(20.0), engine.next(20.0)
    assert [(f[0], f[5], f[6]) for f in first.failures] == [(10, 0, 100), (11, 0, 0)]
    assert [f[0] for f in second.failures] == [20, 21, 22, 23]
    assert bytes(first.buffer.view(0, 2 * SIZE)) == files.contents[0][8 * SIZE : 10 * SIZE]
    assert engine.close(10.0)
    assert signal.getsignal(signal.SIGBUS) == handler


OTHERS_FAULT = """
import faulthandler, mmap, sys
faulthandler.enable()
from headrace.native.engine import Engine
engine = Engine(paths=[sys.argv[1]], arena=0, batch_bytes=1 << 20, access="mapped", map_from=0, map_after=0)
print("open", flush=True)
with open(sys.argv[1], "r+b") as file:
    view = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    view[5000]
"""


def test_a_fault_that_is_not_the_engines_still_ends_the_process(tmp_path):
    """Somebody else's SIGBUS goes to who would have had it: here Python's fault handler, and then the default."""
    files = make_files(tmp_path, [64 * SIZE])
    command = [sys.executable, "-c", textwrap.dedent(OTHERS_FAULT), files.paths[0]]
    # A sanitizer would take the signal for itself.
    env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_sigbus=0"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert b"open" in done.stdout
    assert b"Bus error" in done.stderr


@pytest.mark.parametrize("size", [0, 1, 4095])
def test_files_of_any_size_can_be_mapped(tmp_path, size):
    """An empty file cannot be mapped, a short one ends within its page."""
    files = make_files(tmp_path, [size])
    engine = mapped(files.paths)
    assert direct_span(0, step=0, size=SIZE, rows=1).submit(engine)
    engine.finish()
    failures = engine.next(20.0).failures
    assert [(f[0], f[5], f[6]) for f in failures] == [(0, 0, size)]
    assert engine.close(10.0)
