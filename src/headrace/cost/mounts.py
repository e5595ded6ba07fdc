"""Which filesystem and which device is a path on? Read from /proc/self/mountinfo below a root."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo: device number, the mounted part, where it is mounted, filesystem, source and options."""

    device: str
    root: str
    point: str
    fstype: str
    source: str
    options: tuple[str, ...]


def read_mounts(root: Path) -> tuple[Mount, ...]:
    """The mounts that this process sees, in the order in which they were made; none where the kernel does not say."""
    try:
        text = (root / "proc/self/mountinfo").read_text()
    except OSError:
        return ()
    return tuple(_parse(line) for line in text.splitlines() if " - " in line)


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that an absolute path without links lies on: the longest mount point above it, the latest of equals."""
    best: Mount | None = None
    for mount in mounts:
        above = mount.point if mount.point.endswith("/") else mount.point + "/"
        if (path + "/").startswith(above) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def disk_of(mount: Mount, root: Path) -> Path | None:
    """The folder in sys/ of the disk that a mount lies on; None where there is none, or the kernel does not show it.

    A partition has no queue of its own; the disk above it has. Of a mapped device the first one below stands for all.
    """
    link = root / "sys/dev/block" / mount.device
    folder = link.resolve() if link.exists() else root / "sys/class/block" / os.path.basename(mount.source)
    if not folder.exists():
        return None
    folder = _whole(folder)
    while below := sorted((folder / "slaves").glob("*")):
        folder = _whole(below[0].resolve())
    return folder


def _whole(folder: Path) -> Path:
    return folder.parent if (folder / "partition").exists() else folder


def _parse(line: str) -> Mount:
    left, right = line.split(" - ", 1)
    fields, tail = left.split(), right.split()
    options = tail[2].split(",") if len(tail) > 2 else []
    return Mount(fields[2], _unescape(fields[3]), _unescape(fields[4]), tail[0], _unescape(tail[1]), tuple(options))


def _unescape(text: str) -> str:
    """The kernel writes blanks, tabs, line ends and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
