"""How are memory and the disk of a group of processes limited, and how is the group ended?

Memory (`memory`) and block devices (`blkio`, in v2 `io`) may be mounted as v1 or v2, each by itself; whoever calls does
not notice. Groups are made below the group of this process, or as near to it as the kernel allows: v2 forbids limits
below a group that holds processes. Names carry the process and its start, so that rigs do not meet, and what a killed
rig left behind is found and removed by the next.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.conditions import Refused
from benchmarks.rig.device import MOUNTINFO, parse_mounts

PREFIX = "headrace-rig"
NAME_IN_V1 = {"memory": "memory", "io": "blkio"}
UNLIMITED = 1 << 60
DEADLINE, PAUSE = 10.0, 0.01
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_numbers = itertools.count()


@dataclass(frozen=True)
class Hierarchy:
    """Where a controller is mounted: its version, the top, and the group that this process is in."""

    controller: str
    version: int
    top: Path
    own: Path

    def places(self) -> list[Path]:
        """Groups to make ours in, nearest first."""
        above = [self.own, *self.own.parents]
        return [place for place in above if place == self.top or self.top in place.parents]


def locate(controller: str, *, mountinfo: str, own: str) -> Hierarchy:
    """Where `controller` (memory, io) is mounted, from the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    paths = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        paths.update(dict.fromkeys(names.split(",") if names else ["v2"], path))
    name = NAME_IN_V1[controller]
    mounts = parse_mounts(mountinfo)
    for mount in mounts:
        if mount.kind == "cgroup" and name in mount.options:
            return Hierarchy(controller, 1, Path(mount.point), _below(mount.point, mount.root, paths.get(name, "/")))
    for mount in mounts:
        top = Path(mount.point)
        if mount.kind == "cgroup2" and controller in _words(top / "cgroup.controllers"):
            return Hierarchy(controller, 2, top, _below(mount.point, mount.root, paths.get("v2", "/")))
    raise Refused(f"no cgroup hierarchy with the {controller} controller ({name} in v1) is mounted here: mount one, or "
                  "take --shim")  # fmt: skip


def locate_here(controller: str) -> Hierarchy:
    """Where `controller` is mounted on this machine."""
    return locate(controller, mountinfo=MOUNTINFO.read_text(), own=Path("/proc/self/cgroup").read_text())


def _below(point: str, root: str, path: str) -> Path:
    """The folder of group `path` under a mount that shows the hierarchy from `root` on."""
    relative = os.path.relpath(path, root)
    return Path(point) if relative.startswith("..") else Path(os.path.normpath(os.path.join(point, relative)))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


