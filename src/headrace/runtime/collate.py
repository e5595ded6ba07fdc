"""How do samples become a batch?

Samples of a map dataset are dicts, tuples or single values. Dicts give fields by key, tuples the fields "0", "1", …, a
single value the field "0". Values of equal shape are stacked; values of equal rank and dtype but different shapes
become a `Ragged`; everything else stays a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.errors import FieldError
from headrace.runtime.batch import Ragged


def collate_samples(samples: list[Any]) -> dict[str, Any]:
    """The fields of these samples."""
    first = samples[0]
    if isinstance(first, Mapping):
        for row, sample in enumerate(samples):
            if sample.keys() != first.keys():
                raise FieldError(
                    f"sample {row} of the batch has the keys {list(sample)}, the first one {list(first)}: give every "
                    "sample the same keys, or pass collate="
                )
        return {str(key): stack_values([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(sample) != len(first) for sample in samples):
            raise FieldError(
                f"samples of {sorted({len(s) for s in samples})} items in one batch: pass collate= to join them"
            )
        return {str(i): stack_values([sample[i] for sample in samples]) for i in range(len(first))}
    return {"0": stack_values(samples)}


def stack_values(values: list[Any]) -> Any:
    """One value per sample, as one array where they are arrays or numbers."""
    if isinstance(values[0], str | bytes | Mapping) or values[0] is None:
        return values
    try:
        arrays = [np.asarray(value) for value in values]
    except (TypeError, ValueError):
        return values
    head = arrays[0]
    if head.dtype.hasobject or any(array.ndim != head.ndim or array.dtype != head.dtype for array in arrays):
        return values
    if all(array.shape == head.shape for array in arrays):
        return np.stack(arrays)
    shapes = np.array([array.shape for array in arrays], np.int64)
    return Ragged.of(np.concatenate([array.reshape(-1) for array in arrays]), shapes)


class Each:
    """A transform of one field, from a function of one sample's value."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, values: Any) -> Any:
        """The function's results, stacked."""
        return stack_values([self._function(value) for value in values])


def each(function: Callable[[Any], Any]) -> Each:
    """Apply a function to every sample's value of a field and stack the results: `transform={"image": hr.each(f)}`."""
    return Each(function)
