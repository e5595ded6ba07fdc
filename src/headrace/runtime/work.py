"""What does a worker do for one step?

Fetch the samples of a map dataset and collate them, run the user's transform over a batch, or both. A worker raises
nothing of the user's: what failed comes back beside what could be made, with the user's exception and traceback, and
the loader's `on_error` decides at the step where it belongs. Everything here can be sent to another process.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import FieldError, InputError, WorkerError
from headrace.formats.map import MapDataset
from headrace.runtime.batch import Batch
from headrace.runtime.collate import collate_samples

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Task:
    """One step of a map dataset: its place in the run and the ids to fetch."""

    epoch: int
    step: int
    ids: I64


class RemoteTraceback(Exception):
    """The traceback of a worker process, as text: the cause of the exception that came from there."""

    def __str__(self) -> str:
        return f"in the worker process:\n{self.args[0]}"


@dataclass(frozen=True, eq=False)
class Failed:
    """What the user's code raised: for which samples, in which stage ('fetch', 'collate', 'transform')."""

    ids: I64
    stage: str
    error: Exception
    text: str

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_worker, (self.ids, self.stage, sendable(self.error), self.text)


def _from_worker(ids: I64, stage: str, error: Exception, text: str) -> Failed:
    error.__cause__ = RemoteTraceback(text)
    return Failed(ids, stage, error, text)


def sendable(error: Exception) -> Exception:
    """The exception itself if it survives pickling, else one that says what it was."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")
    return error


@dataclass(frozen=True, eq=False)
class Made:
    """What a worker made of one step: the value for the user (None if all of it failed), its samples, what failed."""

    value: Any
    ids: I64
    epoch: int
    step: int
    failed: list[Failed] = field(default_factory=list)


class Transform:
    """The user's transform: one function of the batch, or one function per field."""

    def __init__(self, given: Callable[[Batch], Any] | Mapping[str, Callable[[Any], Any]]) -> None:
        if not callable(given) and not isinstance(given, Mapping):
            raise InputError(
                f"transform={given!r}: expected a function of the batch, or a mapping of field names to functions"
            )
        self.given = given

    def check(self, names: list[str]) -> None:
        """Refuse functions for fields that the dataset does not have."""
        if isinstance(self.given, Mapping):
            for name in self.given:
                if name not in names:
                    raise FieldError(
                        f"transform= names the field {name!r}; the dataset's fields are {', '.join(names)}"
                    )

    def __call__(self, batch: Batch) -> Any:
        """The transform's result for this batch."""
        if not isinstance(self.given, Mapping):
            return returned(self.given(batch), "a batch")
        fields = dict(batch.items())
        for name, function in self.given.items():
            try:
                fields[name] = returned(function(batch[name]), "the field's values")
            except Exception as error:
                error.add_note(f"in the transform of field {name!r}")
                raise
        return batch.replaced(fields)


class TransformWork:
    """Transform one batch."""

    what = "transform"

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __call__(self, batch: Batch) -> Made:
        """The transformed batch."""
        return transformed(batch, self._transform, [])


class MapWork:
    """Fetch, collate and transform one step of a map dataset."""

    what = "the map dataset (with collate and transform)"

    def __init__(
        self,
        *,
        dataset: MapDataset,
        collate: Callable[[list[Any]], Any] | None,
        transform: Transform | None,
        stop_at_failure: bool,
    ) -> None:
        self._dataset = dataset
        self._collate = collate or collate_samples
        self._transform = transform
        self._stop = stop_at_failure

    def __call__(self, task: Task) -> Made:
        """The batch of one step."""
        samples, ids, failed = self._fetch(task)
        if not samples or (failed and self._stop):
            return Made(None, ids[:0], task.epoch, task.step, failed)
        try:
            value = returned(self._collate(samples), "a batch")
        except Exception as error:
            failed.append(caught(ids, "collate", error))
            return Made(None, ids[:0], task.epoch, task.step, failed)
        if isinstance(value, Mapping):
            weight = len(ids) / len(task.ids)
            value = Batch(dict(value), ids=ids, weight=weight, epoch=task.epoch, step=task.step)
        if self._transform is None:
            return Made(value, ids, task.epoch, task.step, failed)
        return transformed(value, self._transform, failed, ids=ids, epoch=task.epoch, step=task.step)

    def _fetch(self, task: Task) -> tuple[list[Any], I64, list[Failed]]:
        if hasattr(self._dataset.dataset, "__getitems__"):
            try:
                return self._dataset.fetch(task.ids), task.ids, []
            except Exception as error:
                if self._stop:
                    return [], task.ids, [caught(task.ids, "fetch", error)]
        samples: list[Any] = []
        good: list[int] = []
        failed: list[Failed] = []
        for row, sample in enumerate(task.ids):
            try:
                samples += self._dataset.fetch(task.ids[row : row + 1])
                good.append(row)
            except Exception as error:
                failed.append(caught(np.array([sample]), "fetch", error))
                if self._stop:
                    break
        return samples, task.ids[good], failed


def transformed(
    value: Any, transform: Transform, failed: list[Failed], *, ids: I64 | None = None, epoch: int = -1, step: int = -1
) -> Made:
    """The transform's result for a batch, or what it raised: it sees the whole batch, so it fails as a whole."""
    if isinstance(value, Batch):
        ids, epoch, step = value.ids, value.epoch, value.step
    assert ids is not None
    try:
        return Made(transform(value), ids, epoch, step, failed)
    except Exception as error:
        return Made(None, ids[:0], epoch, step, [*failed, caught(ids, "transform", error)])


def returned(value: Any, what: str) -> Any:
    """What the user's function returned. None is a `return` that was forgotten, and would train on nothing."""
    if value is None:
        raise TypeError(f"the function returned None instead of {what}: does every path through it end in a return?")
    return value


def caught(ids: I64, stage: str, error: Exception) -> Failed:
    """The failure that is being handled."""
    return Failed(ids, stage, error, traceback.format_exc())
