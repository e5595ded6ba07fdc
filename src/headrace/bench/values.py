"""What is a contender asked to do, and what does it answer? Two values that are JSON between two processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.errors import InputError


@dataclass(frozen=True)
class Spec:
    """One run of one contender. `files`, `fields`, `format` and `samples` are those of the dataset that `paths` name.

    `seconds` ends the run after the batch in which they are over; `step_seconds` is what the loop sleeps at each batch.
    `storage` (iops, bandwidth, latency) is what a loader that plans may be told; others cannot make use of it.
    `program` is the command before `SPEC.json`; empty for the contenders of this package.
    """

    contender: str
    paths: tuple[str, ...]
    files: tuple[str, ...]
    fields: tuple[str, ...]
    format: str
    samples: int
    options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 256
    epochs: int = 2
    memory: str | None = None
    seed: int = 0
    seconds: float | None = None
    step_seconds: float = 0.0
    storage: Mapping[str, float] | None = None
    program: tuple[str, ...] = ()

    def to_json(self) -> str:
        """What stands in SPEC.json."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """The value that `to_json` wrote."""
        try:
            values = json.loads(text)
            lists = {name: tuple(values[name]) for name in ("paths", "files", "fields", "program")}
            return cls(**{**values, **lists})
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"this is no spec of a contender: {type(error).__name__} {error}") from error

    def of(self, contender: str) -> Spec:
        """The same run by another contender."""
        return replace(self, contender=contender)


@dataclass(frozen=True)
class Result:
    """What one run of a contender answered; `error` where it did not."""

    contender: str
    epochs: tuple[float, ...] = ()
    first: float | None = None
    nbytes: int = 0
    ids_ok: bool | str = False
    cpu: float | None = None
    peak_private: int | None = None
    base_private: int | None = None
    waits: tuple[float, ...] = ()
    cut: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    cached: float | None = None

    @property
    def right(self) -> bool:
        """Whether it delivered what it had to."""
        return self.error is None and self.ids_ok is True and bool(self.epochs)

    @property
    def seconds(self) -> float:
        """From open to last batch."""
        return sum(self.epochs)

    @property
    def rate(self) -> float | None:
        """Bytes of samples a second, if what was delivered is right."""
        return self.nbytes / self.seconds if self.right and self.seconds > 0 else None

    @property
    def later_rate(self) -> float | None:
        """The same from the second epoch on: with what is held in memory by then."""
        if self.rate is None or self.cut or len(self.epochs) < 2:
            return None
        return self.nbytes * (len(self.epochs) - 1) / len(self.epochs) / sum(self.epochs[1:])

    @property
    def verdict(self) -> str:
        """Why there is no rate; empty if there is one."""
        if self.error is not None:
            return f"failed: {self.error}"
        if self.ids_ok is not True:
            return f"WRONG: {self.ids_ok if isinstance(self.ids_ok, str) else 'its own check failed'}"
        return "" if self.epochs else "failed: it delivered nothing"

    def to_dict(self) -> dict[str, Any]:
        """All raw figures, for JSON."""
        return {**asdict(self), "notes": dict(self.notes), "rate": self.rate, "later_rate": self.later_rate}

    @classmethod
    def from_answer(cls, contender: str, answer: Mapping[str, Any]) -> Result:
        """A result from the line of JSON that a contender's process printed."""
        if answer.get("error"):
            return cls(contender, error=str(answer["error"]))
        try:
            return cls(
                contender,
                epochs=tuple(float(s) for s in answer["epochs"]),
                first=answer["first"],
                nbytes=int(answer["bytes"]),
                ids_ok=answer["ids_ok"],
                cpu=answer["cpu"],
                peak_private=answer["peak_private"],
                base_private=answer.get("base_private"),
                waits=tuple(answer.get("waits", ())),
                cut=bool(answer.get("cut", False)),
                notes=answer.get("notes", {}),
                cached=answer.get("cached"),
            )
        except (KeyError, TypeError, ValueError) as error:
            return cls(contender, error=f"its answer is incomplete: {type(error).__name__} {error}")
