"""Which datasets can be made, by name? One line each: how it is written, how it is opened, what must be in it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from headrace.cost.sizes import parse_bytes
from headrace.errors import InputError
from headrace.workloads import shapes
from headrace.workloads.neuron_inverter import SAMPLE_NBYTES, expected, neuron_inverter


@dataclass(frozen=True)
class Workload:
    """A kind of dataset. `make(path, samples=, seed=, progress=)` writes it into a folder; the paths, in order.

    `expected(ids, seed=)` is what samples must hold, by field; `fields` are what `headrace.open` is asked for.
    """

    name: str
    what: str
    sample_nbytes: int
    fields: tuple[str, ...]
    make: Callable[..., list[Path]]
    expected: Callable[..., dict[str, npt.NDArray[Any]]]

    def samples_in(self, nbytes: int) -> int:
        """How many samples make a dataset of about this size; at least one."""
        return max(nbytes // self.sample_nbytes, 1)


def _of_bytes(name: str, what: str, make: Callable[..., list[Path]], sample_nbytes: int) -> Workload:
    content = functools.partial(shapes.contents, shapes.one_field(sample_nbytes))
    sized = functools.partial(make, sample_nbytes=sample_nbytes)
    return Workload(name, what, sample_nbytes, ("x",), sized, content)


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "neuron_inverter",
            "19 KB samples of two fields, HDF5 files of unequal length",
            SAMPLE_NBYTES,
            ("trace", "parameters"),
            neuron_inverter,
            expected,
        ),
        _of_bytes("tiny_records", "records of 100 bytes, one HDF5 file", shapes.small_records, 100),
        _of_bytes("small_records", "records of 3 KB, one HDF5 file", shapes.small_records, shapes.RECORD_NBYTES),
        _of_bytes("page_records", "records of 4 KiB, one HDF5 file", shapes.small_records, 4096),
        _of_bytes("chunked", "65 KB samples, HDF5 with one chunk a sample", shapes.chunked, shapes.CHUNK_NBYTES),
        _of_bytes("npy_files", "a folder of 131 KB .npy files", shapes.npy_files, shapes.FILE_NBYTES),
        _of_bytes("large", "2 MB samples, one HDF5 file", shapes.large, shapes.LARGE_NBYTES),
        Workload(
            "many_fields",
            "twelve small fields, one HDF5 file",
            shapes.fields_nbytes(shapes.MANY),
            tuple(shapes.MANY),
            shapes.many_fields,
            functools.partial(shapes.contents, shapes.MANY),
        ),
    )
}


def find_workload(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise InputError(f"workload {name!r} is not known; known: {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def make_workload(
    name: str,
    path: str | os.PathLike[str],
    *,
    size: int | str,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> list[Path]:
    """Write a workload of about this size, like "200MB", into a folder; the paths, in order."""
    workload = find_workload(name)
    samples = workload.samples_in(parse_bytes(size))
    return workload.make(path, samples=samples, seed=seed, progress=progress)
