"""At which bytes of the file do the samples of an HDF5 dataset lie?

1. A contiguous dataset is one run of samples.
2. A chunk that holds whole samples is one run; chunks that follow each other in the file become one.
3. Chunks that cut the samples' own dimensions give one part per cell of that grid; edge chunks are stored whole.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from headrace.errors import FormatError, UnsupportedError
from headrace.formats.hdf5_file import import_h5py
from headrace.formats.segments import make_segments, merge_segments
from headrace.values.layout import I64, Box, Part

FILTERS = {
    1: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


def unreadable(dataset: Any) -> str | None:
    """Why a dataset's bytes do not lie in the file as they are in memory, or None where they do."""
    h5d = import_h5py().h5d
    properties = dataset.id.get_create_plist()
    layout = properties.get_layout()
    if layout == h5d.VIRTUAL:
        return "is virtual: its data are in other files; open those files instead"
    if properties.get_external_count():
        return "keeps its data in external files: open those with format='bin'"
    if layout == h5d.COMPACT:
        return "has compact storage (inside the file's metadata): rewrite it as a contiguous dataset"
    filters = [properties.get_filter(i) for i in range(properties.get_nfilters())]
    if filters:
        names = ", ".join(FILTERS.get(f[0]) or f[3].decode() or f"filter {f[0]}" for f in filters)
        return (
            f"is stored through filters ({names}): only unfiltered data can be read; rewrite it without them "
            "(h5repack -f NONE)"
        )
    return None


def whole_extents(dataset: Any, path: str, *, stored: np.dtype[Any], inner: tuple[int, ...]) -> tuple[Part, ...]:
    """The parts of a dataset that has samples; `inner` is the shape of an element that is an array itself."""
    if dataset.id.get_create_plist().get_layout() == import_h5py().h5d.CHUNKED:
        return _chunked(dataset, path, stored=stored, inner=inner)
    offset = dataset.id.get_offset()
    # Where there is no storage, get_offset is None; behind a user block it is that "None" (-1) plus the block's size.
    if offset is None or dataset.id.get_storage_size() == 0:
        raise UnsupportedError(
            f"{path}: dataset {dataset.name!r} has no storage: it was never written; write it or leave it out"
        )
    nbytes = prod(dataset.shape[1:]) * prod(inner) * stored.itemsize
    return (Part(make_segments(counts=dataset.shape[0], file=0, offset=offset, stride=nbytes, nbytes=nbytes)),)


def _chunked(dataset: Any, path: str, *, stored: np.dtype[Any], inner: tuple[int, ...]) -> tuple[Part, ...]:
    """One part per cell of the grid that chunks make of a sample: one, without a box, where they hold whole samples."""
    n, *rest = dataset.shape
    rows, *cell = dataset.chunks
    element = prod(inner) * stored.itemsize
    addresses = _addresses(dataset, path, size=rows * prod(cell) * element)
    counts = np.full(len(addresses), rows, np.int64)
    counts[-1] = n - rows * (len(addresses) - 1)
    nbytes = prod(cell) * element
    parts = []
    for j, corner in enumerate(product(*(range(0, d, c) for d, c in zip(rest, cell, strict=True)))):
        segments = make_segments(counts=counts, file=0, offset=addresses[:, j], stride=nbytes, nbytes=nbytes)
        box = None
        if cell != rest:
            valid = tuple(min(c, d - o) for c, d, o in zip(cell, rest, corner, strict=True))
            box = Box(stored=(*cell, *inner), valid=(*valid, *inner), origin=(*corner, *(0 for _ in inner)))
        parts.append(Part(merge_segments(segments), box=box))
    return tuple(parts)


def _addresses(dataset: Any, path: str, *, size: int) -> I64:
    """The file offset of every chunk: rows of chunks × cells of a sample."""
    chunks = dataset.chunks
    grid = [-(-d // c) for d, c in zip(dataset.shape, chunks, strict=True)]
    table = np.full(grid, -1, np.int64)
    base = _user_block(dataset)
    for info in _chunk_infos(dataset):
        place = tuple(o // c for o, c in zip(info.chunk_offset, chunks, strict=True))
        if info.size != size:
            raise FormatError(
                f"{path}: the chunk at {info.chunk_offset} of dataset {dataset.name!r} has {info.size:,} bytes, not "
                f"{size:,}: the file is damaged, or its chunks are filtered"
            )
        if info.byte_offset is not None and all(p < g for p, g in zip(place, grid, strict=True)):
            table[place] = info.byte_offset + base
    table = table.reshape(grid[0], -1)
    if (table < 0).any():
        row = int(np.argmax((table < 0).any(axis=1)))
        raise UnsupportedError(
            f"{path}: {int((table < 0).sum()):,} of {table.size:,} chunks of dataset {dataset.name!r} were never "
            f"written, the first for sample {row * chunks[0]:,}: write them, or open the samples that exist"
        )
    return table


def _chunk_infos(dataset: Any) -> list[Any]:
    """What HDF5 knows of every chunk: one pass, or chunk by chunk where an older library has no correct pass."""
    infos: list[Any] = []
    if hasattr(dataset.id, "chunk_iter") and import_h5py().version.hdf5_version_tuple >= (1, 14, 0):
        dataset.id.chunk_iter(infos.append)
        return infos
    return [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]


def _user_block(dataset: Any) -> int:
    """What to add to a chunk's address: HDF5 before 1.14.4 forgot the user block (HDFGroup/hdf5#3003)."""
    if import_h5py().version.hdf5_version_tuple >= (1, 14, 4):
        return 0
    return int(dataset.file.userblock_size)
