"""What does each argument of torch's DataLoader mean here?

One place that turns them into the loader's own arguments, or refuses them: nothing is accepted and ignored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch.utils.data import BatchSampler, IterableDataset

from headrace import config
from headrace.adapters.torch_tensors import FileCollate, MapCollate, WholeTransform
from headrace.adapters.torch_workers import WorkerStart
from headrace.errors import InputError, UnsupportedError
from headrace.formats.dataset import Dataset
from headrace.formats.map import MapDataset, is_map
from headrace.runtime.checking import check_names, warn_idle, whole_number
from headrace.runtime.setup import Arguments, is_mapped, is_paths
from headrace.runtime.storage import Reading
from headrace.runtime.work import Transform

DEFAULT_TIMEOUT = 300.0
_OWN = frozenset(f.name for f in fields(Arguments)) - {
    "dataset", "batch_size", "shuffle", "drop_last", "workers", "workers_kind", "collate", "reading", "switches",
    "ahead", "start_worker", "start_method", "across_epochs", "timeout", "watch",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Chosen:
    """torch's arguments as they were given."""

    batch_size: int | None
    shuffle: Any
    sampler: Any
    batch_sampler: Any
    num_workers: int
    collate_fn: Callable[[list[Any]], Any] | None
    pin_memory: bool
    drop_last: bool
    timeout: float
    worker_init_fn: Callable[[int], object] | None
    multiprocessing_context: Any
    generator: torch.Generator | None
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory_device: str
    in_order: bool
    workers_kind: str | None

    @property
    def order_source(self) -> Any:
        """The sampler, wherever it was given."""
        return self.batch_sampler.sampler if self.batch_sampler is not None else self.sampler

    def check(self) -> None:
        """Refuse what has no meaning here or fits nothing else."""
        if not self.in_order:
            raise UnsupportedError(
                "in_order=False: steps come in the planned order, or a resume could not be exact; leave it out"
            )
        if self.pin_memory_device:
            raise UnsupportedError(
                f"pin_memory_device={self.pin_memory_device!r}: pins for the current accelerator only, as torch now "
                "does; leave it out"
            )
        if self.batch_sampler is not None:
            self._check_batch_sampler()
        elif self.batch_size is None:
            raise UnsupportedError("batch_size=None turns batching off, but headrace reads by the batch: use 1")
        if self.sampler is not None and self.shuffle:
            raise InputError(f"sampler= and shuffle={self.shuffle!r} both name the order: give one of them")
        self._check_workers()

    def pins(self) -> bool:
        """Whether batches are pinned: only where there is an accelerator, as in torch."""
        if self.pin_memory and not torch.cuda.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, "
                "then device pinned memory won't be used.",
                stacklevel=3,
            )
            return False
        return self.pin_memory

    def _check_batch_sampler(self) -> None:
        if type(self.batch_sampler) is not BatchSampler:
            raise UnsupportedError(
                f"batch_sampler={type(self.batch_sampler).__name__}: batches of any content have no plan. Give the "
                "order as sampler= with batch_size=, or torch's own BatchSampler"
            )
        if self.batch_size != 1 or self.shuffle or self.sampler is not None or self.drop_last:
            raise InputError("batch_sampler= excludes batch_size=, shuffle=, sampler= and drop_last=: it sets them")

    def _check_workers(self) -> None:
        whole_number("num_workers", self.num_workers, least=0)
        if self.timeout < 0:
            raise InputError(f"timeout={self.timeout!r}: expected seconds, or 0 for {DEFAULT_TIMEOUT:g}")
        if self.num_workers == 0:
            for name in ("worker_init_fn", "multiprocessing_context", "workers_kind"):
                if getattr(self, name) is not None:
                    raise InputError(f"{name}= needs workers, and num_workers is 0")
            if self.persistent_workers:
                raise InputError("persistent_workers=True needs workers, and num_workers is 0")

    def warn_idle(self) -> None:
        """Say which arguments workers would need work for: code that is here from torch runs on, but is told."""
        names = ("worker_init_fn", "multiprocessing_context", "workers_kind")
        given = [f"{name}=" for name in names if getattr(self, name) not in (None, "threads")]
        if given:
            warn_idle(given, functions="collate_fn=, transform=", stacklevel=5)

    def workers(self, dataset: Any, *, mapped: bool, idle: bool) -> dict[str, Any]:
        """Kind and start of the workers. As in torch, each of those that call `__getitem__` has a copy of its own.

        `idle` workers have nothing to do: none are started.
        """
        context = self.multiprocessing_context
        method = context if isinstance(context, str | None) else context.get_start_method()
        if method == "fork":
            raise UnsupportedError(
                "multiprocessing_context='fork': a fork inherits locks of the loader's threads and may hang; use "
                "'spawn' or 'forkserver'"
            )
        if method is not None and self.workers_kind == "threads":
            raise InputError(f"multiprocessing_context={method!r} is for processes, but workers_kind='threads'")
        if idle:
            return {"workers": self.num_workers, "workers_kind": "threads"}
        kind = self.workers_kind or ("processes" if mapped or method is not None else "threads")
        start: Callable[[int], object] | None = self.worker_init_fn
        if kind == "processes":
            own = dataset.dataset if isinstance(dataset, MapDataset) else dataset
            start = WorkerStart(start, dataset=own, workers=self.num_workers)
        return {
            "workers": self.num_workers,
            "workers_kind": kind,
            "start_method": method or "spawn",
            "start_worker": start,
        }


