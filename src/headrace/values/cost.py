"""What does a read cost here? A value: measured, given or assumed elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
        for key in ("iops", "bandwidth"):
            if not getattr(self, key) > 0:
                raise ValueError(f"Storage({key}={getattr(self, key)!r}): must be above 0")
        if self.latency < 0:
            raise ValueError(f"Storage(latency={self.latency!r}): must not be negative")

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
