"""What does the user get for one step?

A `Batch` maps field names to values. The values of a storage dataset are views of the loader's own buffer: no byte is
copied on the way out, and the buffer is used again only when every view of it is gone. A ragged field comes as a
`Ragged`: one view per sample.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from headrace.errors import FieldError

I64 = npt.NDArray[np.int64]


class Ragged(Sequence[npt.NDArray[Any]]):
    """The values of a ragged field: a sequence of arrays, one per sample, that share one flat array.

    `values` holds all samples one after the other; sample i is `values[offsets[i]:offsets[i + 1]]`, of `shapes[i]`.
    """

    __slots__ = ("offsets", "shapes", "values")

    def __init__(self, values: npt.NDArray[Any], offsets: I64, shapes: I64) -> None:
        self.values = values
        self.offsets = offsets
        self.shapes = shapes

    @classmethod
    def of(cls, values: npt.NDArray[Any], shapes: I64) -> Ragged:
        """Samples of these shapes (one row each), laid one after the other in `values`."""
        offsets = np.zeros(len(shapes) + 1, np.int64)
        np.cumsum(np.prod(shapes, axis=1, dtype=np.int64), out=offsets[1:])
        return cls(values, offsets, shapes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of every sample."""
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.shapes)

    @overload
    def __getitem__(self, index: int) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[npt.NDArray[Any]]: ...

    def __getitem__(self, index: int | slice) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        return self.values[self.offsets[row] : self.offsets[row + 1]].reshape(self.shapes[row])

    def take(self, rows: I64) -> Ragged:
        """A copy with these samples only."""
        parts = [self[int(row)].reshape(-1) for row in rows]
        values = np.concatenate(parts) if parts else self.values[:0].copy()
        return Ragged.of(values, self.shapes[rows])

    def __repr__(self) -> str:
        return f"Ragged({len(self)} samples, dtype={self.dtype}, {self.values.nbytes:,} bytes)"


class Batch(Mapping[str, Any]):
    """One step on this rank: `batch["image"]`, and beside it `ids`, `weight`, `epoch` and `step`.

    `ids` are the sample ids in the order of the rows, `step` counts within the epoch from 0. `weight` is the share of
    the global batch that is here: 1.0 on one rank, less where samples were skipped. `len(batch)` is its number of rows;
    `batch.keys()` are its fields.
    """

    __slots__ = ("_fields", "epoch", "ids", "step", "weight")

    def __init__(self, fields: dict[str, Any], *, ids: I64, weight: float, epoch: int, step: int) -> None:
        self._fields = fields
        self.ids = ids
        self.weight = weight
        self.epoch = epoch
        self.step = step

    def __getitem__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            known = ", ".join(repr(key) for key in self._fields)
            raise FieldKeyError(f"batch has no field {name!r}; its fields are {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self.ids)

    def __bool__(self) -> bool:
        return len(self.ids) > 0

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    # The inherited views would take len(batch), which counts rows, for the number of fields.
    def keys(self) -> KeysView[str]:
        """The names of the fields."""
        return self._fields.keys()

    def values(self) -> ValuesView[Any]:
        """The values of the fields."""
        return self._fields.values()

    def items(self) -> ItemsView[str, Any]:
        """Names and values of the fields."""
        return self._fields.items()

    # Comparing arrays has no one answer: a batch equals itself.
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def replaced(self, fields: dict[str, Any]) -> Batch:
        """The same step with other values."""
        return Batch(fields, ids=self.ids, weight=self.weight, epoch=self.epoch, step=self.step)

    def rows(self, keep: I64) -> Batch:
        """A copy with these rows only; the weight shrinks with them."""
        fields = {k: v.take(keep) if isinstance(v, Ragged) else v[keep] for k, v in self._fields.items()}
        weight = self.weight * len(keep) / len(self.ids)
        return Batch(fields, ids=self.ids[keep], weight=weight, epoch=self.epoch, step=self.step)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {_shape(value)}" for name, value in self._fields.items())
        return f"Batch(epoch {self.epoch}, step {self.step}, {len(self)} rows; {shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._fields, self.ids, self.weight, self.epoch, self.step)


class FieldKeyError(FieldError, KeyError):
    """A batch was asked for a field that it does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


def _rebuild(fields: dict[str, Any], ids: I64, weight: float, epoch: int, step: int) -> Batch:
    return Batch(fields, ids=ids, weight=weight, epoch=epoch, step=step)


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return repr(value) if isinstance(value, Ragged) else type(value).__name__
