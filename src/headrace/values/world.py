"""How many nodes and ranks train together, and which one is this?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    """The shape of the cluster. The plan of a run depends on it; the steps (sets of ids) never do."""

    nodes: int = 1
    ranks_per_node: int = 1
    engine: str = "solo"

    @property
    def ranks(self) -> int:
        """Ranks over all nodes."""
        return self.nodes * self.ranks_per_node
