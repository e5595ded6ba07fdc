"""The obvious executor: carries out spans on arrays in memory, in the most dangerous order that the contract allows.

Reads are done as soon as `after` permits, steps gathered only when a later span's `after` demands it. A slot that is
reused too early, a step that is emitted before its reads, or a copy that is out of order shows as wrong bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from headrace.values.layout import Box, Field, File, Layout, Part, Segments
from headrace.values.plan import Plan
from headrace.values.span import BOX, GATHER, KEEP, SpanPlan


def content(layout: Layout) -> list[np.ndarray]:
    """Files with bytes that tell where they are."""
    rng = np.random.default_rng(7)
    return [rng.integers(0, 256, f.size, dtype=np.uint8) for f in layout.files]


def fixed_layout(n: int, sizes: tuple[int, ...], *, files: int = 1, padding: int = 0) -> Layout:
    """Fields one after the other in each file, samples dealt to `files` files of unequal length."""
    bounds = sorted({0, n, *(int(n * (k / files) ** 1.3) for k in range(1, files))})
    starts, counts = np.array(bounds[:-1]), np.diff(bounds)
    ends = np.zeros(len(starts), np.int64)
    fields = []
    for f, size in enumerate(sizes):
        base = ends + padding
        ends = base + counts * size
        segments = Segments(
            n,
            starts.astype(np.int64),
            np.arange(len(starts), dtype=np.int32),
            base.astype(np.int64),
            np.full(len(starts), size, np.int64),
            np.full(len(starts), size, np.int64),
        )
        fields.append(Field(f"f{f}", np.dtype("u1"), (size,), (Part(segments),)))
    return Layout(n, tuple(fields), tuple(File(f"{k}", int(e), 0) for k, e in enumerate(ends)), "fixed", "bin")


def ragged_layout(sizes: np.ndarray, *, label: int = 0) -> Layout:
    """One ragged field, and perhaps a fixed one; one segment per sample."""
    n = len(sizes)
    offset = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    zeros, ids = np.zeros(n, np.int32), np.arange(n, dtype=np.int64)
    segments = Segments(n, ids, zeros, offset, np.zeros(n, np.int64), sizes.astype(np.int64))
    fields = [Field("values", np.dtype("u1"), None, (Part(segments),), sizes.astype(np.int64).reshape(-1, 1))]
    end = int(sizes.sum())
    if label:
        one = Segments(n, *(np.array([v], t) for v, t in ((0, np.int64), (0, np.int32), (end, np.int64))),
                       np.array([label]), np.array([label]))  # fmt: skip
        fields.append(Field("label", np.dtype("u1"), (label,), (Part(one),)))
        end += n * label
    return Layout(n, tuple(fields), (File("0", end, 0),), "ragged", "npy")


def boxed_layout(n: int) -> Layout:
    """Samples of 4×5 bytes that storage cuts into chunks of 4×3: two parts, the second one padded."""
    parts = []
    for k, (valid, origin) in enumerate((((4, 3), (0, 0)), ((4, 2), (0, 3)))):
        a = [np.array([v], np.int64) for v in (0, k * n * 12, 12, 12)]
        parts.append(Part(Segments(n, a[0], np.zeros(1, np.int32), *a[1:]), Box((4, 3), valid, origin)))
    f = Field("image", np.dtype("u1"), (4, 5), tuple(parts))
    return Layout(n, (f,), (File("0", 24 * n, 0),), "boxed", "hdf5")


def sample_bytes(layout: Layout, files: list[np.ndarray], f: Field, sample: int) -> np.ndarray:
    """A field of a sample as it must be delivered."""
    ids = np.array([sample])
    out = None
    for part in f.parts:
        (file,), (offset,), (nbytes,) = part.segments.locate(ids)
        raw = files[file][offset : offset + nbytes]
        if part.box is None:
            return raw
        out = np.zeros(f.shape or (), np.uint8) if out is None else out
        put(out, raw, part.box)
    return np.asarray(out).reshape(-1)


def put(out: np.ndarray, raw: np.ndarray, box: Box) -> None:
    """The valid corner of a chunk at its place in the sample."""
    inner = raw.reshape(box.stored)[tuple(slice(v) for v in box.valid)]
    out[tuple(slice(o, o + v) for o, v in zip(box.origin, box.valid, strict=True))] = inner


@dataclass
class Interpreter:
    """Executes spans; `gathered` yields (step, ids, {field: bytes of its rows})."""

    plan: Plan
    files: list[np.ndarray]
    read: int = 0
    operations: int = 0
    peak: int = 0
    arena: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.arena = np.zeros(self.plan.geometry.arena_nbytes, np.uint8)

    def run(self, spans: Iterable[SpanPlan]) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
        """Carries out all spans."""
        waiting: deque[tuple[SpanPlan, int, np.ndarray, np.ndarray]] = deque()
        for span in spans:
            while waiting and int(waiting[0][0].steps["step"][waiting[0][1]]) < span.after:
                yield self.gather(*waiting.popleft())
            batches = [np.full(int(s["nbytes"]), 0xEE, np.uint8) for s in span.steps]
            self.do_reads(span, batches)
            self.peak = max(self.peak, span.held)
            first = 0
            for k, step in enumerate(span.steps):
                waiting.append((span, k, batches[k], span.ids[first : first + int(step["rows"])]))
                first += int(step["rows"])
            assert first == len(span.ids)
        while waiting:
            yield self.gather(*waiting.popleft())

    def do_reads(self, span: SpanPlan, batches: list[np.ndarray]) -> None:
        """Every piece lies in its read, in order; the bytes go where it says."""
        assert int(span.reads["pieces"].sum()) == len(span.pieces)
        for r in span.reads:
            end = int(r["offset"])
            for p in span.pieces[int(r["first"]) : int(r["first"] + r["pieces"])]:
                assert end <= p["offset"] and p["offset"] + p["nbytes"] <= r["offset"] + r["nbytes"]
                end = int(p["offset"] + p["nbytes"])
                target = self.arena if p["step"] < 0 else batches[p["step"]]
                assert p["dest"] >= 0 and p["dest"] + p["nbytes"] <= len(target)
                data = self.files[r["file"]][p["offset"] : end]
                assert len(data) == p["nbytes"]
                target[p["dest"] : p["dest"] + p["nbytes"]] = data
            assert r["offset"] + r["nbytes"] <= len(self.files[r["file"]])
            self.read += int(r["nbytes"])
            self.operations += 1

    def gather(self, span: SpanPlan, k: int, batch: np.ndarray, ids: np.ndarray):
        """The step's copies, in their order."""
        step = span.steps[k]
        boxes = [(p.box, f) for f in self.plan.run.layout.fields for p in f.parts if p.box is not None]
        for c in span.copies[int(step["first"]) : int(step["first"] + step["copies"])]:
            a, b, size = int(c["arena"]), int(c["batch"]), int(c["nbytes"])
            if c["kind"] == GATHER:
                batch[b : b + size] = self.arena[a : a + size]
            elif c["kind"] == KEEP:
                self.arena[a : a + size] = batch[b : b + size]
            elif c["kind"] == BOX:
                box, f = boxes[c["box"]]
                assert f.shape is not None
                put(batch[b : b + f.nbytes].reshape(f.shape), self.arena[a : a + size], box)
            else:
                batch[b : b + size] = batch[a : a + size]
        rows = []
        for f, at in zip(self.plan.run.layout.fields, span.offsets[k], strict=True):
            nbytes = int(f.shapes[ids].sum()) if f.shapes is not None else len(ids) * f.nbytes
            rows.append(batch[int(at) : int(at) + nbytes])
        return int(step["step"]), ids, rows
