"""What the loader takes the storage to be, and what `explain` says about that."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np
import pytest

import headrace as hr
from headrace.cost.filesystem import filesystem_of
from headrace.cost.probe import SECONDS
from headrace.cost.remember import DAY, recall, remember
from headrace.errors import DeadlineError
from headrace.runtime import probing
from headrace.runtime.probing import Probing, storage_under
from headrace.runtime.setup import Arguments, Setup
from headrace.values.measured import Figure, Measured

NOW = 1_700_000_000.0
FOUND = hr.Storage(1234, 56e6, 0.001, name="a disk", source="measured 2023-11-14")
FIGURES = (
    Figure("random", "direct", 1, 4096, 10, 1.0, 1234.0, 0.001),
    Figure("sequential", "direct", 8, 1 << 20, 10, 1.0, 53.4, 0.1),
)
MEASURED = Measured("/data", NOW, FIGURES, FOUND, 1.5, 5 << 20, ("a doubt",))


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A dataset that is not in the page cache and large enough, a cache folder, and a probe that is only counted."""
    path = tmp_path / "data.bin"
    np.zeros(4 << 20, np.uint8).tofile(path)
    monkeypatch.setattr(probing, "WORTH", 1 << 20)
    true = probing.assume_storage
    share = {"cached": 0.0}
    monkeypatch.setattr(
        probing,
        "assume_storage",
        lambda paths, cached=True: true(paths, cached=(lambda p: share["cached"]) if cached else None),
    )
    if true([path], cached=None).cached:
        pytest.skip("the temporary folder is in memory: there is nothing to measure")
    asked: list[list[str]] = []

    def probe_files(paths, *, size, probing):
        asked.append([os.fspath(paths[0]), size])
        return replace(MEASURED, when=probing.now())

    monkeypatch.setattr(probing, "probe_files", probe_files)
    return World(hr.open(path, dtype="<f4", shape=(1024,)), str(tmp_path / "cache"), asked, share, path)


class World:
    def __init__(self, dataset, cache, asked, share, path):
        self.dataset, self.cache, self.asked, self.share, self.path = dataset, cache, asked, share, path

    def storage(self, *, allowed=True, now=NOW):
        return storage_under(self.dataset.layout, probing=Probing(allowed, self.cache, now=lambda: now))


def test_the_first_run_on_a_filesystem_measures_and_the_next_remembers(world):
    """With reads of about a sample's size."""
    first = world.storage()
    assert first.storage == FOUND and world.asked == [[str(world.path), 4096]]
    assert first.notes[0].startswith("the storage was measured on 2023-11-14 in 1.5 s with 5.00 MiB of /data")
    assert first.notes[1] == "a doubt"
    again = world.storage(now=NOW + DAY)
    assert again == first and len(world.asked) == 1


def test_files_in_the_page_cache_are_copied_whatever_was_measured(world):
    """What the disk below can do is no matter then."""
    world.storage()
    world.share["cached"] = 1.0
    assert world.storage().storage.cached
    assert len(world.asked) == 1


def test_where_measuring_is_off_nothing_is_measured(world):
    """Assumed, and called that."""
    known = world.storage(allowed=False)
    assert known.storage.source == "assumed" and known.notes == () and world.asked == []


def test_a_small_dataset_is_not_worth_a_probe(world, monkeypatch):
    """It is read in less time."""
    monkeypatch.setattr(probing, "WORTH", 5 << 20)
    assert world.storage().storage.source == "assumed" and world.asked == []


def test_a_stale_measurement_is_made_again_or_called_stale(world):
    """Never used as if it were true."""
    world.storage()
    late = NOW + 40 * DAY
    off = world.storage(allowed=False, now=late)
    assert off.storage.source == "measured 2023-11-14, stale: 40 days old"
    assert off.storage.iops == FOUND.iops
    assert len(world.asked) == 1
    world.storage(now=late)
    assert len(world.asked) == 2
    assert recall(world.cache, filesystem_of(world.path), now=late).stale == ""


def test_a_place_that_cannot_be_written_is_told(world):
    """The measurement counts all the same."""
    world.cache = "/dev/null/x"
    known = world.storage()
    assert known.storage == FOUND
    assert known.notes[-1].startswith("not remembered: /dev/null/x")


def test_a_probe_that_fails_leaves_the_assumption(world, monkeypatch):
    """A training run does not end because its storage could not be measured."""

    def fail(*args, **options):
        raise DeadlineError("a read did not return")

    monkeypatch.setattr(probing, "probe_files", fail)
    known = world.storage()
    assert known.storage.source == "assumed"
    assert known.notes == ("the storage could not be measured: a read did not return",)


def test_the_slowest_of_several_filesystems_counts(world, monkeypatch):
    """A step waits for its last sample."""
    here = filesystem_of(world.path)
    there = replace(here, identity=(*here.identity, ("other", "1")))
    fast = replace(MEASURED, storage=replace(FOUND, iops=99_999.0, name="a fast disk"))
    for filesystem, measured in ((here, MEASURED), (there, fast)):
        remember(world.cache, filesystem, measured)
    monkeypatch.setattr(probing, "filesystems", lambda paths: [(there, paths), (here, paths)])
    known = world.storage()
    assert known.storage == FOUND
    assert "also: a fast disk" in known.notes[-1]


def test_a_loader_says_what_was_measured_and_when(world, monkeypatch):
    """In the storage line of explain, and below it."""
    monkeypatch.setenv("HEADRACE_CACHE", world.cache)
    remember(world.cache, filesystem_of(world.path), replace(MEASURED, when=time.time()))
    text = hr.Loader(world.dataset, global_batch_size=8, memory="4MiB").explain()
    assert "1,234 operations/s" in text and "(measured 2023-11-14" in text
    assert "note: a doubt" in text


@pytest.mark.parametrize(
    ("environment", "argument", "measures"), [("1", None, 1), ("0", None, 0), ("1", False, 0), ("0", True, 1)]
)
def test_the_argument_counts_for_more_than_the_environment(world, monkeypatch, environment, argument, measures):
    """HEADRACE_PROBE=0 is a default; `probe=` is a wish."""
    monkeypatch.setenv("HEADRACE_PROBE", environment)
    monkeypatch.setenv("HEADRACE_CACHE", world.cache)
    setup = Setup(Arguments(world.dataset, global_batch_size=8, probe=argument))
    assert setup.storage.source.startswith("measured" if measures else "assumed")
    assert len(world.asked) == measures


def test_a_given_storage_is_not_measured(world, monkeypatch):
    """The user knows."""
    monkeypatch.setenv("HEADRACE_PROBE", "1")
    given = hr.Storage(1, 1)
    assert Setup(Arguments(world.dataset, global_batch_size=8, storage=given)).storage == given
    assert world.asked == []


def test_a_real_probe_of_real_files_gives_a_storage(tmp_path):
    """All of it together, in a fraction of its seconds."""
    path = tmp_path / "data.bin"
    with open(path, "wb") as file:
        file.write(os.urandom(16 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    told: list[str] = []
    found = probing.probe_files(
        [str(path)], size=16384, probing=Probing(True, None, told.append, seconds=SECONDS / 10, nbytes=16 << 20)
    )
    assert found.storage.iops > 0 and found.storage.bandwidth > 0 and found.storage.latency > 0
    assert found.storage.source == f"measured {found.date}"
    assert found.nbytes <= 16 << 20
    assert told
