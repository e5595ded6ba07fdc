"""How does torch's own DataLoader read this dataset? Per sample, per batch, sorted, with and without workers.

The settings are those that its guide recommends for speed: workers persist, tensors are made without a copy and go
through shared memory, and whole batches are not collated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headrace.bench.checking import native
from headrace.bench.contenders import Delivered, Open
from headrace.bench.opening import load
from headrace.bench.sources import Source, open_source
from headrace.bench.values import Spec

DEADLINE = 600
"""Seconds that torch waits for a worker's batch."""


def torch_loader(spec: Spec, *, way: str, workers: int) -> Open:
    """A DataLoader over a map dataset that reads in this way."""
    load(spec, "torch.utils.data", *(f"multiprocessing.{name}" for name in ("popen_fork", "queues", "synchronize")))
    return lambda: TorchLoader(spec, way, workers)


class Items:
    """A map dataset of single samples."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.n

    def __getitem__(self, sample: int) -> tuple[int, dict[str, Any]]:
        return sample, {name: tensor_ready(value) for name, value in self.source.item(sample).items()}


class Batches(Items):
    """A map dataset that reads a whole batch in one call. The order inside of a batch is free where it is sorted."""

    def __getitems__(self, samples: list[int]) -> tuple[Any, dict[str, Any]]:
        """The ids and values of a batch, as tensors."""
        import torch

        ids = np.array(samples, np.int64)
        if self.source.way != "each":
            ids.sort()
        values = self.source.rows(ids)
        return torch.from_numpy(ids), {name: torch.from_numpy(value) for name, value in values.items()}


def tensor_ready(value: Any) -> Any:
    """What torch makes a tensor of: a writable array in this machine's byte order. Views of a mapping are copied."""
    array = native(value)
    return array if array.flags.writeable else array.copy()


def as_read(batch: Any) -> Any:
    """A collate function for what is a batch already."""
    return batch


class TorchLoader:
    """A DataLoader and the iterator of its epoch."""

    def __init__(self, spec: Spec, way: str, workers: int) -> None:
        import torch
        from torch.utils.data import DataLoader

        item = way == "item"
        source = open_source(spec, {"item": "each", "batched": "each", "sorted": "fancy", "slabs": "slabs"}[way])
        self._loader = DataLoader(
            Items(source) if item else Batches(source),
            batch_size=spec.batch_size,
            shuffle=True,
            generator=torch.Generator().manual_seed(spec.seed),
            num_workers=workers,
            persistent_workers=workers > 0,
            timeout=DEADLINE if workers else 0,
            **({} if item else {"collate_fn": as_read}),
        )
        self._notes = {"way": way, "workers": workers}

    def epoch(self, number: int) -> Iterator[Delivered]:
        """The batches of one epoch."""
        for ids, values in self._loader:
            yield Delivered(ids.numpy(), {name: value.numpy() for name, value in values.items()})

    def close(self) -> None:
        """Join the workers."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()

    def notes(self) -> Mapping[str, Any]:
        """The settings."""
        return self._notes
