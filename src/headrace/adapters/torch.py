"""What does someone who has a `torch.utils.data.DataLoader` change? The import.

Every argument of torch's loader means here what it means there, or is refused with the reason; none is accepted and
ignored. A dataset of files comes as a dict of tensors (views of the loader's buffer, no copy), a map dataset as torch's
own collate makes it. What is headrace's own (memory, order, resume, report) is passed on to `headrace.Loader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import default_collate

from headrace.adapters.torch_arguments import Chosen, arguments_of
from headrace.adapters.torch_tensors import Whole, pin, to_tensors
from headrace.runtime.batch import Batch
from headrace.runtime.loader import Loader
from headrace.runtime.report import Report
from headrace.values.plan import Plan

__all__ = ["DataLoader", "default_collate"]


class DataLoader:
    """torch's `DataLoader` over headrace. One iteration is one epoch; `state_dict` resumes at any step.

    Args:
        dataset: what `headrace.open` gave, a path, or a torch map dataset. An iterable dataset is refused.
        batch_size: samples of a batch on this rank, as in torch. None (no batching) is refused.
        shuffle: True is an exact global shuffle with `seed`; False or None is file order; a name is an order.
        sampler, batch_sampler: a sampler is the order of every epoch. A batch sampler is taken if it is torch's own
            `BatchSampler` (its sampler, batch size and drop_last); other batches have no plan, and are refused.
        num_workers: of a map dataset: processes that run `__getitem__`, `collate_fn` and transforms, each with a copy
            of the dataset; of files: threads that run `collate_fn` and transforms, and the native core reads. 0 runs
            them in the loop.
        collate_fn: joins the samples of a batch; for a dataset of files it is given a list of dicts of tensors.
        pin_memory: copies batches to pinned memory if there is an accelerator; warns, as torch does, if there is none.
        drop_last: leaves out the last batch of an epoch where it would be smaller.
        timeout: seconds that a batch may take. 0 is 300 here: no wait is without end.
        worker_init_fn: called with the worker's number in every worker before its first batch; needs num_workers.
        multiprocessing_context: 'spawn' or 'forkserver' runs the workers as processes; 'fork' is refused.
        generator: with `shuffle=True`, the seed is drawn from it.
        prefetch_factor: batches prepared ahead per worker (of files: batches prepared ahead).
        persistent_workers: of a map dataset: keep the workers, and prefetch, across epochs.
        pin_memory_device, in_order: '' and True; anything else is refused.
        workers_kind: 'threads' or 'processes', if it is to be another kind than above. Threads share the dataset:
            only for a `__getitem__` that several threads may call at once.
        **options: everything else that `headrace.Loader` takes: memory=, seed=, epochs=, storage=, transform=,
            on_error=, order_options=, residency=, ….
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: Any = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        workers_kind: str | None = None,
        **options: Any,
    ) -> None:
        chosen = Chosen(
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            generator=generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
            workers_kind=workers_kind,
        )
        arguments = arguments_of(dataset, chosen, options)
        self._loader = Loader.of(arguments)
        self._pin = chosen.pins()
        self.dataset = dataset
        self.batch_size = arguments.batch_size
        self.sampler = chosen.order_source if chosen.order_source is not None else EpochSampler(self._loader)
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.drop_last = arguments.drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers

    def __len__(self) -> int:
        """Batches of an epoch on this rank."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        """One epoch."""
        return _Tensors(iter(self._loader), self._pin)

    @property
    def loader(self) -> Loader:
        """The headrace loader behind this one: `loader.plan`, `loader.epoch`, ids and weights by iterating it."""
        return self._loader

    @property
    def plan(self) -> Plan | None:
        """The plan; None for a map dataset."""
        return self._loader.plan

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or that the next iteration will be."""
        return self._loader.epoch

    def explain(self) -> str:
        """The plan, like a database's EXPLAIN."""
        return self._loader.explain()

    def report(self) -> Report:
        """What was measured, beside the plan."""
        return self._loader.report()

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch. Not needed to reshuffle: epochs count by themselves."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands, as JSON."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self._loader.load_state_dict(state_dict)

    def close(self) -> None:
        """End all threads, processes and files."""
        self._loader.close()

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class EpochSampler:
    """The ids of the current epoch in their order: what others look for as `loader.sampler`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return self._loader.order.length

    def __iter__(self) -> Iterator[int]:
        order = self._loader.order
        return iter(order.ids(self._loader.epoch, 0, order.length).tolist())

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch."""
        self._loader.set_epoch(epoch)


class _Tensors:
    """One iteration: batches as tensors, pinned if wanted."""

    def __init__(self, batches: Iterator[Any], pinned: bool) -> None:
        self._batches = batches
        self._pinned = pinned

    def __iter__(self) -> _Tensors:
        return self

    def __next__(self) -> Any:
        value = next(self._batches)
        if isinstance(value, Whole):
            value = value.value
        elif isinstance(value, Batch):
            value = to_tensors(value)
        return pin(value) if self._pinned else value
