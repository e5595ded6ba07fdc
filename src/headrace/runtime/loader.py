"""What does the user hold?

A `Loader` composes: `Setup` knows what follows from the arguments, `Session` runs passes over it, `report` tells what
happened. The constructor stores; planning happens when the plan is first asked for, opening at the first iteration.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from headrace.formats.dataset import Dataset
from headrace.formats.map import MapDataset
from headrace.runtime.batch import Batch
from headrace.runtime.metrics import Meter
from headrace.runtime.report import Report, make_report
from headrace.runtime.session import Session, check_epoch
from headrace.runtime.setup import Arguments, Setup
from headrace.runtime.state import load_state, save_state
from headrace.runtime.storage import Reading
from headrace.values.cost import Storage
from headrace.values.plan import Plan
from headrace.values.run import Order


class Loader:
    """Delivers a dataset in a planned order, read as the plan says. One pass over it is one epoch.

    Args:
        dataset: what `headrace.open` gave, a path, or any object with `__len__` and `__getitem__`.
        global_batch_size: samples of a step; or `batch_size`: samples of a step on one rank. One of the two.
        epochs: how many; None is without end.
        shuffle: "exact" (True), "sequential" (False), "echo", "group", "window", an array of ids, a function
            epoch -> ids, or a sampler. Options of the order go into `order_options`.
        seed: fixes everything that is random.
        drop_last: leave out the last step of an epoch where it would be smaller.
        memory: bytes that the loader may hold, like "8GiB"; None takes a stated share of what is there.
        storage: what a read costs. None takes what was measured on this filesystem before, or measures it (a few
            seconds, once; not with `probe=False`), or assumes it from the kind of storage. `explain` says which.
        replan: whether a later epoch may have another plan, where the storage turns out to be another one than was
            thought. Never where `storage` or `plan` is given; the order stays, and the report names each change.
        step_seconds: how long the training takes for a step, if known: the plan need not be faster.
        transform: a function of the batch, or a mapping of field names to functions of a field's values.
        collate: joins the samples (a list) of a map dataset into a batch.
        workers: threads (`workers_kind="processes"`: processes) for transforms and map datasets; 0 works in the loop.
            None is 2, but 0 for a map dataset: threads call its `__getitem__` at the same time, on one object.
        on_error: "raise", "warn" or "skip" a sample that cannot be delivered; `max_failures` of them at most, as a
            count or as a share of the dataset.
        timeout: the deadline, in seconds, of every wait.
        io: how the engine reads: "auto", "threads" or "uring".
        plan: a plan that was saved (what `loader.plan.to_dict()` gave, or a JSON file of it), instead of a new one. It
            must be of this very run, or StateError says what differs.
        switches: any switch of the plan by name (residency=, read=, resident=, round=, gap=, max_read=, …); the rest
            is chosen by cost.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        global_batch_size: int | None = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        shuffle: Any = "exact",
        seed: int = 0,
        drop_last: bool = False,
        memory: int | str | None = None,
        storage: Storage | None = None,
        probe: bool | None = None,
        replan: bool = True,
        step_seconds: float = 0.0,
        transform: Callable[[Batch], Any] | Mapping[str, Callable[[Any], Any]] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        workers: int | None = None,
        workers_kind: str = "threads",
        on_error: str = "raise",
        max_failures: float | None = None,
        timeout: float = 300.0,
        io: str = "auto",
        order_options: Mapping[str, Any] | None = None,
        plan: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        **switches: Any,
    ) -> None:
        self._setup = Setup(
            Arguments(
                dataset,
                global_batch_size=global_batch_size,
                batch_size=batch_size,
                epochs=epochs,
                shuffle=shuffle,
                seed=seed,
                drop_last=drop_last,
                memory=memory,
                storage=storage,
                probe=probe,
                replan=replan,
                step_seconds=step_seconds,
                transform=transform,
                collate=collate,
                workers=workers,
                workers_kind=workers_kind,
                on_error=on_error,
                max_failures=max_failures,
                timeout=timeout,
                reading=Reading(io=io),
                order_options=order_options or {},
                plan=plan,
                switches=switches,
            )
        )
        self._meter = Meter()
        self._session_made: Session | None = None

    @classmethod
    def of(cls, arguments: Arguments) -> Loader:
        """A loader with these arguments, also those that the constructor does not offer: for adapters and tests."""
        loader = cls.__new__(cls)
        loader._setup = Setup(arguments)
        loader._meter = Meter()
        loader._session_made = None
        return loader

    @property
    def dataset(self) -> Dataset | MapDataset:
        """The dataset, opened (its metadata, no data) when it is first asked for."""
        return self._setup.dataset

    @property
    def order(self) -> Order:
        """The order of the samples: `order.ids(epoch, start, stop)`."""
        return self._setup.order

    @property
    def plan(self) -> Plan | None:
        """The plan of the run; None for a map dataset, whose plan is its order and steps alone."""
        return self._setup.plan

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or that the next pass will be."""
        return self._session.epoch

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self._setup.steps.per_epoch

    def __iter__(self) -> Iterator[Any]:
        """One epoch. After a loop that was left early, the next pass is the next epoch."""
        return EpochIterator(self, self._session)

    def explain(self) -> str:
        """The plan, with figures, bounds and the rejected candidates, like a database's EXPLAIN."""
        from headrace.runtime.explain import explain_setup

        return explain_setup(self._setup)

    def report(self) -> Report:
        """What was measured, beside the plan and the bound."""
        return make_report(self._setup, self._session, self._meter)

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be this epoch. After `load_state_dict`, its own epoch keeps the step."""
        self._session.request(check_epoch(epoch, self._setup.steps))

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands: after the last batch that was handed out. JSON, the same on every rank."""
        s = self._setup
        return save_state(self._session.position, fingerprint=s.dataset.fingerprint, order=s.order, steps=s.steps)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken: the next pass delivers the rest of that epoch."""
        s = self._setup
        position = load_state(state, fingerprint=s.dataset.fingerprint, order=s.order, steps=s.steps)
        self._session.resume(position)

    def close(self) -> None:
        """End all threads, processes and files. Safe to call again; a loader that is dropped closes itself."""
        self._session.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        a = self._setup.arguments
        size = f"global_batch_size={a.global_batch_size}" if a.global_batch_size else f"batch_size={a.batch_size}"
        return f"Loader({a.dataset!r}, {size}, epochs={a.epochs}, shuffle={a.shuffle!r}, seed={a.seed})"

    @property
    def _session(self) -> Session:
        if self._session_made is None:
            s = self._setup
            self._session_made = Session(
                steps=s.steps,
                start=s.pipeline,
                check=s.check,
                failures=s.failures,
                meter=self._meter,
                across_epochs=s.arguments.across_epochs,
                timeout=s.arguments.timeout,
                after=s.after,
            )
        return self._session_made


class EpochIterator:
    """The iterator of one pass. Letting go of it before its end is leaving the loop."""

    def __init__(self, loader: Loader, session: Session) -> None:
        self._loader = loader
        self._session = session
        try:
            self._pass = session.begin()
            # Not a generator: after a failure, a generator's next() would look like the end.
            self._finalizer = weakref.finalize(self, session.leave, self._pass)
        except BaseException:  # also an interrupt: there is no iterator whose end would close what runs
            session.abandon()
            raise

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> Any:
        return self._session.advance(self._pass)
