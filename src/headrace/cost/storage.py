"""What may a read cost on the storage under these paths, before anybody has measured it?

1. find the mount of each path: a network or memory filesystem is named by its type;
2. follow a local filesystem to its block device: is it rotating, flash, or a volume in a cloud;
3. look the kind up in one table of assumed figures;
4. where nearly all of the files is in the page cache already, say so instead.

The figures are assumptions and are called that wherever they are printed. `headrace.Storage(...)` replaces them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.cost.mounts import Mount, disk_of, mount_of, read_mounts
from headrace.cost.page_cache import page_cache_share
from headrace.values.cost import Storage

WARM_SHARE = 0.95
"""From this share in the page cache on, reads are taken to come from memory: the few others hide behind them."""


@dataclass(frozen=True)
class Assumed:
    """Assumed figures of one kind of storage, and why these."""

    iops: float
    bandwidth: float
    latency: float
    name: str
    why: str
    cached: bool = False


ASSUMED = {
    "cache": Assumed(10_000_000, 8e9, 1e-6, "page cache", "a copy in memory; one core reaches about this", cached=True),
    "memory": Assumed(10_000_000, 8e9, 1e-6, "memory", "tmpfs and ramfs: as the page cache", cached=True),
    "compressed": Assumed(300_000, 2e9, 5e-6, "zram", "a page to decompress each time"),
    "nvme": Assumed(
        100_000, 2e9, 100e-6, "nvme", "a plain drive with 32 reads in flight; data sheets promise 3 to 10 times it"
    ),
    "flash": Assumed(40_000, 500e6, 150e-6, "ssd", "the SATA link: 500 MB/s, a queue of 32"),
    "disk": Assumed(150, 150e6, 8e-3, "hard disk", "a turn at 7,200 a minute and a seek; a queue helps little"),
    "volume": Assumed(
        3_000, 150e6, 1e-3, "cloud or virtual disk", "what general-purpose volumes grant without extra pay"
    ),
    "nfs": Assumed(3_000, 500e6, 1e-3, "network filesystem", "a round trip each, some in flight, over 10 Gbit/s"),
    "parallel": Assumed(
        3_000, 1.5e9, 1e-3, "parallel filesystem", "large reads stripe well; a small one is a round trip and a lock"
    ),
    "fuse": Assumed(200, 200e6, 20e-3, "user-space filesystem", "often an object store: one request each"),
    "host": Assumed(5_000, 1e9, 300e-6, "shared by the host", "9p and virtiofs: a message to the host for each read"),
    "unknown": Assumed(
        3_000, 150e6, 1e-3, "unknown device", "taken for a slow volume: planning for slow storage costs little"
    ),
}

_FILESYSTEMS = {
    "memory": ("tmpfs", "ramfs", "hugetlbfs"),
    "nfs": ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "glusterfs"),
    "parallel": ("lustre", "gpfs", "beegfs", "ceph", "wekafs", "panfs", "orangefs", "daos"),
    "fuse": ("fuse",),
    "host": ("9p", "virtiofs", "vboxsf"),
}

# Volumes that call themselves nvme or sd, by the start of the model that the device reports.
_VOLUME_MODELS = (
    "Amazon Elastic Block Store",
    "nvme_card-pd",
    "PersistentDisk",
    "Virtual Disk",
    "MSFT NVMe",
    "QEMU",
    "VMware",
)


def assume_storage(
    paths: Iterable[str | os.PathLike[str]],
    *,
    root: Path = Path("/"),
    cached: Callable[[Sequence[str]], float | None] | None = page_cache_share,
) -> Storage:
    """Figures for the storage under these files, from what the kernel says about it. The slowest kind counts.

    `cached` tells how much of the files is in the page cache; None leaves that out. `root` holds proc/ and sys/.
    """
    files = [os.fspath(path) for path in paths]
    mounts = read_mounts(root)
    # 100,000 files lie in few folders: each folder is followed once.
    folders = {os.path.dirname(os.path.abspath(file)) for file in files}
    kinds = {_kind(mount_of(os.path.realpath(folder), mounts), root) for folder in folders} or {
        ("unknown", "unknown device")
    }
    kind, name = max(kinds, key=lambda item: ASSUMED[item[0]].latency)
    figures, source = ASSUMED[kind], "assumed"
    share = cached(files) if cached is not None and kind != "memory" else None
    if share is not None and share >= WARM_SHARE:
        figures, source = ASSUMED["cache"], "assumed (page cache)"
        name = f"{name}, {share:.0%} of it in the page cache"
    return Storage(figures.iops, figures.bandwidth, figures.latency, name=name, source=source, cached=figures.cached)


def _kind(mount: Mount | None, root: Path) -> tuple[str, str]:
    """The row of the table for a mount, and a few words that name it."""
    if mount is None:
        return "unknown", ASSUMED["unknown"].name
    for kind, types in _FILESYSTEMS.items():
        if mount.fstype in types or (kind == "fuse" and mount.fstype.startswith("fuse.")):
            return kind, f"{mount.fstype} ({ASSUMED[kind].name})"
    kind, device = _device(mount, root)
    return kind, f"{mount.fstype} on {ASSUMED[kind].name}{f' {device}' if device else ''}"


def _device(mount: Mount, root: Path) -> tuple[str, str]:
    """What kind of block device a mount lies on, and its name."""
    folder = disk_of(mount, root)
    if folder is None:
        return "unknown", ""
    device = folder.name
    model = _line(folder / "device/model")
    rotates = _line(folder / "queue/rotational") == "1"
    if device.startswith(("zram", "ram")):
        return "compressed", device
    # virtio and Xen disks say 'rotational' whatever they are: their name tells more.
    if device.startswith(("vd", "xvd", "nbd", "rbd")) or model.startswith(_VOLUME_MODELS):
        return "volume", device
    if device.startswith("nvme"):
        return "nvme", device
    return ("disk" if rotates else "flash"), device


def on_disks(paths: Iterable[str | os.PathLike[str]], *, root: Path = Path("/")) -> bool:
    """Whether all of these files lie on disks of this machine, where reads can go around the page cache."""
    mounts = read_mounts(root)
    folders = {os.path.dirname(os.path.abspath(os.fspath(path))) for path in paths}
    kinds = {_kind(mount_of(os.path.realpath(folder), mounts), root)[0] for folder in folders}
    return bool(kinds) and kinds <= {"nvme", "flash", "disk", "volume"}


def read_ahead(path: str | os.PathLike[str], *, root: Path = Path("/")) -> int | None:
    """Bytes that the kernel reads ahead on the device of a path; None where it does not say."""
    mount = mount_of(os.path.realpath(path), read_mounts(root))
    if mount is None:
        return None
    text = _line(root / "sys/class/bdi" / mount.device / "read_ahead_kb")
    return int(text) * 1024 if text.isdigit() else None


def _line(path: Path) -> str:
    """The text of a one-line file, or nothing where the kernel has no such file or does not show it."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
