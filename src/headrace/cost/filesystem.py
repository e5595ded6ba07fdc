"""Which filesystem is this, and would it still answer as it did when it was measured?

A *key* names the filesystem: device number, type, source, the disk below it, and the limits that cgroups put on this
process's reads from that disk (a container with 1,500 operations a second has another storage than its host). The
*conditions* are what may change below a key and makes an old measurement stale: the kernel and the mount's options.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.cost.cgroups import cgroup_folders
from headrace.cost.mounts import disk_of, mount_of, read_mounts

_IDENTITY = ("size", "serial", "wwid", "device/model", "device/serial", "device/wwid", "dm/uuid")
_LIMITS = {1: ("blkio.throttle.read_iops_device", "blkio.throttle.read_bps_device"), 2: ("io.max",)}
"""Files of a cgroup of either version that limit reads, one line for a device."""


@dataclass(frozen=True)
class Filesystem:
    """A filesystem as a measurement is kept for it. `identity` is what the key is made of."""

    identity: tuple[tuple[str, str], ...]
    conditions: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """Names the filesystem among those that were measured."""
        return hashlib.blake2b(json.dumps(self.identity).encode(), digest_size=12).hexdigest()

    def changed(self, conditions: dict[str, str]) -> str:
        """What is no longer as it was, in words; empty where all is."""
        now = dict(self.conditions)
        return ", ".join(
            f"{name} was {conditions.get(name, 'not known')!r} and is {now[name]!r}"
            for name in now
            if conditions.get(name) != now[name]
        )


def filesystem_of(path: str | os.PathLike[str], *, root: Path = Path("/"), kernel: str | None = None) -> Filesystem:
    """The filesystem of an existing path. `root` holds proc/ and sys/; `kernel` is the running one unless given."""
    mount = mount_of(os.path.realpath(path), read_mounts(root))
    number = os.stat(path).st_dev
    identity = {"device": f"{os.major(number)}:{os.minor(number)}"}
    conditions = {"kernel": os.uname().release if kernel is None else kernel}
    if mount is not None:
        identity |= {"type": mount.fstype, "source": mount.source}
        conditions["options"] = ",".join(sorted(mount.options))
        disk = disk_of(mount, root)
        if disk is not None:
            identity["disk"] = disk.name
            identity |= {name: text for name in _IDENTITY if (text := _line(disk / name))}
            limits = sorted(set(_limits(root, _line(disk / "dev"))))
            identity |= {"limits": "; ".join(limits)} if limits else {}
    return Filesystem(tuple(sorted(identity.items())), tuple(sorted(conditions.items())))


def _limits(root: Path, device: str) -> Iterator[str]:
    """What the cgroups of this process allow it to read from a device (major:minor)."""
    for version, folder, _ in cgroup_folders(root, "blkio"):
        for file in _LIMITS[version]:
            for line in _line(folder / file).splitlines():
                if line.split()[:1] == [device]:
                    yield f"{file} {line}"


def _line(path: Path) -> str:
    """The text of a small file, or nothing where there is none."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
