"""Datasets whose every value says which sample it belongs to."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

N = 203
WIDTH = 8000


def write_h5(path: Path, *, first: int = 0, n: int = N, width: int = WIDTH) -> Path:
    """Samples first..first+n-1: `x` repeats the id (big-endian), `y` is the id."""
    ids = np.arange(first, first + n)
    with h5py.File(path, "w") as file:
        file["x"] = np.repeat(ids.astype(">f4"), width).reshape(n, width)
        file["y"] = ids
    return path


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """203 samples of 32 kB in two files of unequal length: 6.5 MB."""
    folder = tmp_path_factory.mktemp("train")
    write_h5(folder / "a.h5", n=120)
    write_h5(folder / "b.h5", first=120, n=N - 120)
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 samples of 80 bytes."""
    return write_h5(tmp_path_factory.mktemp("small") / "small.h5", n=90, width=18)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A file of 90 samples of 4 kB that a test may damage."""
    return write_h5(tmp_path / "fresh.h5", n=90, width=1000)