@dataclass
class Group:
    """One cgroup of one hierarchy, with one controller's limits. `remove` ends what is in it."""

    folder: Path
    version: int

    @property
    def procs(self) -> Path:
        """The file that takes processes in."""
        return self.folder / "cgroup.procs"

    def limit_memory(self, nbytes: int) -> None:
        """All memory, page cache included; swap is no way out."""
        if self.version == 1:
            self._write("memory.limit_in_bytes", nbytes)
            self._write("memory.memsw.limit_in_bytes", nbytes, optional=True)
        else:
            self._write("memory.max", nbytes)
            self._write("memory.swap.max", 0, optional=True)

    def limit_reads(self, device: str, *, iops: int | None = None, bandwidth: int | None = None) -> None:
        """Reads from one disk."""
        if self.version == 1:
            # v1 counts reads only on a disk with a limit: a limit that nobody reaches makes it count.
            self._write("blkio.throttle.read_bps_device", f"{device} {bandwidth or UNLIMITED}")
            if iops:
                self._write("blkio.throttle.read_iops_device", f"{device} {iops}")
        elif iops or bandwidth:
            self._write("io.max", f"{device} rbps={bandwidth or 'max'} riops={iops or 'max'}")

    def lift(self, device: str) -> None:
        """No limit of reads any more: what is queued ends at once, so that who waits for it can be killed."""
        if self.version == 1:
            for name in ("blkio.throttle.read_bps_device", "blkio.throttle.read_iops_device"):
                self._write(name, f"{device} 0")
        else:
            self._write("io.max", f"{device} rbps=max riops=max")

    def peak_memory(self) -> int | None:
        """The most that the group held at once."""
        words = _words(self.folder / ("memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"))
        return int(words[0]) if words else None

    def oom_kills(self) -> int | None:
        """How many processes the kernel killed because the limit left no room."""
        words = _words(self.folder / ("memory.oom_control" if self.version == 1 else "memory.events"))
        return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else None

    def reads(self, device: str) -> tuple[int, int] | None:
        """(bytes, operations) read from a disk."""
        if self.version == 2:
            words = _words(self.folder / "io.stat")
            if not (self.folder / "io.stat").exists():
                return None
            start = words.index(device) + 1 if device in words else len(words)
            fields = dict(w.split("=") for w in itertools.takewhile(lambda w: "=" in w, words[start:]))
            return int(fields.get("rbytes", 0)), int(fields.get("rios", 0))
        counts = []
        for name in ("blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"):
            if not (self.folder / name).exists():
                return None
            lines = [line.split() for line in (self.folder / name).read_text().splitlines()]
            counts.append(sum(int(line[2]) for line in lines if line[:2] == [device, "Read"]))
        return counts[0], counts[1]

    def _write(self, name: str, value: object, *, optional: bool = False) -> None:
        path = self.folder / name
        if optional and not path.exists():
            return
        try:
            path.write_text(f"{value}\n")
        except OSError as error:
            raise Refused(f"{path} does not take {value!r} ({error.strerror}): the rig needs root, or a group that was "
                          "delegated to you, to set limits; or take --shim") from error  # fmt: skip

    def processes(self) -> list[int]:
        """Who is in the group, or in groups that the command made in it."""
        return [int(word) for folder, _, _ in os.walk(self.folder) for word in _words(Path(folder, self.procs.name))]

    def kill(self) -> None:
        """End every process of the group: all of them were started by its command."""
        end = time.monotonic() + DEADLINE
        while (pids := self.processes()) and time.monotonic() < end:
            for pid in pids:
                self._kill(pid, end)
            time.sleep(PAUSE)

    def _kill(self, pid: int, end: float) -> None:
        """Through a handle taken while the process was in the group, so that no later owner of the number is hit."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            if pid in self.processes():
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [], max(min(0.1, end - time.monotonic()), 0))
        except ProcessLookupError:
            return
        finally:
            os.close(handle)

    def remove(self) -> None:
        """End what is in the group, then the group. A process may leave it a moment after it ended."""
        end = time.monotonic() + DEADLINE
        while self.folder.exists():
            self.kill()
            try:
                for folder, _, _ in os.walk(self.folder, topdown=False):
                    os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > end:
                    raise
                time.sleep(PAUSE)


def make_group(hierarchies: Sequence[Hierarchy], purpose: str) -> Group:
    """A new group with the controllers of one mount, as near to our own as the kernel and our rights allow."""
    name = f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}-{next(_numbers)}-{purpose}"
    controllers = [hierarchy.controller for hierarchy in hierarchies]
    version = hierarchies[0].version
    reasons = []
    for place in hierarchies[0].places():
        try:
            remove_stale(place)
            if version == 2:
                for controller in controllers:
                    _allow(place, controller)
            (place / name).mkdir()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror}")
            continue
        return Group(place / name, version)
    raise Refused(f"no cgroup for {' and '.join(controllers)} can be made here ({'; '.join(reasons)}): run as root, "
                  "or in a group of your own (systemd-run --user --scope -p Delegate=yes), or take --shim")  # fmt: skip


def _allow(place: Path, controller: str) -> None:
    """Let groups below `place` have the controller. The kernel refuses while processes are in `place` itself."""
    control = place / "cgroup.subtree_control"
    if controller in _words(control):
        return
    if controller not in _words(place / "cgroup.controllers"):
        raise OSError(errno.ENODEV, f"the {controller} controller is not given to this group")
    try:
        control.write_text(f"+{controller}\n")
    except OSError as error:
        if error.errno != errno.EBUSY or _words(place / "cgroup.procs") != [str(os.getpid())]:
            raise
        # A group that holds this process and no other: step aside into a leaf. It is left there, as we are in it.
        leaf = place / f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}-self"
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(f"{os.getpid()}\n")
        control.write_text(f"+{controller}\n")


def _started(pid: int) -> int:
    """When a process began, in ticks since the boot; 0 if there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def remove_stale(place: Path) -> None:
    """Remove the empty groups of rigs that are no more. Groups that still hold processes are left alone."""
    for folder in place.glob(f"{PREFIX}-*"):
        named = re.match(r"(\d+)-(\d+)-", folder.name.removeprefix(PREFIX + "-"))
        if named is None or _started(int(named[1])) == int(named[2]):
            continue
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that end the rig wait until the block is done: it cleans up, and has a deadline."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def groups_for(
    purpose: str,
    *,
    device: str | None,
    memory: int | None = None,
    iops: int | None = None,
    bandwidth: int | None = None,
) -> Iterator[dict[str, Group]]:
    """Groups with these limits, by controller, until the end of the block.

    A controller without a limit only counts: where it cannot be had, it is left out.
    """
    needed = {"memory": memory is not None, "io": bool(iops or bandwidth)}
    made: dict[str, Group] = {}
    try:
        wanted = [name for name in needed if name == "memory" or device is not None]
        with uninterrupted():
            for together in _by_mount(wanted, needed):
                made.update(_make_some(together, needed, purpose))
        if memory is not None:
            made["memory"].limit_memory(memory)
        if device is not None and "io" in made:
            made["io"].limit_reads(device, iops=iops, bandwidth=bandwidth)
        yield made
    finally:
        # Everything is tried before the first failure is told.
        with uninterrupted(), contextlib.ExitStack() as stack:
            for group in {group.folder: group for group in made.values()}.values():
                stack.callback(group.remove)
            if device is not None and "io" in made and (iops or bandwidth):
                stack.callback(made["io"].lift, device)


def _by_mount(controllers: Sequence[str], needed: Mapping[str, bool]) -> list[list[Hierarchy]]:
    """Controllers that share a mount share a group: a process is in one group of each mount."""
    mounts: dict[Path, list[Hierarchy]] = {}
    for controller in controllers:
        try:
            hierarchy = locate_here(controller)
        except Refused:
            if needed[controller]:
                raise
        else:
            mounts.setdefault(hierarchy.top, []).append(hierarchy)
    return list(mounts.values())


def _make_some(together: Sequence[Hierarchy], needed: Mapping[str, bool], purpose: str) -> dict[str, Group]:
    """One group with all controllers of a mount; if that cannot be, with those that are needed."""
    try:
        group = make_group(together, purpose)
    except Refused:
        together = [hierarchy for hierarchy in together if needed[hierarchy.controller]]
        if not together:
            return {}
        group = make_group(together, purpose)
    return {hierarchy.controller: group for hierarchy in together}
