"""Headrace: a data loader that plans a training run's I/O the way a database plans a query.

    import headrace as hr

    dataset = hr.open("train.h5", fields=["image", "label"])
    loader = hr.Loader(dataset, global_batch_size=256, epochs=90, shuffle="exact", seed=0, memory="8GiB")

Public names are imported when they are first used: `import headrace` is cheap and pulls in no framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace import errors as errors
    from headrace.formats import Dataset as Dataset
    from headrace.formats import MapDataset as MapDataset
    from headrace.formats import concat as concat
    from headrace.formats import inspect as inspect
    from headrace.formats import open as open
    from headrace.runtime.batch import Batch as Batch
    from headrace.runtime.batch import Ragged as Ragged
    from headrace.runtime.collate import each as each
    from headrace.runtime.loader import Loader as Loader
    from headrace.runtime.report import Report as Report
    from headrace.values.cost import Storage as Storage

__version__ = "0.1.0"

_NAMES = {
    "Batch": "headrace.runtime.batch",
    "Dataset": "headrace.formats",
    "Loader": "headrace.runtime.loader",
    "MapDataset": "headrace.formats",
    "Ragged": "headrace.runtime.batch",
    "Report": "headrace.runtime.report",
    "Storage": "headrace.values.cost",
    "concat": "headrace.formats",
    "each": "headrace.runtime.collate",
    "inspect": "headrace.formats",
    "open": "headrace.formats",
}
_MODULES = ("bench", "errors", "torch", "workloads")

__all__ = [
    "Batch",
    "Dataset",
    "Loader",
    "MapDataset",
    "Ragged",
    "Report",
    "Storage",
    "concat",
    "each",
    "errors",
    "inspect",
    "open",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"headrace.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
