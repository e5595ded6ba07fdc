"""Which cgroup folders apply to this process? Read from /proc/self/cgroup below a root, from its own up to the top."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.cost.mounts import Mount, read_mounts


def cgroup_folders(root: Path, controller: str) -> Iterator[tuple[int, Path, Path]]:
    """(version, folder, top) of each cgroup above this process that may limit what `controller` names."""
    mounts = read_mounts(root)
    try:
        text = (root / "proc/self/cgroup").read_text()
    except OSError:
        return
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version, mount = 2, next((m for m in mounts if m.fstype == "cgroup2"), None)
        elif controller in controllers.split(","):
            version, mount = 1, next((m for m in mounts if m.fstype == "cgroup" and controller in m.options), None)
        else:
            continue
        if mount is not None:
            top = root / mount.point.lstrip("/")
            for folder in _upwards(top, mount, path):
                yield version, folder, top


def _upwards(top: Path, mount: Mount, path: str) -> Iterator[Path]:
    # Inside a container the mount shows a part of the hierarchy, and the path may still be that of the whole.
    inside = path.removeprefix(mount.root) if mount.root != "/" else path
    # A process that was moved out of its namespace's part has a path with "..": only the top is known then.
    folder = top if ".." in inside.split("/") else top / inside.strip("/")
    while True:
        yield folder
        if folder == top or top not in folder.parents:
            return
        folder = folder.parent
