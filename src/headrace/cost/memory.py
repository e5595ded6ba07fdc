"""How much memory may this process use?

The smallest of what the node has available, what the cgroups above the process leave, and what the address space limit
leaves; shared with the other ranks of the node where they share it. Everything is read from files below `root`, so that
a test can lay out any machine.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.config import Config, load
from headrace.cost.cgroups import cgroup_folders
from headrace.cost.sizes import format_bytes, parse_bytes
from headrace.errors import InputError

DEFAULT_SHARE = 0.5
"""What `memory=None` takes: half, since model, framework and the page cache want memory too."""

_UNLIMITED = 1 << 60

_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "),
    2: ("memory.max", "memory.current", "inactive_file ", "active_file "),
}
"""Of a cgroup of either version: the limit, what is used, and the lines of memory.stat that count the page cache."""


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that one rank may use, and what limits them."""

    nbytes: int
    source: str


def usable_memory(
    *, root: Path = Path("/"), ranks_on_node: int | None = None, address_space: int | None = None
) -> MemoryLimit:
    """The memory that this rank may really use. None takes the launcher's ranks and the process's own RLIMIT_AS."""
    ranks = load().launcher.ranks_on_node if ranks_on_node is None else ranks_on_node
    shared = [limit for limit in (_available(root), *_cgroups(root)) if limit is not None]
    if ranks > 1:
        shared = [MemoryLimit(m.nbytes // ranks, f"{m.source}, shared by {ranks} ranks of this node") for m in shared]
    own = _address_space(root, resource.getrlimit(resource.RLIMIT_AS)[0] if address_space is None else address_space)
    limits = [*shared, *([own] if own is not None else [])]
    if not limits:
        raise InputError(
            f"memory=None: {root / 'proc/meminfo'} does not say how much memory is available; "
            "give memory= as a size like '8GiB'"
        )
    return min(limits, key=lambda limit: limit.nbytes)


def memory_budget(
    memory: int | str | None, *, usable: MemoryLimit | None = None, config: Config | None = None
) -> tuple[int, str]:
    """The bytes that `memory=` stands for, and a sentence that says why.

    None takes HEADRACE_MEMORY, or else half of what this rank may use; "25%" takes that share of it. What may be used
    and what the environment says are looked up unless they are given.
    """
    known = load() if config is None else config
    asked = known.memory if memory is None else memory
    origin = "HEADRACE_MEMORY" if memory is None and asked is not None else "memory"
    if asked is None or (isinstance(asked, str) and asked.strip().endswith("%")):
        share = DEFAULT_SHARE if asked is None else _share(asked, origin)
        limit = usable_memory(ranks_on_node=known.launcher.ranks_on_node) if usable is None else usable
        nbytes = int(limit.nbytes * share)
        why = f"{origin}={asked!r}" if asked is not None else "no memory= given"
        return nbytes, f"{format_bytes(nbytes)}: {share:.0%} of {format_bytes(limit.nbytes)} ({limit.source}); {why}"
    nbytes = parse_bytes(asked, name=origin)
    if nbytes == 0:
        raise InputError(
            f"{origin}={asked!r}: no batch fits into no memory; give a size like '8GiB', or None for a share"
        )
    return nbytes, f"{format_bytes(nbytes)}: {origin}={asked!r}"


def _share(text: str, origin: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    share = float(match[1]) / 100 if match else 0.0
    if not 0 < share <= 1:
        raise InputError(f"{origin}={text!r}: a share is above 0% and at most 100%")
    return share


def _available(root: Path) -> MemoryLimit | None:
    free = _field(_text(root / "proc/meminfo"), "MemAvailable:")
    return None if free is None else MemoryLimit(free * 1024, "memory available on this node")


def _address_space(root: Path, limit: int) -> MemoryLimit | None:
    if limit < 0 or limit >= _UNLIMITED:
        return None
    used = (_field(_text(root / "proc/self/status"), "VmSize:") or 0) * 1024
    return MemoryLimit(max(limit - used, 0), "address space limit (ulimit -v)")


def _cgroups(root: Path) -> Iterator[MemoryLimit]:
    """What each cgroup from the process's own up to the root leaves: any of them may be the one that is full."""
    for version, folder, top in cgroup_folders(root, "memory"):
        files = _FILES[version]
        limit, used = _text(folder / files[0]).strip(), _text(folder / files[1]).strip()
        if limit.isdigit() and used.isdigit() and int(limit) < _UNLIMITED:
            stat = _text(folder / "memory.stat")
            # The kernel gives the page cache back before it refuses memory, so it counts as free.
            cache = sum(_field(stat, name) or 0 for name in files[2:])
            left = int(limit) - max(int(used) - cache, 0)
            yield MemoryLimit(max(left, 0), f"left below the limit of cgroup /{folder.relative_to(top)}".rstrip("."))


def _field(text: str, name: str) -> int | None:
    """The number behind a name at the start of a line."""
    for line in text.splitlines():
        if line.startswith(name):
            return int(line[len(name) :].split()[0])
    return None


def _text(path: Path) -> str:
    """The text of a small file, or nothing where the kernel has no such file or does not show it."""
    try:
        return path.read_text()
    except OSError:
        return ""
