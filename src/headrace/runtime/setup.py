"""What does a loader know before its first batch?

Its arguments, and what follows from them: the dataset, the order, the steps, the memory, the storage and the plan. Each
is worked out when it is first asked for and then kept. Nothing here takes memory, starts a thread or reads a sample, so
`explain` costs the same with and without an accelerator in the room.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from headrace import config, formats
from headrace.cost import memory_budget, on_disks, usable_memory
from headrace.errors import InputError, StateError, UnsupportedError
from headrace.formats.check import check_unchanged
from headrace.formats.dataset import Dataset
from headrace.formats.map import MapDataset, is_map
from headrace.order.make import make_order
from headrace.runtime.checking import check_kind, check_names, check_values, loader_names, whole_numbers
from headrace.runtime.failures import Failures, Policy
from headrace.runtime.mapped import MapSource
from headrace.runtime.metrics import EpochRecord
from headrace.runtime.pipeline import Pipeline, Source, Workers
from headrace.runtime.plans import Plans
from headrace.runtime.probing import Known, Probing, Watch, storage_under
from headrace.runtime.storage import Reading, StorageSource
from headrace.runtime.work import MapWork, Transform, TransformWork
from headrace.values.cost import Cost, Storage
from headrace.values.plan import Plan
from headrace.values.run import Order, Run, Steps

KINDS = ("threads", "processes")
WORKERS = 2


@dataclass(frozen=True, eq=False)
class Arguments:
    """What the user gave, unchanged."""

    dataset: Any
    global_batch_size: int | None = None
    batch_size: int | None = None
    epochs: int | None = None
    shuffle: Any = "exact"
    seed: int = 0
    drop_last: bool = False
    memory: int | str | None = None
    storage: Storage | None = None
    step_seconds: float = 0.0
    transform: Any = None
    collate: Callable[[list[Any]], Any] | None = None
    workers: int | None = None
    workers_kind: str = "threads"
    on_error: str = "raise"
    max_failures: float | None = None
    timeout: float = 300.0
    reading: Reading = field(default_factory=Reading)
    order_options: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] | str | os.PathLike[str] | None = None
    switches: Mapping[str, Any] = field(default_factory=dict)
    ahead: int | None = None
    start_worker: Callable[[int], object] | None = None
    start_method: str = "spawn"
    across_epochs: bool = True
    probe: bool | None = None
    replan: bool = True
    watch: Watch | None = None

    def __post_init__(self) -> None:
        if (self.global_batch_size is None) == (self.batch_size is None):
            raise InputError(
                f"global_batch_size={self.global_batch_size!r} and batch_size={self.batch_size!r}: give exactly one; "
                "global_batch_size is the samples of a step, batch_size those of a step on one rank"
            )
        # The only place that changes an argument: a NumPy integer is the number that it stands for.
        for name, value in whole_numbers(self).items():
            object.__setattr__(self, name, value)
        if self.workers_kind not in KINDS:
            raise InputError(f"workers_kind={self.workers_kind!r}: expected one of {', '.join(map(repr, KINDS))}")
        check_names(self.switches, known=loader_names(self))
        check_kind(self, mapped=is_mapped(self.dataset))
        check_values(self)


def is_paths(given: object) -> bool:
    """Whether this is a path or several; a list of anything else is a map dataset."""
    if isinstance(given, list | tuple):
        return bool(given) and all(isinstance(item, str | os.PathLike) for item in given)
    return isinstance(given, str | os.PathLike)


def is_mapped(given: object) -> bool:
    """Whether the samples come from the user's object rather than from files."""
    return isinstance(given, MapDataset) or (not isinstance(given, Dataset) and not is_paths(given) and is_map(given))


