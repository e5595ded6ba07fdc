"""Which disk do given files lie on, as the block-device limits name it?

Limits are taken by whole disks, not partitions. A filesystem that has a device number of its own (btrfs) is followed
to the one disk under it, an overlay to the layer that holds the file; what has no disk (tmpfs, NFS) is refused.
Loop, device-mapper and md devices are limited where they are: the read of the command passes through them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.conditions import Refused

SYS = Path("/sys/dev/block")
MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo: the device number, the root within the filesystem, where, what, and with which options."""

    device: str
    root: str
    point: str
    kind: str
    source: str
    options: tuple[str, ...]


def parse_mounts(text: str) -> list[Mount]:
    """The mounts that `/proc/self/mountinfo` lists."""
    mounts = []
    for line in text.splitlines():
        front, _, back = line.partition(" - ")
        words, (kind, source, options) = front.split(), back.split(" ", 2)
        root, point, source = (re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), w) for w in (*words[3:5], source))
        mounts.append(Mount(words[2], root, point, kind, source, tuple(options.strip().split(","))))
    return mounts


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that holds `path`: the deepest, and of two at one place the later."""
    best = None
    for mount in mounts:
        inside = mount.point == "/" or path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def whole_disk(number: str, *, sys: Path = SYS) -> str | None:
    """The number of the disk of a partition, or of the device itself; None where no block device has this number."""
    node = sys / number
    if not node.exists():
        return None
    node = node.resolve()
    return (node.parent / "dev").read_text().strip() if (node / "partition").exists() else number


def device_of(path: str, *, mounts: Sequence[Mount] | None = None, sys: Path = SYS, depth: int = 0) -> str:
    """`major:minor` of the disk that holds `path`."""
    path = os.path.realpath(path)
    status = os.stat(path)
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    found = whole_disk(f"{os.major(number)}:{os.minor(number)}", sys=sys)
    if found:
        return found
    mount = mount_of(path, parse_mounts(MOUNTINFO.read_text()) if mounts is None else mounts)
    kind = mount.kind if mount else "an unknown filesystem"
    if mount and kind == "overlay" and depth < 4:
        below = _layer_of(path, mount)
        if below:
            return device_of(below, mounts=mounts, sys=sys, depth=depth + 1)
        raise Refused(f"{path} lies on an overlay whose layers cannot be seen from here, so its disk is unknown: "
                      "put the data on a volume of the disk itself")  # fmt: skip
    if mount and os.path.exists(mount.source) and stat.S_ISBLK(os.stat(mount.source).st_mode):
        return device_of(mount.source, mounts=mounts, sys=sys, depth=depth + 1)
    raise Refused(f"{path} lies on {kind}, which has no block device to limit: put the data on a disk, or take --shim")


def _layer_of(path: str, mount: Mount) -> str | None:
    """Where an overlay's file really is: the upper layer before the lower ones."""
    layers: list[str] = []
    for key in ("upperdir", "lowerdir"):
        for option in mount.options:
            if option.startswith(key + "="):
                layers += option.removeprefix(key + "=").split(":")
    inside = os.path.relpath(path, mount.point)
    return next((p for p in (os.path.join(layer, inside) for layer in layers if layer) if os.path.isfile(p)), None)


def device_of_all(paths: Sequence[str]) -> str:
    """The one disk of all `paths`; two are refused, since a limit holds for each disk by itself."""
    by_folder = {os.path.dirname(path): path for path in paths}
    devices = {device_of(path): path for path in by_folder.values()}
    if len(devices) > 1:
        named = ", ".join(f"{path} on {device}" for device, path in sorted(devices.items()))
        raise Refused(f"the data lie on {len(devices)} disks ({named}), and limits hold for each: take one")
    if not devices:
        raise Refused("there are no data to find the disk of: --data holds no bytes")
    return next(iter(devices))


def backing_file(device: str, *, sys: Path = SYS) -> str | None:
    """The file behind a loop device, whose pages cache the data a second time."""
    try:
        name = (sys / device / "loop" / "backing_file").read_text().strip()
    except OSError:
        return None
    return name if os.path.isfile(name) else None
