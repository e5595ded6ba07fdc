"""What does a read cost here? A value: measured, given or assumed elsewhere."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from headrace.errors import InputError


@dataclass(frozen=True)
class Storage:
    """Storage as the planner sees it: `iops` operations and `bandwidth` bytes a second, `latency` seconds for one.

    `name` says what it is and `source` where the figures come from ('given', 'assumed', 'measured'); `explain` prints
    both. Where the files are in the page cache (`cached`), a read is a copy. The time of a set of reads that are in
    flight together is max(operations / iops, bytes / bandwidth).
    """

    iops: float
    bandwidth: float
    latency: float = 0.0
    name: str = "storage"
    source: str = "given"
    cached: bool = False

    def __post_init__(self) -> None:
        for key, unit in (("iops", "operations a second"), ("bandwidth", "bytes a second"), ("latency", "seconds")):
            value = getattr(self, key)
            known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not known or value < 0 or (value == 0 and key != "latency"):
                least = "0 or more" if key == "latency" else "above 0"
                raise InputError(f"Storage({key}={value!r}): expected {unit}, a finite number {least}")

    def seconds(self, operations: float, nbytes: float) -> float:
        """Time of reads that are in flight together."""
        return max(operations / self.iops, nbytes / self.bandwidth)

    def to_dict(self) -> dict[str, float | str | bool]:
        """A plain dict, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Cost:
    """Everything that costs time in a run: the storage, a copy in memory (bytes a second) and one training step.

    `page_cache` bytes are left for the kernel to keep files in, beside the loader's own memory; None: not known.
    Files on a disk of this machine can be read around it (`bypass`).
    """

    storage: Storage
    memory_bandwidth: float = 8e9
    step_seconds: float = 0.0
    page_cache: int | None = None
    bypass: bool = False
