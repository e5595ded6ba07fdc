"""What does a dataset of small samples in a few large files look like? This one has the shape of the Neuron Inverter.

Each sample is a `trace` of 1600 × 3 float32 (three recordings of a neuron's voltage) and 19 `parameters` of its model,
in HDF5 files of unequal length: 19,276 bytes, the size at which one read for each sample hurts most.

The content is a formula of (seed, sample id, element) whose values float32 holds exactly: any sample that was delivered
can be compared with what must be in it, bit by bit, without the files. The first two parameters spell the id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import InputError, MissingDependencyError

F32 = npt.NDArray[np.float32]

TRACE = (1600, 3)
PARAMETERS = 19
SAMPLE_NBYTES = 4 * (TRACE[0] * TRACE[1] + PARAMETERS)

_ELEMENTS = TRACE[0] * TRACE[1] + PARAMETERS
_BLOCK = 256  # samples written at once: 5 MiB, whatever the size of the dataset
_UNEVEN = (4, 7, 5, 8)  # relative lengths of the files
_BITS = 24  # of a float32's fraction: every value is a multiple of 2**-24
_ID_BITS = 22  # of the id in each of the first two parameters


def neuron_inverter(
    path: str | os.PathLike[str],
    *,
    samples: int,
    files: int = 4,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> list[Path]:
    """Write the dataset into a folder as part-000.h5, part-001.h5, …; the paths, in order.

    `progress` is called with the number of samples after each block. Memory stays at a few blocks at any size.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            "writing this dataset needs h5py, which is not installed: pip install 'headrace[hdf5]'"
        ) from error
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    first = 0
    for number, count in enumerate(unequal_files(samples, files)):
        file = folder / f"part-{number:03d}.h5"
        with h5py.File(file, "w") as out:
            trace = out.create_dataset("trace", (count, *TRACE), np.float32)
            parameters = out.create_dataset("parameters", (count, PARAMETERS), np.float32)
            for start in range(0, count, _BLOCK):
                stop = min(start + _BLOCK, count)
                values = expected(np.arange(first + start, first + stop), seed=seed)
                trace[start:stop], parameters[start:stop] = values["trace"], values["parameters"]
                if progress is not None:
                    progress(stop - start)
        first += count
        written.append(file)
    return written


def expected(ids: npt.ArrayLike, *, seed: int = 0) -> dict[str, F32]:
    """What the samples with these ids must hold."""
    numbers = np.asarray(ids, np.uint64)
    # A multiplication by an odd number visits all values before any comes again; the seed shifts where it starts.
    first = numbers[:, None] * _ELEMENTS
    scattered: npt.NDArray[np.uint64] = np.add(first, np.arange(_ELEMENTS, dtype=np.uint64), dtype=np.uint64)
    scattered += seed % (1 << 32) * 0x9E3779B1
    scattered *= 0x9E3779B97F4A7C15
    scattered >>= 64 - _BITS
    values = scattered.astype(np.float32)
    values *= np.float32(2.0**-_BITS)
    parameters = values[:, TRACE[0] * TRACE[1] :]
    parameters[:, 0] = (numbers >> _ID_BITS).astype(np.float32)
    parameters[:, 1] = (numbers & ((1 << _ID_BITS) - 1)).astype(np.float32)
    return {"trace": values[:, : TRACE[0] * TRACE[1]].reshape(-1, *TRACE), "parameters": parameters}


def samples_in(nbytes: int) -> int:
    """How many samples make a dataset of about this size; at least one."""
    return max(nbytes // SAMPLE_NBYTES, 1)


def unequal_files(samples: int, files: int) -> list[int]:
    """Samples of each file: they differ by up to a factor of two, as files that were not cut by a loader do."""
    if not 1 <= files <= samples:
        raise InputError(f"files={files!r} for samples={samples!r}: at least one file, and a sample in each")
    weights = np.array([_UNEVEN[number % len(_UNEVEN)] for number in range(files)], np.float64)
    ends = np.rint(np.cumsum(weights) / weights.sum() * samples).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    if counts.min() < 1:
        counts = np.diff(np.linspace(0, samples, files + 1).astype(np.int64))
    return [int(count) for count in counts]
