"""What is known before step one: everything that a plan depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace.values.cost import Cost
from headrace.values.layout import Layout
from headrace.values.world import World


class Order(Protocol):
    """The global sequence of sample ids of every epoch, as a function and its inverse."""

    @property
    def name(self) -> str:
        """The kind of order."""
        ...

    @property
    def n(self) -> int:
        """Number of sample ids."""
        ...

    @property
    def length(self) -> int:
        """Positions per epoch."""
        ...

    @property
    def unique(self) -> bool:
        """Whether an id occurs at most once per epoch."""
        ...

    def ids(self, epoch: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Ids at positions start .. stop-1 of an epoch."""
        ...

    def at(self, epoch: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Ids at any positions of an epoch."""
        ...

    def positions(self, epoch: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Positions of ids in an epoch; -1 for an id that does not occur."""
        ...

    def spec(self) -> dict[str, object]:
        """The order as JSON; part of the plan's hash."""
        ...


@dataclass(frozen=True)
class Steps:
    """How the positions of an epoch become steps. `epochs` None means: as long as the user asks."""

    length: int
    global_batch_size: int
    drop_last: bool = False
    epochs: int | None = None

    @property
    def per_epoch(self) -> int:
        """Steps of one epoch."""
        whole, rest = divmod(self.length, self.global_batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    @property
    def used(self) -> int:
        """Positions of one epoch that are delivered."""
        return min(self.length, self.per_epoch * self.global_batch_size)

    @property
    def total(self) -> int | None:
        """Steps of the whole run."""
        return None if self.epochs is None else self.epochs * self.per_epoch

    def rows(self, step: int) -> int:
        """Samples of a step, by its number in the run."""
        within = step % self.per_epoch
        return min(self.global_batch_size, self.used - within * self.global_batch_size)

    def position(self, step: int) -> int:
        """First position of a step, counted over the run: epoch × used + position."""
        epoch, within = divmod(step, self.per_epoch)
        return epoch * self.used + within * self.global_batch_size


@dataclass(frozen=True, eq=False)
class Run:
    """A training run as the planner sees it. `memory` bounds everything that the loader holds, in bytes."""

    layout: Layout
    order: Order
    steps: Steps
    memory: int
    cost: Cost
    world: World = field(default_factory=World)

    def spec(self) -> dict[str, Any]:
        """What names this run in a hash or a saved plan: no path, no machine."""
        return {
            "samples": self.layout.n,
            "dataset": self.layout.fingerprint,
            "order": self.order.spec(),
            "global_batch_size": self.steps.global_batch_size,
            "drop_last": self.steps.drop_last,
            "epochs": self.steps.epochs,
            "memory": self.memory,
            "nodes": self.world.nodes,
            "ranks_per_node": self.world.ranks_per_node,
        }
