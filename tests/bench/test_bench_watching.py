"""The watcher sees what memory a process and its children have of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from headrace.bench.watching import Watcher, family, private_bytes

MB = 10**6
HOLD = "import sys; held = bytearray(b'x') * 40_000_000; print('ready', flush=True); sys.stdin.readline()"


@pytest.fixture
def watcher():
    """A watcher that is closed whatever happens."""
    if private_bytes(os.getpid()) is None:
        pytest.skip("/proc/self/smaps_rollup cannot be read here")
    made = Watcher()
    yield made
    made.close()


def test_memory_that_was_given_back_is_still_in_the_peak(watcher):
    """One that is only mapped from a file is not."""
    base = watcher.start()
    held = np.ones(50 * MB, np.uint8)
    assert watcher.look() >= base + 49 * MB
    del held
    assert watcher.look() >= base + 49 * MB


def test_pages_of_a_file_do_not_count(watcher, tmp_path):
    """The page cache is everybody's."""
    (tmp_path / "file").write_bytes(bytes(50 * MB))
    base = watcher.start()
    mapped = np.memmap(tmp_path / "file", np.uint8, mode="r")
    assert mapped.sum() == 0
    assert watcher.look() <= base + 20 * MB


def test_memory_of_children_counts(watcher):
    """Workers are a part of their loader."""
    base = watcher.start()
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        assert child.pid in family(os.getpid())
        assert watcher.look() >= base + 39 * MB
    finally:
        child.communicate("end\n", timeout=30)


def test_a_watcher_that_was_not_started_knows_nothing_and_closes_twice():
    """As does one whose process is gone."""
    watcher = Watcher()
    assert watcher.look() is None
    watcher.start()
    watcher.close()
    watcher.close()
    assert watcher.look() is None
