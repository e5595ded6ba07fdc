"""What went wrong, grouped by what a caller would do about it.

- fix the input: `InputError` and below (a path, a dataset, an argument);
- the data is damaged or changed: `DataError` and below, with file, offset and sample;
- the plan cannot exist: `PlanError` (memory too small, order and mode that do not fit);
- something did not answer in time: `DeadlineError`;
- the loader was closed or used after its end: `ClosedError`.

Every message says what, where, expected against found, and what to do.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """The base of every error that Headrace raises on purpose."""


class InputError(HeadraceError, ValueError):
    """An argument, path or dataset that cannot be used as it is: fix the input."""


class FormatError(InputError):
    """A file that is not what its format says, or is of no known format."""


class FieldError(InputError):
    """A field that is missing, or whose shape or dtype does not fit."""


class UnsupportedError(InputError):
    """A feature of a format or a combination of arguments that this reader does not have."""


class StateError(InputError):
    """A saved state or plan that belongs to another run."""


class MissingDependencyError(HeadraceError, ImportError):
    """An optional package that this format or feature needs is not installed."""


class PlanError(HeadraceError):
    """No plan exists for this run: memory too small, or switches that exclude each other."""


class DataError(HeadraceError):
    """Stored data that cannot be delivered: file, offset and sample are named."""

    def __init__(self, message: str, *, path: str = "", offset: int = -1, sample: int = -1) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset
        self.sample = sample


class TruncatedFileError(DataError):
    """A file that ends before the sample's last byte."""


class ChangedFileError(DataError):
    """A file that is not the one it was when the dataset was opened."""


class ReadError(DataError):
    """The operating system refused a read."""


class TransformError(HeadraceError):
    """The user's own function raised; its exception is the cause."""


class BudgetError(HeadraceError):
    """More samples failed than `on_error` allows."""


class WorkerError(HeadraceError):
    """A worker process died, or raised something that cannot leave it."""


class DeadlineError(HeadraceError, TimeoutError):
    """A wait did not end in time. The message says what was waited for."""


class ClosedError(HeadraceError, RuntimeError):
    """The loader was closed, belongs to another process, or its run is over."""


class SkippedSampleWarning(UserWarning):
    """A sample was left out of its batch, with `on_error="warn"`."""
