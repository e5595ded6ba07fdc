"""How does Headrace itself take part? As anybody would use it: open, a loader, a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.bench.contenders import Delivered, Open
from headrace.bench.opening import load, opened
from headrace.bench.values import Spec
from headrace.runtime.loader import Loader
from headrace.values.cost import Storage

LATER = ("headrace.plan", "headrace.runtime.session", "headrace.native.engine", "numpy.ma")
"""What the loader imports when it first needs it. `np.unique` imports `numpy.ma`."""


def planned(spec: Spec, *, shuffle: str = "exact") -> Open:
    """The loader with its defaults."""
    load(spec, *LATER)
    return lambda: Planned(spec, shuffle)


class Planned:
    """A loader that is open."""

    def __init__(self, spec: Spec, shuffle: str) -> None:
        self._spec = spec
        self._loader = Loader(
            opened(spec),
            global_batch_size=spec.batch_size,
            epochs=spec.epochs,
            shuffle=shuffle,
            seed=spec.seed,
            memory=spec.memory,
            step_seconds=spec.step_seconds,
            storage=None if spec.storage is None else Storage(spec.storage["iops"], spec.storage["bandwidth"]),
        )

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The batches of one epoch."""
        for batch in self._loader:
            yield Delivered(batch.ids, batch)

    def close(self) -> None:
        """End the loader's threads."""
        self._loader.close()

    def notes(self) -> Mapping[str, Any]:
        """The plan, what it had predicted, and what the engine counted."""
        from headrace.plan import forecast

        plan = self._loader.plan
        if plan is None:
            return {}
        figures = forecast(plan, epochs=self._spec.epochs)
        measured = self._loader.report().to_dict()["measured"]
        return {
            "plan": plan.chosen.label,
            "predicted_seconds": [one.seconds for one in figures],
            "predicted_operations": sum(one.operations for one in figures),
            "predicted_bytes": sum(one.nbytes for one in figures),
            "operations": measured["operations"],
            "bytes_read": measured["bytes"],
        }
