"""The probe's own reads: of what is not cached, leaving no trace, ending in time."""

import itertools
import os
import random
import threading

import pytest

from headrace.cost.page_cache import cached_bytes, mincore
from headrace.cost.probe import SMALL, Spot
from headrace.cost.probe_reads import ProbedFiles
from headrace.errors import DeadlineError, InputError, ReadError

MIB = 1 << 20
SIZE = 8 * MIB


@pytest.fixture
def data(tmp_path):
    """Two files of 8 MiB, of which nothing is cached; skipped where a filesystem keeps its pages."""
    paths = [str(tmp_path / name) for name in ("a.bin", "b.bin")]
    for path in paths:
        with open(path, "wb") as file:
            file.write(os.urandom(SIZE))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached(paths[0]):
        pytest.skip("the temporary folder is on a filesystem that keeps its pages in memory")
    return paths


def cached(path):
    descriptor = os.open(path, os.O_RDWR)
    try:
        return mincore(descriptor, SIZE)[0]
    finally:
        os.close(descriptor)


def read(path, offset, nbytes):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(descriptor, nbytes, offset)
    os.close(descriptor)


def test_buffered_reads_leave_the_page_cache_as_it_was(data):
    """What was cached stays, what was read goes."""
    read(data[0], MIB, MIB)
    with ProbedFiles(data, rng=random.Random(1)) as device:
        assert device.tells
        spots = device.random(nbytes=16384, most=200, fresh=True)
        burst = device.burst(spots, depth=4, seconds=60, direct=False)
    assert len(burst.ended) == len(spots) == 200 and burst.nbytes == 200 * 16384
    assert (burst.ended > burst.begun).all()
    assert cached(data[0]) == MIB and cached(data[1]) == 0


def test_direct_reads_bring_nothing_into_the_page_cache(data):
    """Or the figures would be of memory."""
    with ProbedFiles(data, rng=random.Random(1)) as device:
        if not device.direct:
            pytest.skip("the temporary folder is on a filesystem that refuses reads around the page cache")
        burst = device.burst(device.sequential(nbytes=MIB, most=8, fresh=True), depth=2, seconds=60, direct=True)
    assert burst.nbytes == 8 * MIB
    assert cached(data[0]) == cached(data[1]) == 0


def test_places_avoid_what_is_cached_and_what_was_read(data):
    """A second read of a place may be answered by a cache below."""
    read(data[0], 0, SIZE)
    with ProbedFiles(data, rng=random.Random(1)) as device:
        first = device.random(nbytes=65536, most=40, fresh=True)
        second = device.random(nbytes=65536, most=40, fresh=True)
        run = device.sequential(nbytes=MIB, most=20, fresh=True)
        anywhere = device.sequential(nbytes=MIB, most=20, fresh=False)
    assert {spot.file for spot in (*first, *second, *run)} == {1}
    assert len({*first, *second}) == len(first) + len(second) <= SIZE // 65536
    assert len(run) == 8 and len(anywhere) == 16


def test_a_run_of_places_follows_the_file(data):
    """Round to the first, where it began in the middle."""
    with ProbedFiles(data, rng=random.Random(3)) as device:
        spots = device.sequential(nbytes=MIB, most=16, fresh=True)
    places = [spot.file * 8 + spot.offset // MIB for spot in spots]
    assert all((b - a) % 16 == 1 for a, b in itertools.pairwise(places))


def test_small_files_are_read_whole(tmp_path):
    """A folder of small arrays has no place for a megabyte."""
    paths = [str(tmp_path / f"{k}.npy") for k in range(300)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"x" * 5000)
    with ProbedFiles(paths, rng=random.Random(1)) as device:
        spots = device.random(nbytes=65536, most=100, fresh=False)
        burst = device.burst(spots, depth=4, seconds=60, direct=device.direct)
    assert {spot.nbytes for spot in spots} == {8192}
    assert burst.nbytes == 5000 * len(burst.ended)


class Virtual:
    """A clock that each read moves on by a second, and the reads that were made."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = 0.0
        self.reads = []

    def clock(self):
        return self.now

    def pread(self, descriptor, buffer, offset):
        with self.lock:
            self.now += 1.0
            self.reads.append((offset, len(buffer)))
        return len(buffer)


@pytest.mark.parametrize("depth", [1, 4])
def test_no_read_begins_after_its_time(data, depth):
    """Those under way are waited for: at most one for each thread."""
    model = Virtual()
    with ProbedFiles(data, pread=model.pread, clock=model.clock) as device:
        spots = device.random(nbytes=SMALL, most=500, fresh=True)
        burst = device.burst(spots, depth=depth, seconds=10.0, direct=False)
    assert 10 <= len(model.reads) == len(burst.ended) <= 10 + depth - 1
    assert (burst.begun < 10).all()
    assert all(nbytes == SMALL for _, nbytes in model.reads)


def test_a_read_that_fails_names_its_file(data):
    """And ends the probe."""

    def pread(descriptor, buffer, offset):
        raise OSError(5, "Input/output error")

    with (
        ProbedFiles(data, pread=pread) as device,
        pytest.raises(ReadError, match=r"could not read .*a\.bin at 4,096: Input/output error"),
    ):
        device.burst([Spot(0, SMALL, SMALL)], depth=2, seconds=1, direct=False)


def test_a_read_that_hangs_ends_the_probe(data):
    """Its thread is left behind, and its descriptor is not given away."""
    release = threading.Event()

    def pread(descriptor, buffer, offset):
        release.wait(60)
        return len(buffer)

    try:
        with (
            ProbedFiles(data, pread=pread, grace=0.01) as device,
            pytest.raises(DeadlineError, match="did not return"),
        ):
            device.burst([Spot(0, 0, SMALL)], depth=1, seconds=0.01, direct=False)
    finally:
        release.set()


def test_the_probes_own_limit_is_measured_in_memory(data):
    """Without a file of anybody's."""
    with ProbedFiles(data) as device:
        assert device.limit(depth=2) > 0


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_nothing_to_read_is_said(tmp_path, name):
    """Before a thread is started."""
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="prob"), ProbedFiles([str(tmp_path / name)]):
        pass


def test_one_range_of_a_file_is_asked_about(data):
    """By either system call: the range itself, not the pages around it."""
    read(data[0], 2 * MIB, MIB)
    descriptor = os.open(data[0], os.O_RDWR)
    try:
        assert cached_bytes(descriptor, 2 * MIB, MIB) == MIB
        assert cached_bytes(descriptor, 4 * MIB, MIB) == 0
        assert cached_bytes(descriptor, 2 * MIB + 8192, 4096) == 4096
        assert cached_bytes(descriptor, SIZE, MIB) == 0
    finally:
        os.close(descriptor)
