"""How do the bytes of a batch buffer become the values of its fields?

Fixed fields are row-major arrays, ragged ones a run of samples; both are views of the buffer. Values that are stored in
the other byte order are swapped where they lie: the buffer belongs to this one batch.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace.runtime.batch import Ragged
from headrace.values.layout import Field

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


class Buffer(Protocol):
    """The memory of one batch, as the engine hands it out."""

    def view(self, offset: int, nbytes: int) -> U8:
        """Bytes of the buffer; they keep it alive."""
        ...


def values_of(field: Field, *, buffer: Buffer, offset: int, ids: I64) -> npt.NDArray[Any] | Ragged:
    """The values of one field for these samples, whose bytes start at `offset`."""
    if field.shape is not None:
        raw = buffer.view(offset, len(ids) * field.nbytes)
        return delivered(raw, field.stored).reshape((len(ids), *field.shape))
    if field.shapes is None:
        raise ValueError(f"field {field.name!r} has neither a shape nor a shape for every sample")
    shapes = field.shapes[ids]
    count = int(np.prod(shapes, axis=1, dtype=np.int64).sum())
    return Ragged.of(delivered(buffer.view(offset, count * field.stored.itemsize), field.stored), shapes)


def delivered(raw: U8, stored: np.dtype[Any]) -> npt.NDArray[Any]:
    """These bytes as values in this machine's byte order, swapped in place where they are stored in the other."""
    values = raw.view(stored)
    native = stored.newbyteorder("=")
    if native != stored:
        _swap(values)
    return values.view(native)


def _swap(values: npt.NDArray[Any]) -> None:
    """Swap what is not native; a compound may hold both, so every member decides for itself."""
    if values.dtype.names is not None:
        for name in values.dtype.names:
            _swap(values[name])
    elif not values.dtype.isnative:
        values.byteswap(inplace=True)
