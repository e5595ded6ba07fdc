"""What did a probe of the storage see? Raw figures, and the `Storage` that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.values.cost import Storage

PATTERNS = ("random", "sequential")
HOW = ("direct", "buffered")


def date_of(when: float) -> str:
    """The day, in UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(when, UTC).date().isoformat()


@dataclass(frozen=True)
class Figure:
    """One measurement: `depth` reads of `nbytes` in flight, `how` ('direct', 'buffered') and in which `pattern`.

    `rate` is operations a second while the queue was full; `operations` and `seconds` are what it took to see that, and
    `latency` is the median time of one read.
    """

    pattern: str
    how: str
    depth: int
    nbytes: int
    operations: int
    seconds: float
    rate: float
    latency: float

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.rate * self.nbytes


@dataclass(frozen=True)
class Measured:
    """A probe: where and when, every figure, what it cost (`seconds`, `nbytes`), and what follows (`storage`).

    `when` is in seconds since 1970. `notes` say what could not be measured, or not without doubt.
    """

    path: str
    when: float
    figures: tuple[Figure, ...]
    storage: Storage
    seconds: float
    nbytes: int
    notes: tuple[str, ...] = ()

    @property
    def date(self) -> str:
        """The day of the measurement."""
        return date_of(self.when)

    @property
    def break_even(self) -> float:
        """Bytes that cost as much as one operation: a gap smaller than this is cheaper to read than to skip."""
        return self.storage.bandwidth / self.storage.iops

    @property
    def random_costs(self) -> float:
        """How many times as long the same bytes take in random reads of a sample's size as in sequential ones."""
        sequential = max(f.bandwidth for f in self.figures if f.pattern == "sequential")
        random = [f for f in self.figures if f.pattern == "random"]
        usual = max(f.nbytes for f in random)
        return sequential / max(f.bandwidth for f in random if f.nbytes == usual)

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return asdict(self) | {"date": self.date, "break_even": self.break_even, "random_costs": self.random_costs}


def measured_from_dict(data: Mapping[str, Any]) -> Measured:
    """What `to_dict` gave. Raises KeyError, TypeError or ValueError where it is something else."""
    figures = tuple(_figure(item) for item in data["figures"])
    for pattern in PATTERNS:
        if not any(figure.pattern == pattern for figure in figures):
            raise ValueError(f"no {pattern} figure")
    return Measured(
        path=str(data["path"]),
        when=float(data["when"]),
        figures=figures,
        storage=Storage(**data["storage"]),
        seconds=float(data["seconds"]),
        nbytes=int(data["nbytes"]),
        notes=tuple(map(str, data["notes"])),
    )


def _figure(item: Mapping[str, Any]) -> Figure:
    figure = Figure(**item)
    numbers = (figure.depth, figure.nbytes, figure.operations, figure.seconds, figure.rate, figure.latency)
    if figure.pattern not in PATTERNS or figure.how not in HOW or not all(number > 0 for number in numbers):
        raise ValueError(f"not a figure of a probe: {item!r}")
    return figure
