"""Which shapes of data does a loader meet? Small records, chunks, a folder of files, large samples, many fields.

Every value is a formula of (seed, sample, byte), and the first 8 bytes of the field `x` of sample i are i itself, as a
little-endian int64: whatever loader delivered a sample, it can be asked which one it is and compared bit by bit,
without the files.

Samples are written in blocks, so that memory stays at a few blocks at any size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import InputError, MissingDependencyError

Values = dict[str, npt.NDArray[Any]]
Shape = tuple[int, ...]
Fields = Mapping[str, tuple[str, Shape]]
"""A sample's fields: name -> (dtype, shape). `x` is one of them."""

Progress = Callable[[int], Any] | None

_BLOCK_NBYTES = 8 << 20
_FINITE = {4: np.uint32(0x3FFFFFFF), 8: np.uint64(0x3FFFFFFFFFFFFFFF)}
"""Bits of a float that may be set: all patterns below them are finite and below 2."""

RECORD_NBYTES = 3_000
CHUNK_NBYTES = 65_536
FILE_NBYTES = 131_072
LARGE_NBYTES = 2_000_000
MANY: Fields = {
    "x": ("<i8", ()),
    "image": ("u1", (8, 8, 3)),
    "depth": ("<u2", (8, 8)),
    "mask": ("u1", (8, 8)),
    "label": ("<i4", ()),
    "box": ("<f4", (4,)),
    "points": ("<f4", (5, 3)),
    "pose": ("<f8", (4, 4)),
    "tokens": ("<i4", (16,)),
    "length": ("<i2", ()),
    "weight": ("<f4", ()),
    "time": ("<i8", (2,)),
}


def small_records(
    path: str | os.PathLike[str],
    *,
    samples: int,
    sample_nbytes: int = RECORD_NBYTES,
    seed: int = 0,
    progress: Progress = None,
) -> list[Path]:
    """One HDF5 file of records that are smaller than a page or not much larger: 100 bytes, 3 kB, 4 KiB."""
    return _hdf5(path, "records.h5", one_field(sample_nbytes), samples=samples, seed=seed, progress=progress)


def chunked(
    path: str | os.PathLike[str],
    *,
    samples: int,
    sample_nbytes: int = CHUNK_NBYTES,
    seed: int = 0,
    progress: Progress = None,
) -> list[Path]:
    """One HDF5 file in which every sample is a chunk of its own, without a filter."""
    fields = one_field(sample_nbytes)
    return _hdf5(path, "chunked.h5", fields, samples=samples, seed=seed, progress=progress, chunks=(1, sample_nbytes))


def npy_files(
    path: str | os.PathLike[str],
    *,
    samples: int,
    sample_nbytes: int = FILE_NBYTES,
    seed: int = 0,
    progress: Progress = None,
) -> list[Path]:
    """A folder of .npy files, one for each sample, that sort by name as the samples do."""
    folder = _folder(path, samples)
    written = []
    for ids, values in _blocks(one_field(sample_nbytes), samples=samples, seed=seed, progress=progress):
        for i, row in zip(ids, values["x"], strict=True):
            written.append(folder / f"sample-{i:08d}.npy")
            np.save(written[-1], row)
    return written


def large(
    path: str | os.PathLike[str],
    *,
    samples: int,
    sample_nbytes: int = LARGE_NBYTES,
    seed: int = 0,
    progress: Progress = None,
) -> list[Path]:
    """One HDF5 file of samples that are large enough for a read of their own anywhere."""
    return _hdf5(path, "large.h5", one_field(sample_nbytes), samples=samples, seed=seed, progress=progress)


def many_fields(path: str | os.PathLike[str], *, samples: int, seed: int = 0, progress: Progress = None) -> list[Path]:
    """One HDF5 file of twelve fields, some of which are 2 bytes a sample."""
    return _hdf5(path, "many.h5", MANY, samples=samples, seed=seed, progress=progress)


def one_field(sample_nbytes: int) -> Fields:
    """Samples of one field of bytes."""
    if sample_nbytes < 8:
        raise InputError(f"sample_nbytes={sample_nbytes!r}: a sample spells its id in 8 bytes; give 8 or more")
    return {"x": ("u1", (sample_nbytes,))}


def fields_nbytes(fields: Fields) -> int:
    """Bytes of one sample."""
    return sum(_field_nbytes(*kind) for kind in fields.values())


def contents(fields: Fields, ids: npt.ArrayLike, *, seed: int = 0) -> Values:
    """What the samples with these ids must hold."""
    numbers = np.asarray(ids, np.int64)
    values = {}
    for place, (name, (dtype, shape)) in enumerate(fields.items()):
        nbytes = _field_nbytes(dtype, shape)
        raw = _scattered(numbers, -(-nbytes // 8), seed=seed * 64 + place)[:, :nbytes]
        if np.dtype(dtype).kind == "f":
            size = np.dtype(dtype).itemsize
            raw = (np.ascontiguousarray(raw).view(f"<u{size}") & _FINITE[size]).view(np.uint8)
        if name == "x":
            raw = np.array(raw)
            raw[:, :8] = numbers.astype("<i8")[:, None].view(np.uint8)
        values[name] = np.ascontiguousarray(raw).view(dtype).reshape(len(numbers), *shape)
    return values


def _field_nbytes(dtype: str, shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def _scattered(ids: npt.NDArray[np.int64], words: int, *, seed: int) -> npt.NDArray[np.uint8]:
    """A row of 8 × words bytes for each id: equal for equal (seed, id), unlike any other row's."""
    bits: npt.NDArray[np.uint64] = np.add(
        ids.astype(np.uint64)[:, None] * np.uint64(words), np.arange(words, dtype=np.uint64), dtype=np.uint64
    )
    # Multiply and fold: neighbours share no bits, and one seed's row is no other seed's row shifted.
    bits ^= np.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))
    bits *= np.uint64(0xD6E8FEB86659FD93)
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    return bits.astype("<u8", copy=False).view(np.uint8)


def _blocks(
    fields: Fields, *, samples: int, seed: int, progress: Progress
) -> Iterator[tuple[npt.NDArray[np.int64], Values]]:
    """Runs of ids with their contents; `progress` is told of each when it is written."""
    step = max(_BLOCK_NBYTES // fields_nbytes(fields), 1)
    for start in range(0, samples, step):
        ids = np.arange(start, min(start + step, samples))
        yield ids, contents(fields, ids, seed=seed)
        if progress is not None:
            progress(len(ids))


def _hdf5(
    path: str | os.PathLike[str],
    name: str,
    fields: Fields,
    *,
    samples: int,
    seed: int,
    progress: Progress,
    chunks: Shape | None = None,
) -> list[Path]:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            "writing this dataset needs h5py, which is not installed: pip install 'headrace[hdf5]'"
        ) from error
    file = _folder(path, samples) / name
    with h5py.File(file, "w") as out:
        made = {k: out.create_dataset(k, (samples, *s), d, chunks=chunks) for k, (d, s) in fields.items()}
        for ids, values in _blocks(fields, samples=samples, seed=seed, progress=progress):
            for field, rows in values.items():
                made[field][ids[0] : ids[-1] + 1] = rows
    return [file]


def _folder(path: str | os.PathLike[str], samples: int) -> Path:
    if samples < 1:
        raise InputError(f"samples={samples!r}: a dataset needs at least one")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
