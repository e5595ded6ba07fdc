"""What does a small run take, counted and not timed? A change that costs a read, a copy or a call shows up here.

Reads, bytes, copies and batches follow from the plan and are the same on every machine. System calls are, too, where
files are read; wake-ups and copies from mappings depend on who was faster, and have a bound.
"""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.runtime.setup import Arguments
from headrace.runtime.storage import Reading

N, BATCH, EPOCHS = 2000, 50, 3
STEPS = EPOCHS * N // BATCH
DISK = hr.Storage(1500, 150e6)
CASES = {
    "direct": {"read": "direct", "residency": "none"},
    "direct static": {"read": "direct", "residency": "static"},
    "window": {"read": "window", "residency": "none"},
    "sweep": {"read": "sweep", "residency": "none"},
    "sweep static": {"read": "sweep", "residency": "static"},
    "sweep around the cache": {"read": "sweep", "residency": "none", "access": "direct"},
}
NAMES = ["operations", "bytes", "pieces", "copies", "bytes_copied", "bytes_bounced", "gathers", "syscalls"]
GOLDEN = {
    "direct": (2498, 245_483_880, 12000, 0, 0, 2_174_400, 0, 2501),
    "direct static": (1008, 262_917_392, 7528, 6708, 13_442_832, 785_256, 120, 1011),
    "window": (696, 52_014_888, 11508, 12000, 24_048_000, 322_904, 120, 699),
    "sweep": (462, 39_307_600, 10632, 12000, 24_048_000, 227_608, 120, 465),
    "sweep static": (468, 39_582_376, 10286, 12000, 24_048_000, 410_384, 120, 471),
    "sweep around the cache": (766, 47_061_504, 11468, 12000, 24_048_000, 47_061_504, 120, 769),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Two fields of 2,000 samples: 4,000 bytes and 8."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("data") / "rows.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.repeat(np.arange(N, dtype=np.int32), 1000).reshape(N, 1000)
        file["y"] = np.arange(N)
    return path


def counted(rows, options, **reading):
    """The engine's counters after a run."""
    given = Arguments(
        rows, global_batch_size=BATCH, epochs=EPOCHS, memory="6MiB", storage=DISK, switches=options,
        reading=Reading(threads=1, **reading),
    )  # fmt: skip
    with hr.Loader.of(given) as loader:
        for _ in range(EPOCHS):
            for batch in loader:
                assert (batch["x"][:, 0] == batch.ids).all()
        return loader.report().to_dict()["measured"]


@pytest.mark.parametrize("case", CASES)
def test_a_small_run_takes_just_what_it_took(rows, case):
    """Reads, bytes, copies and system calls of whole runs, for every way of reading."""
    found = counted(rows, CASES[case])
    if found["direct_refused"]:
        pytest.skip("the temporary folder is on a filesystem without direct I/O")
    assert {name: found[name] for name in NAMES} == dict(zip(NAMES, GOLDEN[case], strict=True))


@pytest.mark.parametrize("case", CASES)
def test_a_batch_costs_few_wake_ups_and_no_allocation(rows, case):
    """The loop is woken at most once a batch, threads a few times, and buffers are used again."""
    found = counted(rows, CASES[case])
    assert found["consumer_wakeups"] <= STEPS + 2
    assert found["thread_wakeups"] <= 4 * STEPS
    assert found["buffers_allocated"] <= 20
    assert found["copies"] <= 2 * N * EPOCHS + N


def test_reading_from_a_mapping_takes_one_call_for_many_samples(rows):
    """A look at the file's size after each handful of copies; the copies themselves are no calls."""
    found = counted(rows, {**CASES["direct"], "access": "mapped", "gap": 0}, map_from=0, map_after=0)
    assert found["operations"] > 1.9 * N * EPOCHS  # neighbours in a batch are one read
    assert found["syscalls"] < found["operations"] / 4
    assert found["bytes_copied"] == found["bytes_bounced"] == 0
