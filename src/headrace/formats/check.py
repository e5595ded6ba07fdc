"""Are the files still those that the layout was taken from, and does every sample lie inside them?

Reads no data: one `stat` per file, and arithmetic on segments.
"""

from __future__ import annotations

import os

import numpy as np

from headrace.errors import ChangedFileError, TruncatedFileError
from headrace.formats.scan import map_paths
from headrace.formats.segments import sample_counts, segment_ends
from headrace.values.layout import Field, File, Layout, Part


def check_unchanged(layout: Layout) -> None:
    """Raise `ChangedFileError` if a file's size or time differs from when the dataset was opened."""
    found = map_paths(_facts, [f.path for f in layout.files])
    for file, facts in zip(layout.files, found, strict=True):
        if facts != (file.size, file.mtime_ns):
            raise changed_file(file, facts)


def _facts(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def changed_file(file: File, facts: tuple[int, int] | None) -> ChangedFileError:
    """The error for a file that is now as `facts` (size, mtime_ns) say, or gone."""
    expected = f"{file.size:,} bytes, modified at {file.mtime_ns} ns"
    now = "it is gone" if facts is None else f"found {facts[0]:,} bytes, modified at {facts[1]} ns"
    return ChangedFileError(
        f"{file.path} changed after the dataset was opened: expected {expected}; {now}. "
        "Open the dataset again, or restore the file; training on would mix two versions of the data",
        path=file.path,
    )


def check_bounds(layout: Layout) -> None:
    """Raise `TruncatedFileError` for the first sample that does not end within its file."""
    sizes = np.array([f.size for f in layout.files], np.int64)
    for field in layout.fields:
        for part in field.parts:
            beyond = segment_ends(part.segments) > sizes[part.segments.file]
            if beyond.any():
                raise _beyond_end(layout, field, part, int(np.argmax(beyond)))


def _beyond_end(layout: Layout, field: Field, part: Part, k: int) -> TruncatedFileError:
    """The error for segment k of a part, naming its first sample that is cut."""
    s = part.segments
    file = layout.files[int(s.file[k])]
    within = np.arange(int(sample_counts(s)[k]), dtype=np.int64)
    cut = int(np.argmax(s.offset[k] + within * s.stride[k] + s.nbytes[k] > file.size))
    start = int(s.offset[k] + cut * s.stride[k])
    return truncated_file(
        path=file.path,
        size=file.size,
        field=field.name,
        sample=int(s.first[k]) + cut,
        start=start,
        nbytes=int(s.nbytes[k]),
    )


def truncated_file(*, path: str, size: int, field: str, sample: int, start: int, nbytes: int) -> TruncatedFileError:
    """The error for a sample that ends after its file does."""
    return TruncatedFileError(
        f"{path} ends at byte {size:,} but sample {sample:,} of field {field!r} lies at {start:,}–{start + nbytes:,}; "
        "the file was cut or is still being written: copy it again, or leave it out",
        path=path,
        offset=start,
        sample=sample,
    )
