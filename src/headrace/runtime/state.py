"""Where does a run stand?

A state is a few integers (epoch and step of the next batch), the dataset's fingerprint and what fixes the steps: order,
batch size, drop_last. It says nothing about memory, plan, ranks or machine, so it is valid on any of them. Loading
compares every item and names each that differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import StateError
from headrace.values.run import Order, Steps

FORMAT = 1


@dataclass(frozen=True)
class Position:
    """The next batch to hand out: step `step` of epoch `epoch`. The end of an epoch is the start of the next."""

    epoch: int = 0
    step: int = 0

    def number(self, steps: Steps) -> int:
        """The step's number in the run."""
        return self.epoch * steps.per_epoch + self.step

    @classmethod
    def of(cls, number: int, steps: Steps) -> Position:
        """The position of a step's number in the run."""
        return cls(*divmod(number, steps.per_epoch))


def save_state(position: Position, *, fingerprint: str, order: Order, steps: Steps) -> dict[str, Any]:
    """The state at a position, as JSON."""
    return {
        "format": FORMAT,
        "epoch": position.epoch,
        "step": position.step,
        **identity(fingerprint=fingerprint, order=order, steps=steps),
    }


def identity(*, fingerprint: str, order: Order, steps: Steps) -> dict[str, Any]:
    """What must be equal for a state to mean the same steps."""
    spec: dict[str, Any] = json.loads(json.dumps(order.spec()))
    return {
        "dataset": fingerprint,
        "order": spec,
        "global_batch_size": steps.global_batch_size,
        "drop_last": steps.drop_last,
    }


def load_state(state: Mapping[str, Any], *, fingerprint: str, order: Order, steps: Steps) -> Position:
    """The position that a state holds; raises `StateError` if it belongs to another run."""
    if not isinstance(state, Mapping) or "format" not in state:
        raise StateError(f"not a state of a headrace loader: {type(state).__name__} without the key 'format'")
    if state["format"] != FORMAT:
        raise StateError(f"the state has format {state['format']!r}; this version reads format {FORMAT}")
    expected = identity(fingerprint=fingerprint, order=order, steps=steps)
    differing = [
        f"{key}: this loader has {value!r}, the state {state.get(key)!r}"
        for key, value in expected.items()
        if state.get(key) != value
    ]
    if differing:
        raise StateError(
            "the state belongs to another run; " + "; ".join(differing) + ". Build the loader as it was then"
        )
    epoch, step = state.get("epoch"), state.get("step")
    if not _whole(epoch) or not _whole(step) or not 0 <= int(step or 0) <= steps.per_epoch:
        raise StateError(
            f"the state is at epoch {epoch!r}, step {step!r}; expected whole numbers, step in 0..{steps.per_epoch}"
        )
    return Position.of(int(epoch or 0) * steps.per_epoch + int(step or 0), steps)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
