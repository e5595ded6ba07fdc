"""A measurement is remembered for its filesystem, and is never silently stale."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.modelled import ModelledDevice
from headrace.cost.filesystem import Filesystem, filesystem_of
from headrace.cost.probe import measure
from headrace.cost.remember import DAY, DAYS, FILE, forget, recall, remember

WHEN = 1_700_000_000.0
MEASURED = measure(ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4), path="/data", name="a model", when=WHEN)
HERE = Filesystem((("device", "8:1"), ("type", "ext4")), (("kernel", "6.1"), ("options", "rw")))
THERE = Filesystem((("device", "8:2"), ("type", "ext4")), HERE.conditions)


@pytest.fixture
def cache(tmp_path):
    return str(tmp_path / "deep" / "cache")


def test_what_was_measured_is_there_again(cache):
    """For its filesystem, and for no other."""
    assert recall(cache, HERE, now=WHEN) is None
    assert remember(cache, HERE, MEASURED) == ""
    kept = recall(cache, HERE, now=WHEN + DAY)
    assert (kept.measured, kept.stale) == (MEASURED, "")
    assert recall(cache, THERE, now=WHEN) is None
    other = replace(MEASURED, path="/there")
    remember(cache, THERE, other)
    assert recall(cache, THERE, now=WHEN).measured == other
    assert recall(cache, HERE, now=WHEN).measured == MEASURED
    assert os.listdir(cache) == [FILE], "no temporary file stays"


@pytest.mark.parametrize(
    ("after", "now", "stale"),
    [
        (DAYS * DAY, HERE, ""),
        (DAYS * DAY + DAY, HERE, "31 days old"),
        (-2 * DAY, HERE, "dated 2023-11-14, which is yet to come"),
        (0, replace(HERE, conditions=(("kernel", "6.2"), ("options", "rw"))), "kernel was '6.1' and is '6.2'"),
        (0, replace(HERE, conditions=(("kernel", "6.1"), ("options", "rw,sync"))), "options was 'rw' and is 'rw,sync'"),
    ],
)
def test_what_is_no_longer_true_says_so(cache, after, now, stale):
    """Age, a date to come, another kernel, other mount options."""
    remember(cache, HERE, MEASURED)
    assert recall(cache, now, now=WHEN + after).stale == stale


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format": 2, "filesystems": {}}',
        b'{"format": 1, "filesystems": 3}',
        b"[" * 99999,
    ],
)
def test_a_damaged_file_counts_as_empty_and_is_written_anew(cache, damage):
    """Nothing that a program can lose stops a training run."""
    os.makedirs(cache)
    Path(cache, FILE).write_bytes(damage)
    assert recall(cache, HERE, now=WHEN) is None
    assert remember(cache, HERE, MEASURED) == ""
    assert recall(cache, HERE, now=WHEN).measured == MEASURED


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLACES = st.sampled_from(["figures", "storage", "when", "path", "seconds", "nbytes", "notes"])


@given(place=PLACES, value=JSON, cut=st.booleans())
def test_an_entry_that_is_no_measurement_is_none(tmp_path_factory, place, value, cut):
    """Whatever stands where a figure should be: a measurement comes out whole, or not at all."""
    cache = str(tmp_path_factory.mktemp("cache"))
    remember(cache, HERE, MEASURED)
    data = json.loads(Path(cache, FILE).read_text())
    entry = data["filesystems"][HERE.key]
    if cut:
        del entry["measured"][place]
    else:
        entry["measured"][place] = value
    Path(cache, FILE).write_text(json.dumps(data))
    kept = recall(cache, HERE, now=WHEN)
    assert kept is None or kept.measured.storage == MEASURED.storage


def test_a_place_that_cannot_be_written_costs_the_memory_alone():
    """And is named."""
    assert "/dev/null/x cannot be written" in remember("/dev/null/x", HERE, MEASURED)
    assert "HEADRACE_CACHE" in remember(None, HERE, MEASURED)
    assert recall("/dev/null/x", HERE, now=WHEN) is None is recall(None, HERE, now=WHEN)


def test_what_is_forgotten_is_gone_and_the_rest_stays(cache):
    """Twice is once."""
    remember(cache, HERE, MEASURED)
    remember(cache, THERE, MEASURED)
    assert forget(cache, HERE) and not forget(cache, HERE)
    assert recall(cache, HERE, now=WHEN) is None and recall(cache, THERE, now=WHEN) is not None


class Machine:
    """A folder with the proc and sys files of an invented machine."""

    def __init__(self, root):
        self.root = root
        self.write(
            "proc/self/mountinfo", "27 1 8:1 / / rw - ext4 /dev/sda1 rw,noatime\n30 1 0:9 / /cg rw - cgroup x blkio"
        )
        self.write("proc/self/cgroup", "7:blkio:/job/one\n")
        self.write("sys/devices/sda/dev", "8:0\n")
        self.write("sys/devices/sda/size", "1000\n")
        self.write("sys/devices/sda/device/model", "FAST\n")
        self.write("sys/devices/sda/sda1/partition", "1\n")
        link = root / "sys/dev/block/8:1"
        link.parent.mkdir(parents=True)
        link.symlink_to(root / "sys/devices/sda/sda1")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def filesystem(self, **options):
        return filesystem_of("/", root=self.root, kernel=options.get("kernel", "6.1"))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_filesystem_is_its_mount_and_its_disk(machine):
    """And what may change below that is kept beside it."""
    found = machine.filesystem()
    identity = dict(found.identity)
    assert identity["type"] == "ext4" and identity["source"] == "/dev/sda1"
    assert identity["disk"] == "sda" and identity["device/model"] == "FAST" and identity["size"] == "1000"
    assert dict(found.conditions) == {"kernel": "6.1", "options": "noatime,rw"}
    assert found.key == machine.filesystem(kernel="6.2").key
    assert machine.filesystem(kernel="6.2").changed(dict(found.conditions)) == "kernel was '6.1' and is '6.2'"


def test_another_disk_is_another_filesystem(machine):
    """Even below the same mount."""
    before = machine.filesystem().key
    machine.write("sys/devices/sda/device/model", "SLOW\n")
    assert machine.filesystem().key != before


def test_a_limit_of_a_cgroup_makes_another_storage(machine):
    """A measurement in a throttled container says nothing about the host, nor the other way round."""
    free = machine.filesystem()
    machine.write("cg/job/blkio.throttle.read_iops_device", "8:16 5\n8:0 1500\n")
    throttled = machine.filesystem()
    assert throttled.key != free.key
    assert dict(throttled.identity)["limits"] == "blkio.throttle.read_iops_device 8:0 1500"
    machine.write("cg/job/one/blkio.throttle.read_iops_device", "8:16 5\n")
    assert machine.filesystem() == throttled, "the limit of another disk is none of ours"


def test_a_machine_that_shows_nothing_has_a_filesystem_still(tmp_path):
    """Known by its device number."""
    found = filesystem_of("/", root=tmp_path, kernel="6.1")
    assert [name for name, _ in found.identity] == ["device"]
