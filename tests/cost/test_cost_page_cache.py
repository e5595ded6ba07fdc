"""The page cache is asked, not guessed at: what was read is in it, what was dropped is not."""

import os

import pytest

from headrace.cost import page_cache_share
from headrace.cost.page_cache import MAX_FILES, WINDOW, WINDOWS, cachestat, mincore

MIB = 1 << 20


@pytest.fixture
def file(tmp_path):
    """A file of 8 MiB whose pages are clean, so that they can be dropped."""
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(8 * MIB))
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    yield path, descriptor
    os.close(descriptor)


def drop(descriptor, offset=0, nbytes=0):
    os.posix_fadvise(descriptor, offset, nbytes, os.POSIX_FADV_DONTNEED)


def skip_if_kept(descriptor):
    """Filesystems in memory keep their pages: nothing can be dropped there."""
    drop(descriptor)
    if mincore(descriptor, 8 * MIB)[0] != 0:
        pytest.skip("the temporary folder is on a filesystem that keeps its pages in memory")


def test_a_file_just_written_is_cached_and_a_dropped_one_is_not(file):
    """The share follows what the kernel holds."""
    path, descriptor = file
    assert page_cache_share([str(path)]) == 1.0
    skip_if_kept(descriptor)
    assert page_cache_share([str(path)]) == 0.0


def test_both_ways_to_ask_agree(file):
    """cachestat is not on every kernel; mincore must say the same."""
    _, descriptor = file
    skip_if_kept(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(descriptor, 2 * MIB, 3 * MIB)
    assert mincore(descriptor, 8 * MIB) == (2 * MIB, 8 * MIB)
    assert cachestat(descriptor, 8 * MIB) in (None, (2 * MIB, 8 * MIB))


def test_a_huge_file_is_sampled(tmp_path):
    """Asking about a file of 4 GiB looks at a bounded part of it."""
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(4096 * MIB)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert mincore(descriptor, 4096 * MIB) == (0, WINDOWS * WINDOW)
        assert cachestat(descriptor, 4096 * MIB) in (None, (0, WINDOWS * WINDOW))
    finally:
        os.close(descriptor)


def test_many_files_are_sampled_evenly(tmp_path):
    """The first files alone would say little about the rest."""
    paths = [str(tmp_path / f"{i}.bin") for i in range(3 * MAX_FILES)]
    for path in paths[:MAX_FILES]:
        with open(path, "wb") as file:
            file.write(b"x" * 4096)
    assert page_cache_share(paths) is None
    assert page_cache_share(paths[:MAX_FILES]) == 1.0


def test_there_is_no_answer_for_nothing(tmp_path):
    """No files, missing files and empty files have no share."""
    empty = tmp_path / "empty"
    empty.touch()
    assert page_cache_share([]) is None
    assert page_cache_share([str(empty)]) is None
    assert page_cache_share([str(tmp_path / "missing")]) is None
