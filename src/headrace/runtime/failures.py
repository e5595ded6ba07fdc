"""What happens to a sample that cannot be read?

`raise` ends the iteration with an error that names file, offset, sample and field, at the step the sample belongs to,
the same step whatever the plan read early. `warn` and `skip` drop the sample from its batch, until more distinct
samples failed than the budget allows. A sample that failed once is never delivered later, also not out of memory: the
bytes that were kept of it are not the bytes of the file.
"""

from __future__ import annotations

import errno as errnos
import math
import os
import threading
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import (
    BudgetError,
    ChangedFileError,
    DataError,
    InputError,
    ReadError,
    SkippedSampleWarning,
    TruncatedFileError,
)
from headrace.values.layout import Layout

I64 = npt.NDArray[np.int64]
POLICIES = ("raise", "warn", "skip")


@dataclass(frozen=True)
class Skipped:
    """One sample that was not delivered, and why."""

    id: int
    path: str
    offset: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Policy:
    """`on_error` and its budget: a count of distinct samples, or a share of the dataset; None is no limit."""

    on_error: str
    budget: int | None

    @classmethod
    def parse(cls, *, on_error: str, max_failures: float | None, n: int) -> Policy:
        """The policy that these arguments name, for a dataset of n samples."""
        if on_error not in POLICIES:
            raise InputError(f"on_error={on_error!r}: expected one of {', '.join(map(repr, POLICIES))}")
        if max_failures is None:
            return cls(on_error, None)
        if on_error == "raise":
            raise InputError(
                f"max_failures={max_failures!r} means nothing with on_error='raise', which stops at the first failure: "
                "choose on_error='warn' or 'skip', or leave max_failures out"
            )
        share = isinstance(max_failures, float)
        known = share or (isinstance(max_failures, int) and not isinstance(max_failures, bool))
        # Written so that NaN, which is neither below nor above anything, is refused too.
        if not known or not 0 <= max_failures <= (1 if share else math.inf):
            raise InputError(
                f"max_failures={max_failures!r}: expected a count (int) or a share of all samples (0.0 to 1.0)"
            )
        return cls(on_error, int(max_failures * n) if share else int(max_failures))


class Failures:
    """The failed samples of a loader's life. They outlive an epoch and a restart of the pipeline."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.skipped: list[Skipped] = []
        self._errors: dict[int, DataError] = {}
        self._bad: I64 = np.zeros(0, np.int64)
        self._told: set[int] = set()
        self._lock = threading.Lock()

    def note(self, errors: list[DataError]) -> None:
        """Remember samples whose bytes could not be read; their steps may be far ahead."""
        if not errors:
            return
        with self._lock:
            for error in errors:
                self._errors.setdefault(error.sample, error)
            self._bad = np.array(sorted(self._errors), np.int64)

    def keep(self, ids: I64) -> I64 | None:
        """The rows of a step that may be delivered, None for all; raises or warns as the policy says."""
        if not len(self._bad):
            return None
        with self._lock:
            bad = np.isin(ids, self._bad)
            if not bad.any():
                return None
            for sample in np.unique(ids[bad]):
                self._meet(self._errors[int(sample)])
        return np.flatnonzero(~bad)

    def drop(self, ids: I64, *, reason: str, error: BaseException | None = None) -> None:
        """Count samples as skipped whose fetch or transform failed, rather than the read of an extent."""
        if not len(ids):
            return
        with self._lock:
            fresh = [int(sample) for sample in ids if int(sample) not in self._told]
            for sample in fresh:
                self._told.add(sample)
                self.skipped.append(Skipped(sample, "", -1, reason))
            if fresh:
                self._warn(f"samples {', '.join(map(str, fresh[:8]))}{' …' if len(fresh) > 8 else ''} are", reason)
            self._spend(cause=error)

    def _meet(self, error: DataError) -> None:
        # A stored exception must never be raised itself: its traceback would keep the frames of the user's loop alive.
        fresh = type(error)(str(error), path=error.path, offset=error.offset, sample=error.sample)
        if self.policy.on_error == "raise":
            raise fresh
        if error.sample in self._told:
            return
        self._told.add(error.sample)
        self.skipped.append(Skipped(error.sample, error.path, error.offset, str(error)))
        self._warn(f"sample {error.sample} is", str(error))
        self._spend(cause=fresh)

    def _warn(self, what: str, reason: str) -> None:
        if self.policy.on_error == "warn":
            warnings.warn(f"{what} left out: {reason}", SkippedSampleWarning, stacklevel=4)

    def _spend(self, *, cause: BaseException | None) -> None:
        budget = self.policy.budget
        if budget is not None and len(self.skipped) > budget:
            last = self.skipped[-1]
            raise BudgetError(
                f"{len(self.skipped):,} samples could not be delivered and max_failures allows {budget:,}; the last "
                f"was sample {last.id}: {last.reason}. Repair the data, or allow more"
            ) from cause


def read_error(failure: tuple[int, int, str, int, int, int, int], *, layout: Layout) -> DataError:
    """The error of one piece that the engine could not read: (id, part, path, offset, nbytes, errno, got)."""
    sample, part, path, offset, nbytes, code, _ = failure
    field = _field_of(part, layout)
    where = f"sample {sample:,} of field {field!r} lies at bytes {offset:,}–{offset + nbytes:,}"
    named: dict[str, Any] = {"path": path, "offset": offset, "sample": sample}
    if code == 0:
        return TruncatedFileError(
            f"{path} {_end_of(path, before=offset + nbytes)} but {where}; the file was cut or is still being written: "
            "copy it again or restore it, or leave it out of the files that are opened",
            **named,
        )
    if code == errnos.ESTALE:
        return ChangedFileError(
            f"{path} is not the file that was opened with the dataset (another size or time), and {where}; open the "
            "dataset again, or restore the file: training on would mix two versions of the data",
            **named,
        )
    name = errnos.errorcode.get(code, f"errno {code}")
    return ReadError(
        f"{path}: reading failed with {name} ({os.strerror(code)}) where {where}; look at the disk or the mount "
        "(dmesg), or leave such samples out with on_error='skip'",
        **named,
    )


def _end_of(path: str, *, before: int) -> str:
    """Where a file ends that was too short for a sample: a read only knows that it got less than it asked for."""
    try:
        size = os.stat(path).st_size
    except OSError:
        return f"ended before byte {before:,}, and is now gone,"
    return f"ends at byte {size:,}" if size < before else f"ended before byte {before:,} when it was read"


def _field_of(part: int, layout: Layout) -> str:
    for field in layout.fields:
        if part < len(field.parts):
            return field.name
        part -= len(field.parts)
    return "?"
