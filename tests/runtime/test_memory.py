"""`memory=` bounds what the process takes, as seen from outside."""

from __future__ import annotations

import json
import time

import psutil
import pytest
from runs import script

from conftest import write_h5

SLACK = 64 << 20
RUN = """
import json, sys
import headrace as hr
path, memory, epochs, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
import headrace.runtime.loader, headrace.plan, h5py  # what importing takes is the process's own baseline
print("baseline", flush=True)
sys.stdin.readline()
loader = hr.Loader(path, global_batch_size=32, epochs=epochs, memory=memory, storage=hr.Storage(1500, 150e6), **options)
for epoch in range(epochs):
    for batch in loader:
        batch["x"].sum()
    print("epoch", epoch, flush=True)
    sys.stdin.readline()
print(loader.report().to_dict()["plan"]["label"], flush=True)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """2,000 samples of 64 kB: 128 MB."""
    return write_h5(tmp_path_factory.mktemp("large") / "large.h5", n=2000, width=16000)


def measure(path, memory, epochs, options):
    """(peak beyond the baseline, resident size at the end of every epoch) of a run, watched from outside."""
    process = script(RUN, path, memory, epochs, json.dumps(options), stdin=-1)
    watched = psutil.Process(process.pid)
    assert process.stdout.readline() == "baseline\n", process.stderr.read()
    baseline = private(watched)
    peak, ends = 0, []
    process.stdin.write("go\n")
    process.stdin.flush()
    for _ in range(epochs):
        peak = max(peak, watch_until_line(process, watched))
        ends.append(private(watched) - baseline)
        process.stdin.write("go\n")
        process.stdin.flush()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return peak - baseline, ends


def private(process):
    """Resident bytes that are not pages of files."""
    info = process.memory_info()
    return info.rss - info.shared


def watch_until_line(process, watched):
    """The highest resident size until the process prints its next line."""
    import select

    peak = private(watched)
    deadline = time.monotonic() + 60
    while not select.select([process.stdout], [], [], 0.002)[0]:
        peak = max(peak, private(watched))
        assert time.monotonic() < deadline
    assert process.stdout.readline().startswith("epoch"), process.stderr.read()
    return max(peak, private(watched))


@pytest.mark.parametrize(
    ("memory", "options"),
    [
        ("48MiB", {}),
        ("48MiB", {"read": "direct", "residency": "static"}),
        ("48MiB", {"read": "direct", "residency": "next-use"}),
        ("48MiB", {"read": "sweep", "residency": "none"}),
        ("48MiB", {"read": "sweep", "residency": "static"}),
        ("48MiB", {"read": "window", "residency": "none"}),
        ("200MiB", {}),
    ],
)
def test_resident_memory_stays_below_memory_plus_a_small_constant(large, memory, options):
    peak, _ = measure(large, memory, 2, options)
    assert peak <= int(memory[:-3]) * (1 << 20) + SLACK, f"{peak / 2**20:.0f} MiB"


def test_resident_memory_is_flat_over_fifty_epochs(small):
    _, ends = measure(small, "8MiB", 50, {})
    assert max(ends[5:]) - ends[4] <= 2 << 20, ends


def test_early_breaks_give_all_memory_back(large):
    text = """
import sys, psutil, headrace as hr
loader = hr.Loader(sys.argv[1], global_batch_size=32, epochs=None, memory="96MiB", read="sweep", residency="none",
                   storage=hr.Storage(1500, 150e6))
sizes = []
for _ in range(12):
    for batch in loader:
        if batch.step == 20:
            break
    del batch
    sizes.append(psutil.Process().memory_info().rss >> 20)
print(max(sizes) - sizes[1], sizes)
"""
    process = script(text, large)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert int(output.split()[0]) <= 8, output
