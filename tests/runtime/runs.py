"""What the tests of the runtime do again and again: run a loader, check what it gives."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import headrace as hr

DISK = hr.Storage(iops=1500, bandwidth=150e6, name="a cloud disk")
SRC = Path(hr.__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent


def check(batch: hr.Batch) -> list[int]:
    """The ids of a batch whose values are those of its ids."""
    assert (batch["y"] == batch.ids).all()
    assert (batch["x"] == batch.ids[:, None]).all()
    return batch.ids.tolist()


def run(loader: hr.Loader, epochs: int) -> list[list[int]]:
    """The ids of every step of some epochs, values checked."""
    return [check(batch) for _ in range(epochs) for batch in loader]


def each_once(ids: list[list[int]], n: int) -> None:
    """Every id of 0..n-1 exactly once."""
    assert np.array_equal(np.sort(np.concatenate(ids)), np.arange(n))


def our_threads() -> int:
    """Native and Python threads of this process."""
    return psutil.Process().num_threads()


def no_python_threads() -> bool:
    """Whether no thread of the loader is alive."""
    return not [t for t in threading.enumerate() if t.name.startswith("headrace")]


def script(text: str, *args: Any, **options: Any) -> subprocess.Popen[str]:
    """A Python process that runs this text, with the package and these helpers importable."""
    environment = {"PYTHONPATH": f"{SRC}:{HERE}", "PATH": "/usr/bin:/bin", "HEADRACE_PROBE": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options,
    )  # fmt: skip
