"""What `decide` gives back: the switches of a plan, with figures, bounds and the rejected candidates beside them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.values.run import Run

RESIDENCIES = ("none", "static", "next-use", "lru")
READ_MODES = ("direct", "window", "sweep", "group")
ACCESSES = ("buffered", "direct", "mapped")


@dataclass(frozen=True)
class Switches:
    """One setting of everything that can be chosen. Samples and positions are counts, the rest bytes.

    `resident` samples are kept across epochs under `residency`; `round` is K for a sweep, the width of a window or
    group, and one step for direct reads. `slots` are in the arena for samples under way. `span` positions
    are expanded and read together; a sample is in memory `lead` positions before its use. `batches` are prepared ahead.
    A `ramp` starts with windows of one step, two, four…, which read through gaps of up to `ramp_gaps` bytes each.
    `access` says how bytes leave a file: 'buffered' (system calls, through the page cache), 'direct' (around it, in
    multiples of `align`) or 'mapped' (copied out of it, for files that are in it).
    """

    residency: str
    read: str
    resident: int
    round: int
    slots: int
    span: int
    lead: int
    gap: int
    max_read: int
    batches: int
    ramp: bool = True
    ramp_gaps: tuple[int, ...] = ()
    access: str = "buffered"
    align: int = 1

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Figures:
    """What one epoch costs: samples read from storage, operations, bytes, and seconds of storage time."""

    samples: float
    operations: float
    nbytes: float
    seconds: float

    def to_dict(self) -> dict[str, float]:
        """A plain dict, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Bound:
    """What no plan can beat: samples and bytes that must be read in an epoch after the first, and their time."""

    samples: int
    nbytes: int
    seconds: float


@dataclass(frozen=True)
class Candidate:
    """A setting that was weighed: the steady epoch and the first one as estimated, and why it was not taken."""

    switches: Switches
    steady: Figures
    first: Figures
    passes: float
    reason: str = ""

    @property
    def label(self) -> str:
        """A few words that name the setting."""
        s = self.switches
        kept = "" if s.residency == "none" else f" + {s.residency} {s.resident:,}"
        width = "" if s.read == "direct" else f" K={s.round:,}"
        around = " around the page cache" if s.access == "direct" else ""
        return f"{s.read}{width}{kept}{around}"


@dataclass(frozen=True, eq=False)
class Geometry:
    """Where things lie in memory, in bytes. A slot holds one sample; a ragged sample takes as many slots as it needs.

    The arena has `Switches.slots` slots for samples under way and `resident_slots` for those that stay.
    """

    slot_nbytes: int
    resident_slots: int
    arena_nbytes: int
    batch_nbytes: int
    batches_nbytes: int
    table_nbytes: int
    landing: str


@dataclass(frozen=True, eq=False)
class Plan:
    """A run's plan: a pure value, the same on every rank, computed without communication."""

    run: Run
    switches: Switches
    geometry: Geometry
    chosen: Candidate
    rejected: tuple[Candidate, ...]
    bound: Bound
    notes: tuple[str, ...] = field(default=())

    def spec(self) -> dict[str, Any]:
        """Everything that `expand` depends on, as JSON."""
        return {"format": 1, "run": self.run.spec(), "switches": self.switches.to_dict()}

    @property
    def hash(self) -> str:
        """Names the plan: two runs with the same hash read the same bytes for the same steps."""
        text = json.dumps(self.spec(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON: what names the run, the switches, and a hash over both. `Loader(plan=…)` takes it back."""
        return {**self.spec(), "hash": self.hash}