def read_plan(given: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    """A saved plan, read from its file if that was given."""
    if isinstance(given, Mapping):
        return given
    try:
        with open(given, encoding="utf-8") as file:
            saved = json.load(file)
    except OSError as error:
        raise InputError(f"plan={os.fspath(given)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise StateError(f"plan={os.fspath(given)!r} is not JSON: {error}") from None
    if not isinstance(saved, dict):
        raise StateError(
            f"plan={os.fspath(given)!r} holds a {type(saved).__name__}; expected the object of Plan.to_dict()"
        )
    return saved


class Setup:
    """What follows from the arguments."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.policy_seen = False

    @cached_property
    def dataset(self) -> Dataset | MapDataset:
        """The dataset, opened if a path or an object was given."""
        given = self.arguments.dataset
        if isinstance(given, Dataset | MapDataset):
            return given
        if is_paths(given) or is_map(given):
            return formats.open(given)
        raise InputError(
            f"a {type(given).__name__} is no dataset: give a path, what headrace.open() gave, or an object with "
            "__len__ and __getitem__ (an iterable dataset has no order that could be planned)"
        )

    @property
    def mapped(self) -> bool:
        """Whether the samples come from the user's object rather than from extents."""
        return isinstance(self.dataset, MapDataset)

    @cached_property
    def order(self) -> Order:
        """The order of the samples."""
        a = self.arguments
        return make_order(a.shuffle, n=self.dataset.n, seed=a.seed, **a.order_options)

    @cached_property
    def steps(self) -> Steps:
        """How the order becomes steps."""
        a = self.arguments
        self._check_world()
        size = a.global_batch_size or a.batch_size or 1
        steps = Steps(length=self.order.length, global_batch_size=size, drop_last=a.drop_last, epochs=a.epochs)
        if steps.per_epoch == 0:
            raise InputError(
                f"drop_last=True leaves no step: {self.order.length:,} samples are fewer than one batch of {size:,}; "
                "make the batch smaller, or keep the last one"
            )
        return steps

    @cached_property
    def memory(self) -> tuple[int, str]:
        """The bytes that the loader may hold, and why so many."""
        return memory_budget(self.arguments.memory)

    @cached_property
    def known(self) -> Known:
        """The storage as it was given, or as it is known, measured or assumed; with what there is to say about that."""
        a, environment = self.arguments, config.load()
        if a.storage is not None:
            return Known(a.storage)
        allowed = environment.probe if a.probe is None else a.probe
        return storage_under(self.dataset.layout, probing=Probing(allowed, environment.cache, a.watch))

    @property
    def storage(self) -> Storage:
        """What a read is taken to cost."""
        return self.known.storage

    @cached_property
    def run(self) -> Run:
        """The run as the planner sees it."""
        paths = [file.path for file in self.dataset.layout.files]
        cost = Cost(
            self.storage,
            step_seconds=self.arguments.step_seconds,
            page_cache=max(0, usable_memory().nbytes - self.memory[0]),
            bypass=on_disks(paths),
        )
        return Run(layout=self.dataset.layout, order=self.order, steps=self.steps, memory=self.memory[0], cost=cost)

    @property
    def plan(self) -> Plan | None:
        """The plan of the run as it stands; None for a map dataset, whose plan is its order and steps alone."""
        return None if self.plans is None else self.plans.current

    @cached_property
    def plans(self) -> Plans | None:
        """The plan of the run and what may become of it."""
        a, plan = self.arguments, self._first_plan()
        revisable = a.replan and a.storage is None and a.plan is None
        return None if plan is None else Plans(plan, forced=a.switches, revisable=revisable)

    def after(self, record: EpochRecord, next_epoch: int) -> bool:
        """Learn from an epoch that was delivered; whether the next one has another plan."""
        return self.plans is not None and self.plans.after(record, next_epoch=next_epoch)

    def _first_plan(self) -> Plan | None:
        if self.mapped:
            return None
        if self.arguments.plan is None:
            from headrace.plan.decide import decide

            return decide(self.run, **self.arguments.switches)
        from headrace.plan.persist import plan_from_dict

        return plan_from_dict(read_plan(self.arguments.plan), self.run)

    @cached_property
    def failures(self) -> Failures:
        """The samples that failed, over the loader's life."""
        a = self.arguments
        return Failures(Policy.parse(on_error=a.on_error, max_failures=a.max_failures, n=self.dataset.n))

    @cached_property
    def transform(self) -> Transform | None:
        """The user's transform, with its fields checked."""
        if self.arguments.transform is None:
            return None
        transform = Transform(self.arguments.transform)
        if not self.mapped:
            transform.check(list(self.dataset.fields))
        return transform

    @cached_property
    def workers(self) -> Workers:
        """Who does the work beside the loop. Threads call the user's dataset only if they were asked for."""
        a = self.arguments
        count = a.workers
        if count is None:
            count = 0 if self.mapped and a.workers_kind == "threads" else WORKERS
        return Workers(
            count=count,
            kind=a.workers_kind,
            ahead=a.ahead if a.ahead is not None else 2 * max(count, 1),
            timeout=a.timeout,
            method=a.start_method,
            start=a.start_worker,
        )

    def check(self) -> None:
        """Raise if a file of the dataset is not the one that was opened."""
        check_unchanged(self.dataset.layout)

    def pipeline(self, start: int) -> Pipeline:
        """A pipeline from run-global step `start` on; not yet open."""
        source: Source
        if isinstance(self.dataset, MapDataset):
            a = self.arguments
            work = MapWork(
                dataset=self.dataset,
                collate=a.collate,
                transform=self.transform,
                stop_at_failure=self.failures.policy.on_error == "raise",
            )
            source = MapSource(order=self.order, steps=self.steps, start=start, one_epoch=not a.across_epochs)
            return Pipeline(source=source, work=work, workers=self.workers)
        source = self._storage_source(start)
        transform = None if self.transform is None else TransformWork(self.transform)
        return Pipeline(source=source, work=transform, workers=self.workers)

    def _storage_source(self, start: int) -> StorageSource:
        from headrace.plan.expand import expand

        plan = self.plan
        assert plan is not None
        return StorageSource(
            plan=plan,
            spans=partial(expand, plan, start),
            failures=self.failures,
            reading=self.arguments.reading,
            timeout=self.arguments.timeout,
            held=self.workers.ahead if self.transform is not None and self.workers.count else 0,
        )

    def _check_world(self) -> None:
        launcher = config.load().launcher
        if launcher.size > 1:
            raise UnsupportedError(
                f"this process is rank {launcher.rank} of {launcher.size} ({launcher.name}), and this version of "
                "headrace has no cluster support: every rank would train on all samples. Run one process, or unset the "
                "launcher's variables if the ranks are meant to be independent"
            )