def arguments_of(dataset: Any, chosen: Chosen, options: Mapping[str, Any]) -> Arguments:
    """The loader's arguments for these of torch's."""
    _check_world()
    _check_dataset(dataset)
    chosen.check()
    own = {name: value for name, value in options.items() if name in _OWN}
    switches = {name: value for name, value in options.items() if name not in _OWN and name != "io"}
    check_names(switches, known=_OWN | {f.name for f in fields(Chosen)} | {"io"})
    mapped = is_mapped(dataset)
    if chosen.prefetch_factor is not None:
        _check_prefetch(chosen, mapped)
        if not mapped:
            switches["batches"] = chosen.prefetch_factor * max(chosen.num_workers, 1)
    size, drop_last = chosen.batch_size, chosen.drop_last
    if chosen.batch_sampler is not None:
        size, drop_last = chosen.batch_sampler.batch_size, chosen.batch_sampler.drop_last
    if own.get("global_batch_size") is not None:
        raise InputError("global_batch_size=: torch's batch_size is per rank; headrace.Loader takes a global one")
    idle = not mapped and chosen.collate_fn is None and own.get("transform") is None
    if idle:
        chosen.warn_idle()
    own["transform"], collate = _functions(chosen, mapped, own.get("transform"))
    ahead = None if chosen.prefetch_factor is None else chosen.prefetch_factor * max(chosen.num_workers, 1)
    return Arguments(
        dataset,
        batch_size=size,
        drop_last=drop_last,
        collate=collate,
        timeout=chosen.timeout or DEFAULT_TIMEOUT,
        ahead=ahead,
        across_epochs=chosen.persistent_workers or not mapped,
        reading=Reading(io=options.get("io", "auto")),
        switches=switches,
        **_order(chosen, own),
        **chosen.workers(dataset, mapped=mapped, idle=idle),
        **{name: value for name, value in own.items() if name != "seed"},
    )


def _order(chosen: Chosen, own: Mapping[str, Any]) -> dict[str, Any]:
    if chosen.order_source is not None:
        return {"shuffle": chosen.order_source, "seed": own.get("seed", 0)}
    shuffle = False if chosen.shuffle is None else chosen.shuffle
    if chosen.generator is None:
        return {"shuffle": shuffle, "seed": own.get("seed", 0)}
    if "seed" in own:
        raise InputError("generator= and seed= both fix the order: give one of them")
    if shuffle is False:
        raise InputError("generator= fixes a shuffle, and shuffle is off: leave it out, or set shuffle=True")
    drawn = torch.empty((), dtype=torch.int64).random_(generator=chosen.generator)
    return {"shuffle": shuffle, "seed": int(drawn.item())}


def _functions(chosen: Chosen, mapped: bool, transform: Any) -> tuple[Any, Any]:
    """(transform, collate) for the loader."""
    if mapped:
        if transform is not None and not callable(transform):
            raise UnsupportedError("transform= by field: a map dataset has no fields; give one function of the batch")
        return None if transform is None else WholeTransform(transform), MapCollate(chosen.collate_fn)
    if chosen.collate_fn is None:
        return transform, None
    return FileCollate(chosen.collate_fn, None if transform is None else Transform(transform)), None


def _check_prefetch(chosen: Chosen, mapped: bool) -> None:
    factor = chosen.prefetch_factor
    if not isinstance(factor, int) or factor < 1:
        raise InputError(f"prefetch_factor={factor!r}: expected a whole number from 1")
    if mapped and chosen.num_workers == 0:
        raise InputError(f"prefetch_factor={factor} needs workers, and num_workers is 0")


def _check_dataset(dataset: Any) -> None:
    if isinstance(dataset, IterableDataset) or not (
        isinstance(dataset, Dataset | MapDataset) or is_paths(dataset) or is_map(dataset)
    ):
        raise UnsupportedError(
            f"{type(dataset).__name__} is an iterable dataset: its samples have no ids, so their order cannot be "
            "planned, shuffled exactly or resumed. Give a path, what headrace.open() gave, or a map dataset (__len__ "
            "and __getitem__)"
        )


def _check_world() -> None:
    distributed = torch.distributed
    size = distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
    launcher = config.load().launcher
    if max(size, launcher.size) > 1:
        who = f"torch.distributed has {size} ranks" if size > 1 else f"{launcher.name} started {launcher.size} ranks"
        raise UnsupportedError(
            f"{who}, and this version of headrace has no cluster support: every rank would train on all samples. Run "
            "one process, or use torch's loader with a DistributedSampler"
        )
