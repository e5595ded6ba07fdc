"""Under which conditions is a command run, and what came of it?

Values only: `Conditions` says what storage shall be like, `Result` what was seen, `Refused` why nothing was measured.
Sizes are read as people write them: `800MiB`, `150MB`, `28%` (a share of the dataset), or a plain number.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

REFUSED = 77
"""The exit code that says: not run, or not under the conditions that were asked for."""

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)(?:b|b/s|/s|)\s*", re.IGNORECASE)
SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


class Refused(RuntimeError):
    """A condition cannot be made, does not bite or did not hold, so there is no figure to give."""


def parse_size(value: int | str, what: str) -> int:
    """Bytes of `800MiB`, `150MB/s` or `4096`; at least 1."""
    found = SIZE.fullmatch(str(value))
    nbytes = int(float(found[1]) * UNITS[found[2].lower()]) if found else 0
    if nbytes < 1:
        raise ValueError(f"{what} {value!r} is no size: write it like 800MiB, 150MB or 4096")
    return nbytes


@dataclass(frozen=True)
class Conditions:
    """What storage shall be like. Nothing given is the machine as it is.

    `cold` drops the pages of the data (`True` or "files"), or all caches of the machine ("machine"). Limits of
    memory, operations and bandwidth begin with the data's pages dropped too: a page that somebody else has in the
    cache is neither charged to the command nor read from the device.
    """

    cold: bool | str = False
    memory: int | str | None = None
    iops: int | None = None
    bandwidth: int | str | None = None

    def __post_init__(self) -> None:
        """Whatever cannot be meant is named before anything runs."""
        if self.cold not in (False, True, "files", "machine"):
            raise ValueError(f"cold {self.cold!r} is unknown: files or machine")
        if self.memory is not None:
            self.memory_bytes(1 << 60)
        if self.iops is not None and (isinstance(self.iops, bool) or int(self.iops) != self.iops or self.iops < 1):
            raise ValueError(f"iops {self.iops!r} is no number of reads a second: a whole number of at least 1")
        if self.bandwidth is not None:
            parse_size(self.bandwidth, "bandwidth")

    def memory_bytes(self, total: int) -> int | None:
        """The limit of memory for a dataset of `total` bytes."""
        if self.memory is None:
            return None
        share = SHARE.fullmatch(str(self.memory))
        if share is None:
            return parse_size(self.memory, "memory")
        if not 0 < float(share[1]) <= 100:
            raise ValueError(f"memory {self.memory!r} is no share: above 0 %, at most 100 %")
        return max(int(total * float(share[1]) / 100), 1)

    @property
    def bandwidth_bytes(self) -> int | None:
        """Bytes a second that may be read."""
        return None if self.bandwidth is None else parse_size(self.bandwidth, "bandwidth")

    @property
    def starts_cold(self) -> bool:
        """Whether the data's pages are dropped before the command starts."""
        return bool(self.cold) or not (self.memory is None and self.iops is None and self.bandwidth is None)


@dataclass(frozen=True)
class Result:
    """What a command did under its conditions. A figure that this machine cannot give is None.

    `read_bytes` and `read_operations` are what the device (with the shim: the model) gave to the command and all of
    its children. `peak_memory` is that of the cgroup, page cache included; `peak_rss` that of the largest process.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes | None
    stderr: bytes | None
    wall_seconds: float
    cpu_seconds: float
    peak_rss: int
    peak_memory: int | None
    oom_kills: int | None
    read_bytes: int | None
    read_operations: int | None
    timed_out: bool
    saw: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The fields, with output as text."""
        fields = asdict(self)
        for name in ("stdout", "stderr"):
            if fields[name] is not None:
                fields[name] = fields[name].decode(errors="replace")
        return fields

    def summary(self) -> str:
        """The figures in one line."""
        parts = [f"exit {self.returncode}" + (" (out of time)" if self.timed_out else "")]
        parts += [f"{self.wall_seconds:.2f} s", f"{self.cpu_seconds:.2f} s of CPU"]
        if self.read_bytes is not None:
            ops = "" if self.read_operations is None else f" in {self.read_operations:,} reads"
            parts.append(f"{self.read_bytes / 1e6:,.1f} MB from the device{ops}")
        if self.peak_memory is not None:
            parts.append(f"peak memory {self.peak_memory / 1e6:,.1f} MB")
        if self.oom_kills:
            parts.append(f"{self.oom_kills} killed for want of memory")
        return ", ".join(parts)
