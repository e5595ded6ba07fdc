"""How are segments made, taken apart and put together?

Everything that composes datasets (several files, subset, split, concat) ends here, as arithmetic on `Segments`. A
slice of n samples costs as many operations as it touches segments, not samples.

Pure: opens no file, reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.values.layout import I32, I64, Segments

Selection = range | I64
"""Sample ids: an ascending range, or any array of ids."""


def make_segments(
    *,
    counts: npt.ArrayLike,
    file: npt.ArrayLike,
    offset: npt.ArrayLike,
    stride: npt.ArrayLike,
    nbytes: npt.ArrayLike,
) -> Segments:
    """Segments of `counts` samples each, in the order of ids. Segments of no samples are dropped."""
    sizes, files, offsets, strides, lengths = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(a, np.int64)) for a in (counts, file, offset, stride, nbytes))
    )
    some = sizes > 0
    sizes = sizes[some]
    first = np.zeros(len(sizes), np.int64)
    np.cumsum(sizes[:-1], out=first[1:])
    return Segments(
        n=int(sizes.sum()),
        first=first,
        file=files[some].astype(np.int32),
        offset=offsets[some],
        stride=strides[some],
        nbytes=lengths[some],
    )


def sample_counts(segments: Segments) -> I64:
    """The number of samples of each segment."""
    return np.diff(np.append(segments.first, segments.n))


def segment_ends(segments: Segments) -> I64:
    """The byte after the last sample of each segment."""
    return segments.offset + (sample_counts(segments) - 1) * segments.stride + segments.nbytes


def merge_segments(segments: Segments) -> Segments:
    """Join neighbours that continue each other: same file, size and stride, and the next offset in line."""
    s = segments
    if len(s.first) < 2:
        return s
    counts = sample_counts(s)
    follows = (
        (s.file[1:] == s.file[:-1])
        & (s.nbytes[1:] == s.nbytes[:-1])
        & (s.stride[1:] == s.stride[:-1])
        & (s.offset[1:] == s.offset[:-1] + counts[:-1] * s.stride[:-1])
    )
    keep = np.concatenate(([True], ~follows))
    return Segments(s.n, s.first[keep], s.file[keep], s.offset[keep], s.stride[keep], s.nbytes[keep])


def join_segments(pieces: Sequence[Segments], *, file_maps: Sequence[I32] | None = None) -> Segments:
    """The samples of all pieces, one after the other; `file_maps` renumbers the files of each piece."""
    files = [p.file if file_maps is None else file_maps[i][p.file] for i, p in enumerate(pieces)]
    starts = np.cumsum([0, *(p.n for p in pieces)])
    return merge_segments(
        Segments(
            n=int(starts[-1]),
            first=np.concatenate([p.first + start for p, start in zip(pieces, starts, strict=False)]),
            file=np.concatenate(files),
            offset=np.concatenate([p.offset for p in pieces]),
            stride=np.concatenate([p.stride for p in pieces]),
            nbytes=np.concatenate([p.nbytes for p in pieces]),
        )
    )


def take_segments(segments: Segments, selection: Selection) -> Segments:
    """The segments of the selected samples, in the selection's order; runs of ids stay segments."""
    if isinstance(selection, range):
        return _take_range(segments, selection)
    return _take_ids(segments, selection)


def _take_range(s: Segments, ids: range) -> Segments:
    """Samples start, start+step, … below stop: each segment keeps one run, with `step` times its stride."""
    count = len(ids)
    ends = s.first + sample_counts(s)
    low = np.clip(-((ids.start - s.first) // ids.step), 0, count)
    high = np.clip(-((ids.start - ends) // ids.step), 0, count)
    return make_segments(
        counts=high - low,
        file=s.file,
        offset=s.offset + (ids.start + low * ids.step - s.first) * s.stride,
        stride=s.stride * ids.step,
        nbytes=s.nbytes,
    )


def _take_ids(s: Segments, ids: I64) -> Segments:
    """Samples in the order of `ids`: ids that follow each other inside a segment stay one segment."""
    k = s.find(ids)
    starts = np.flatnonzero(np.concatenate(([True], (np.diff(ids) != 1) | (np.diff(k) != 0))))
    head, k = ids[starts], k[starts]
    return merge_segments(
        Segments(
            n=len(ids),
            first=starts.astype(np.int64),
            file=s.file[k],
            offset=s.offset[k] + (head - s.first[k]) * s.stride[k],
            stride=s.stride[k],
            nbytes=s.nbytes[k],
        )
    )


def storage_rank(segments: Segments) -> I64 | None:
    """The rank of each sample in storage order (file, then offset), or None where that is the order of ids."""
    s = segments
    last = s.offset + (sample_counts(s) - 1) * s.stride
    file_step = np.diff(s.file)
    if bool(((file_step > 0) | ((file_step == 0) & (s.offset[1:] >= last[:-1]))).all()):
        return None
    file, offset, _ = s.locate(np.arange(s.n, dtype=np.int64))
    rank = np.empty(s.n, np.int64)
    rank[np.lexsort((offset, file))] = np.arange(s.n, dtype=np.int64)
    return rank
