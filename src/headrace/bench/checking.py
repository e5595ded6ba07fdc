"""Did a contender deliver what it had to? Every id of every epoch is counted, some rows are compared byte for byte.

While the clock runs, ids are copied, and the chosen rows: at most a two-hundredth of the bytes. All else comes after.
The rows are compared with what the format's own library reads from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.bench.sources import Source

I64 = npt.NDArray[np.int64]
ROWS = 64
SHARE = 200


class Checker:
    """Takes notes of batches; afterwards says what is wrong with them."""

    def __init__(self, samples: int, *, seed: int) -> None:
        self._n = samples
        rows = int(np.clip(self._n // SHARE, 2, ROWS))
        self._chosen = np.sort(np.random.default_rng(seed).choice(self._n, size=min(rows, self._n), replace=False))
        self._wanted = np.zeros(self._n, np.bool_)
        self._wanted[self._chosen] = True
        self._ids: list[list[I64]] = []
        self._rows: list[tuple[int, int, dict[str, npt.NDArray[Any]]]] = []
        self._outside: str | None = None

    def begin(self) -> None:
        """A new epoch."""
        self._ids.append([])

    def note(self, ids: I64, values: Mapping[str, Any]) -> None:
        """A batch was delivered: rows of `values` belong to `ids`."""
        self._ids[-1].append(np.array(ids, np.int64))
        try:
            rows = np.flatnonzero(self._wanted[ids])
        except IndexError:
            self._outside = f"an id is outside of 0..{self._n - 1:,}"
            return
        for row in rows:
            copied = {name: np.array(value[row]) for name, value in values.items()}
            self._rows.append((len(self._ids) - 1, int(ids[row]), copied))

    def verdict(self, source: Source, *, cut: bool) -> bool | str:
        """True, or what is wrong beside this source. Of a run that was cut, the last epoch may be incomplete."""
        if source.n != self._n:
            return f"{self._n:,} samples are known, but the files hold {source.n:,}"
        if self._outside:
            return self._outside
        for epoch, noted in enumerate(self._ids):
            ids = np.concatenate(noted) if noted else np.zeros(0, np.int64)
            wrong = self._count(ids, whole=not (cut and epoch == len(self._ids) - 1))
            if wrong:
                return f"epoch {epoch}: {wrong}"
        return self._compare(source) or True

    def _count(self, ids: I64, *, whole: bool) -> str:
        if len(ids) and (ids.min() < 0 or ids.max() >= self._n):
            return f"ids go from {ids.min():,} to {ids.max():,} instead of 0 to {self._n - 1:,}"
        times = np.bincount(ids, minlength=self._n)
        again, missing = np.flatnonzero(times > 1), np.flatnonzero(times == 0)
        found = []
        if len(again):
            found.append(f"{len(again):,} samples came more than once, first {again[0]:,}")
        if len(missing) and whole:
            found.append(f"{len(missing):,} of {self._n:,} samples did not come, first {missing[0]:,}")
        return "; ".join(found)

    def _compare(self, source: Source) -> str:
        """The first copied row that is not what the file says."""
        for epoch, sample, row in self._rows:
            reference = source.item(sample)
            if set(row) != set(reference):
                return f"epoch {epoch}: fields {sorted(row)} instead of {sorted(reference)}"
            for name, value in row.items():
                want = native(reference[name])
                got = native(value)
                if got.dtype != want.dtype or got.shape != want.shape:
                    return (
                        f"epoch {epoch}: field {name!r} is {got.dtype}{list(got.shape)} "
                        f"instead of {want.dtype}{list(want.shape)}"
                    )
                if got.tobytes() != want.tobytes():
                    return f"epoch {epoch}: sample {sample:,} of field {name!r} is not what the file holds"
        return ""


def native(value: npt.ArrayLike) -> npt.NDArray[Any]:
    """The values in this machine's byte order."""
    array = np.asarray(value)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
