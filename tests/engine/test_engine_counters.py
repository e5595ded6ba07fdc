"""Do the counters say exactly what was done, and are impossible spans refused?"""

from __future__ import annotations

import os
import resource
from dataclasses import replace

import numpy as np
import pytest
from engine_spans import Files, Span, direct_span, drain, make_files, table

from headrace.native.engine import Engine
from headrace.values.span import COPY, GATHER, PIECE, READ, STEP

both = pytest.mark.parametrize("io", ["threads", "uring"])


@pytest.fixture
def files(tmp_path) -> Files:
    return make_files(tmp_path, [1 << 20, 1 << 19])


def sweep(pieces_per_read: int, nbytes: int, gap: int, reads: int = 3) -> Span:
    """Coalesced reads that land in the arena, and a step that gathers every second piece."""
    stride = nbytes + gap
    read_rows, piece_rows = [], []
    for r in range(reads):
        start = r * pieces_per_read * stride
        read_rows.append((r % 2, pieces_per_read, r * pieces_per_read, start, pieces_per_read * stride - gap))
        for k in range(pieces_per_read):
            number = r * pieces_per_read + k
            # Every other slot: neighbours in the file are not neighbours in memory.
            piece_rows.append((start + k * stride, nbytes, 2 * nbytes * number, number, -1, 0))
    total = reads * pieces_per_read
    copies = [(2 * nbytes * k, nbytes * (k // 2), nbytes, GATHER, -1) for k in range(0, total, 2)]
    steps = [(0, 0, len(copies), nbytes * len(copies), 0, len(copies))]
    return Span(0, 0, table(read_rows, READ), table(piece_rows, PIECE), table(copies, COPY), table(steps, STEP))


def run(files: Files, span: Span, **options) -> tuple[dict, np.ndarray, list]:
    engine = Engine(paths=files.paths, arena=4 << 20, batch_bytes=1 << 20, trace=True, **options)
    steps = list(drain(engine, [span]))
    trace = engine.trace()
    counters = engine.counters()
    assert engine.close(10.0)
    return counters, trace, steps


@both
@pytest.mark.parametrize("access", ["buffered", "direct", "mapped"])
@pytest.mark.parametrize("bounce_below", [0, 1 << 30])
@pytest.mark.parametrize(("pieces", "nbytes", "gap"), [(1, 4000, 0), (20, 100, 0), (20, 100, 33), (1500, 16, 8)])
def test_one_read_is_one_operation_and_every_byte_is_counted(files, io, access, bounce_below, pieces, nbytes, gap):
    """Operations, bytes, pieces and copies equal the span's, also beyond the kernel's limit of buffers in one call."""
    span = sweep(pieces, nbytes, gap)
    counters, trace, _ = run(files, span, io=io, access=access, map_from=0, map_after=0, bounce_below=bounce_below)
    assert counters["operations"] == len(span.reads)
    assert counters["bytes"] == span.reads["nbytes"].sum()
    assert counters["pieces"] == len(span.pieces)
    assert counters["copies"] == len(span.copies)
    assert counters["bytes_copied"] == span.copies["nbytes"].sum()
    assert counters["gathers"] == 1
    assert (counters["short_reads"], counters["retries"], counters["failures"]) == (0, 0, 0)
    assert (counters["rounding"] > 0) == (access == "direct")
    issued = sorted(map(tuple, trace.tolist()))
    assert issued == sorted((r["file"], r["offset"], r["nbytes"]) for r in span.reads)


@pytest.mark.parametrize("io", ["threads", "uring"])
def test_the_engine_says_what_it_reads_with(files, io):
    """`io` is what was asked for, where the kernel has it."""
    engine = Engine(paths=files.paths, arena=0, batch_bytes=1, io=io)
    assert engine.io.split(" ")[0] in (io, "threads")
    if io == "uring" and engine.io != "uring":
        pytest.skip(engine.io)


def test_without_a_ring_threads_read_and_the_engine_says_why(files):
    """Where the kernel refuses an io_uring, the same span runs on threads, with a note."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)  # the number that the next descriptor would have
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        engine = Engine(paths=files.paths, arena=4 << 20, batch_bytes=1 << 20, io="uring")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert engine.io == "threads (io_uring_setup: Too many open files)"
    assert len(list(drain(engine, [sweep(20, 100, 0)]))) == 1


@both
def test_a_file_that_refuses_direct_reads_is_read_through_the_cache(files, io):
    """Where a filesystem refuses direct I/O the bytes still come, and a counter says for how many files."""
    counters, _, steps = run(files, sweep(20, 100, 3), io=io, access="direct", fault={"refuse_direct": True})
    assert counters["direct_refused"] == 2
    assert counters["rounding"] == 0
    assert steps[0][1][:100].tobytes() == files.contents[0][:100]


@both
def test_a_file_that_cannot_be_opened_fails_its_pieces_with_the_errno(files, io):
    """A missing file fails its own pieces and leaves the other files' alone."""
    os.unlink(files.paths[1])
    span = sweep(20, 100, 0)
    counters, _, [(_, batch, failures)] = run(files, span, io=io)
    assert [f[0] for f in failures] == list(range(20, 40))
    assert {(f[2], f[5], f[6]) for f in failures} == {(files.paths[1], 2, 0)}
    assert counters["failures"] == 20
    assert batch[:100].tobytes() == files.contents[0][:100]
    assert not batch[1000:2000].any()


@both
def test_more_files_than_descriptors_are_read_with_a_bounded_number_open(tmp_path, io):
    """Any number of files is read with at most half of the process's descriptors."""
    files = make_files(tmp_path, [64] * 300)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        engine = Engine(paths=files.paths, arena=0, batch_bytes=1 << 20, io=io)
        spans = [direct_span(k, step=k, size=16, file=k) for k in range(300)]
        for step, batch, failures in drain(engine, spans):
            assert failures == []
            assert batch.tobytes() == files.contents[step]
            assert engine.counters()["open_files"] <= 32
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert engine.counters()["opens"] >= 300
    assert engine.close(10.0)


BAD = [
    ("reads", "file", 9, "read 1 of the span names file 9"),
    ("reads", "first", 50, "read 1 of the span has pieces beyond the end"),
    ("reads", "nbytes", 0, "read 1 of the span has no valid range"),
    ("pieces", "dest", 4 << 20, "piece 1 of the span lands outside its memory"),
    ("pieces", "step", 3, "piece 1 of the span names step 3"),
    ("pieces", "offset", 0, "piece 1 of the span does not ascend inside its read"),
    ("pieces", "nbytes", 1 << 40, "piece 1 of the span does not ascend inside its read"),
    ("copies", "batch", 3000, "copy 1 of the span leaves its memory"),
    ("copies", "arena", -1, "copy 1 of the span leaves its memory"),
    ("copies", "kind", 4, "copy 1 of the span has unknown kind 4"),
]


@pytest.mark.parametrize(("table_name", "field", "value", "message"), BAD)
def test_a_span_that_would_leave_its_memory_is_refused_by_entry(files, table_name, field, value, message):
    """An impossible entry is an error that names it, before any byte is read."""
    span = sweep(20, 100, 0)
    entries = getattr(span, table_name).copy()
    entries[field][1] = value
    engine = Engine(paths=files.paths, arena=4 << 20, batch_bytes=1 << 20)
    with pytest.raises(ValueError, match=message):
        replace(span, **{table_name: entries}).submit(engine)
    assert engine.counters()["spans"] == 0


def test_an_array_of_another_dtype_is_refused_by_name(files):
    """Arrays are taken only with the dtype of the contract."""
    span = direct_span(0, step=0, size=10)
    engine = Engine(paths=files.paths, arena=0, batch_bytes=1)
    with pytest.raises(TypeError, match="pieces must be a one-dimensional array of dtype"):
        replace(span, pieces=np.zeros(3)).submit(engine)


def test_reads_longer_than_the_bounce_buffer_are_cut_where_they_must_be(files):
    """Only a bounced read that is longer than the buffer takes several operations, each of its size."""
    span = direct_span(0, step=0, size=100_000, rows=2)
    counters, trace, _ = run(files, span, access="direct", bounce=32_768)
    assert counters["operations"] == 8
    assert counters["bytes"] == 200_000
    assert trace["nbytes"].max() == 32_768
    counters, _, _ = run(files, span, bounce=32_768)
    assert counters["operations"] == 2
