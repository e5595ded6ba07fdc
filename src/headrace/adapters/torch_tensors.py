"""How do batches become tensors?

By `torch.from_numpy` on the batch's own memory, without a copy. What torch has no dtype for is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from headrace.adapters.torch_workers import no_worker_info
from headrace.errors import UnsupportedError
from headrace.runtime.batch import Batch, Ragged
from headrace.runtime.work import returned


class Whole:
    """A batch that the user's own collate function made: handed out as it is, whatever it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


class MapCollate:
    """Joins the samples of a map dataset as torch does, or as the user's `collate_fn` does."""

    def __init__(self, function: Callable[[list[Any]], Any] | None) -> None:
        self._function = function or default_collate

    def __call__(self, samples: list[Any]) -> Whole:
        """The batch of these samples."""
        with no_worker_info():
            return Whole(self._function(samples))


class WholeTransform:
    """A transform of a map dataset's batch, after collating."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, whole: Whole) -> Whole:
        """The transformed batch."""
        return Whole(returned(self._function(whole.value), "a batch"))


class FileCollate:
    """Calls the user's `collate_fn` with the samples of a batch of files, each a dict of tensors; transforms first."""

    def __init__(self, function: Callable[[list[Any]], Any], transform: Callable[[Batch], Any] | None) -> None:
        self._function = function
        self._transform = transform

    def __call__(self, batch: Batch) -> Whole:
        """The batch as the user's function joins it."""
        value = batch if self._transform is None else self._transform(batch)
        if not isinstance(value, Batch):
            raise UnsupportedError(
                f"transform= gave a {type(value).__name__} and collate_fn= needs the samples of a batch: let the "
                "transform give a batch, or do both in one function"
            )
        fields = to_tensors(value)
        return Whole(self._function([{k: v[i] for k, v in fields.items()} for i in range(len(batch))]))


def to_tensors(batch: Batch) -> dict[str, Any]:
    """The fields of a batch as tensors over the same memory; a ragged field is a list of tensors."""
    return {name: to_tensor(value, name) for name, value in batch.items()}


def to_tensor(value: Any, name: str) -> Any:
    """An array as a tensor over the same memory; what is no array stays as it is."""
    if isinstance(value, Ragged):
        return [to_tensor(sample, name) for sample in value]
    if not isinstance(value, np.ndarray):
        return value
    try:
        return torch.from_numpy(value)
    except TypeError as error:
        raise UnsupportedError(
            f"field {name!r} has dtype {value.dtype}, which torch has not: leave it out with "
            f"headrace.open(..., fields=[...]), or convert it with transform={{{name!r}: function}}"
        ) from error


def pin(value: Any) -> Any:
    """The same batch in pinned memory, in the containers that torch's own loader looks into."""
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return {key: pin(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(pin(item) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(pin(item) for item in value)
    return value
