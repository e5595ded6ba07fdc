"""Storage is assumed from what the kernel says about it, and called assumed."""

import math
import re

import pytest

from headrace.cost import assume_storage, read_ahead
from headrace.cost.storage import ASSUMED
from headrace.errors import InputError
from headrace.values.cost import Storage


class Machine:
    """A folder with the proc and sys files of an invented machine."""

    def __init__(self, root):
        self.root = root
        self.lines = []

    def mount(self, fstype, point="/", source="/dev/x", device="0:99"):
        self.lines.append(f"27 1 {device} / {point} rw,relatime - {fstype} {source} rw\n")
        file = self.root / "proc/self/mountinfo"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(self.lines))

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def disk(self, name, device, *, rotational=0, model="", partition=""):
        folder = f"sys/devices/pci/{name}"
        self.write(f"{folder}/queue/rotational", f"{rotational}\n")
        self.write(f"{folder}/device/model", f"{model}\n")
        target = self.root / folder
        if partition:
            self.write(f"{folder}/{partition}/partition", "1\n")
            target = target / partition
        link = self.root / "sys/dev/block" / device
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        return target

    def storage(self, *paths, cached=None):
        return assume_storage(paths or ["/data/train.h5"], root=self.root, cached=cached)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("name", "rotational", "model", "kind"),
    [
        ("nvme0n1", 0, "Samsung SSD 990 PRO", "nvme"),
        ("nvme0n1", 0, "Amazon Elastic Block Store", "volume"),
        ("sda", 0, "CT1000MX500", "flash"),
        ("sda", 1, "WDC WD80EFAX", "disk"),
        ("sda", 1, "Virtual Disk", "volume"),
        ("vda", 1, "", "volume"),
        ("zram0", 0, "", "compressed"),
    ],
)
def test_a_local_filesystem_costs_what_its_device_costs(machine, name, rotational, model, kind):
    """Names of volumes count for more than what the driver says about rotation."""
    machine.mount("ext4", device="8:1")
    machine.disk(name, "8:1", rotational=rotational, model=model)
    storage = machine.storage()
    assert (storage.iops, storage.bandwidth) == (ASSUMED[kind].iops, ASSUMED[kind].bandwidth)
    assert storage.source == "assumed"
    assert storage.name.startswith("ext4 on ") and storage.name.endswith(name)


@pytest.mark.parametrize(
    ("fstype", "kind"),
    [("nfs4", "nfs"), ("lustre", "parallel"), ("ceph", "parallel"), ("gpfs", "parallel"), ("fuse.sshfs", "fuse"),
     ("fuseblk", "unknown"), ("9p", "host"), ("tmpfs", "memory"), ("overlay", "unknown")],
)  # fmt: skip
def test_other_filesystems_are_known_by_their_type(machine, fstype, kind):
    """fuseblk and overlay lie on a device that cannot be followed: they count as unknown, which is slow."""
    machine.mount(fstype, "/data")
    assert machine.storage().iops == ASSUMED[kind].iops
    assert fstype in machine.storage().name


def test_the_queue_of_a_partition_is_that_of_its_disk(machine):
    """A partition's folder has no queue."""
    machine.mount("xfs", device="259:2")
    machine.disk("nvme1n1", "259:2", partition="nvme1n1p2")
    assert machine.storage().name == "xfs on nvme nvme1n1"


def test_a_mapped_device_costs_what_lies_below_it(machine):
    """Logical volumes and encryption are followed down to the disk."""
    machine.mount("ext4", device="253:0")
    disk = machine.disk("sdb", "8:16", rotational=1)
    mapped = machine.disk("dm-0", "253:0")
    (mapped / "slaves").mkdir()
    (mapped / "slaves/sdb").symlink_to(disk)
    assert machine.storage().name == "ext4 on hard disk sdb"


def test_the_longest_mount_point_above_a_path_is_its_own(machine):
    """/database does not lie on /data."""
    machine.mount("tmpfs", "/")
    machine.mount("nfs", "/data")
    assert machine.storage("/data/x").iops == ASSUMED["nfs"].iops
    assert machine.storage("/database/x").iops == ASSUMED["memory"].iops


def test_of_two_mounts_at_one_place_the_later_one_is_seen(machine):
    """A mount hides what was there before."""
    machine.mount("nfs", "/data")
    machine.mount("tmpfs", "/data")
    assert machine.storage().iops == ASSUMED["memory"].iops


def test_a_mount_point_with_a_blank_is_read_as_the_kernel_writes_it(machine):
    """As octal numbers."""
    machine.mount("nfs", "/my\\040data")
    assert machine.storage("/my data/x").iops == ASSUMED["nfs"].iops


def test_the_slowest_of_several_storages_counts(machine):
    """A step waits for its last sample."""
    machine.mount("tmpfs", "/")
    machine.mount("fuse", "/data")
    assert machine.storage("/x", "/data/x", "/y").iops == ASSUMED["fuse"].iops


@pytest.mark.parametrize(("share", "warm"), [(None, False), (0.5, False), (0.949, False), (0.95, True), (1.0, True)])
def test_files_in_the_page_cache_cost_a_copy(machine, share, warm):
    """From 95 % on, and it is said."""
    machine.mount("nfs", "/")
    storage = machine.storage(cached=lambda paths: share)
    assert storage.iops == ASSUMED["cache" if warm else "nfs"].iops
    assert storage.source == ("assumed (page cache)" if warm else "assumed")


def test_a_machine_that_shows_nothing_counts_as_slow(machine):
    """Planning for slow storage costs little where it is fast; the reverse costs much."""
    assert machine.storage().name == "unknown device"


def test_read_ahead_is_that_of_the_mount(machine):
    """In bytes; None where the kernel does not say."""
    machine.mount("ext4", device="8:1")
    assert read_ahead("/data", root=machine.root) is None
    machine.write("sys/class/bdi/8:1/read_ahead_kb", "8192\n")
    assert read_ahead("/data", root=machine.root) == 8 << 20


def test_every_assumption_says_why():
    """A figure without a reason is a guess."""
    assert all(row.why and row.name for row in ASSUMED.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [("iops", 0), ("iops", math.inf), ("bandwidth", -1), ("bandwidth", math.nan), ("latency", -1), ("latency", "1ms")],
)
def test_a_storage_that_cannot_be_is_refused_by_name(name, value):
    """Infinite rates and text would fail somewhere in the planner."""
    with pytest.raises(InputError, match=re.escape(f"Storage({name}={value!r}): expected")):
        Storage(**({"iops": 100, "bandwidth": 1e8} | {name: value}))
