"""What should a span deliver? Hand-made and random spans, and the slow, obvious NumPy machine that carries them out.

The random spans obey the contract's one rule about the arena: a read may write a slot only when every step that touched
the slot lies below the span's `after`. Everything else (ranges, gaps, sizes, kinds, budgets) is arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headrace.native.engine import Engine
from headrace.values.span import BOX, COPY, GATHER, KEEP, PIECE, READ, REPEAT, STEP

Failed = tuple[int, int, str, int, int, int, int]

BOXES = [
    ((3, 4), (3, 4), (0, 0), 4, (3, 4)),
    ((3, 4), (2, 3), (1, 2), 2, (4, 6)),
    ((2, 2, 5), (2, 1, 5), (0, 3, 0), 1, (2, 4, 5)),
    ((8,), (5,), (3,), 8, (9,)),
]


@dataclass
class Span:
    """The arguments of one `submit`."""

    index: int
    after: int
    reads: np.ndarray
    pieces: np.ndarray
    copies: np.ndarray
    steps: np.ndarray

    def submit(self, engine: Engine, timeout: float | None = 20.0) -> bool:
        return engine.submit(self.index, self.after, self.reads, self.pieces, self.copies, self.steps, timeout)


def table(rows: Sequence[tuple[int, ...]], dtype: np.dtype) -> np.ndarray:
    """Rows as a structured array; an empty one keeps its dtype."""
    return np.array(list(rows), dtype=dtype)


def direct_span(
    index: int, *, step: int, size: int, first: int = 0, file: int = 0, rows: int = 4, after: int = 0
) -> Span:
    """One step of `rows` neighbouring samples, each read by itself straight into its row."""
    reads = table([(file, 1, r, (first + r) * size, size) for r in range(rows)], READ)
    pieces = table([((first + r) * size, size, r * size, first + r, 0, 0) for r in range(rows)], PIECE)
    steps = table([(step, step * rows, rows, rows * size, 0, 0)], STEP)
    return Span(index, after, reads, pieces, table([], COPY), steps)


def box_copy(box: tuple, chunk: np.ndarray, row: np.ndarray) -> None:
    """Box `box` of a chunk's bytes to a row's bytes, by slices of N-d arrays."""
    stored, valid, origin, itemsize, sample = box
    source = chunk.reshape(*stored, itemsize)[tuple(slice(0, v) for v in valid)]
    target = row.reshape(*sample, itemsize)
    target[tuple(slice(o, o + v) for o, v in zip(origin, valid, strict=True))] = source


def box_sizes(box: tuple) -> tuple[int, int]:
    stored, _, _, itemsize, sample = box
    return int(np.prod(stored)) * itemsize, int(np.prod(sample)) * itemsize


UNDEFINED = -1


@dataclass
class Model:
    """Carries out spans one after the other, each read and each copy in its turn.

    A byte is an int16, and `UNDEFINED` where nobody wrote it: a batch's buffer holds anything before.
    """

    files: Files
    arena: np.ndarray
    bad: list[tuple[int, int, int, int]] = field(default_factory=list)
    known: list[Failed] = field(default_factory=list)

    def run(self, span: Span) -> Iterator[tuple[int, np.ndarray, list[Failed]]]:
        batches = [np.full(int(s["nbytes"]), UNDEFINED, np.int16) for s in span.steps]
        failed: list[list[Failed]] = [[] for _ in batches]
        for read in span.reads:
            for p in span.pieces[read["first"] : read["first"] + read["pieces"]]:
                space = self.arena if p["step"] < 0 else batches[p["step"]]
                failure = self.piece(int(read["file"]), p, space)
                if failure is not None:
                    (self.known if p["step"] < 0 else failed[p["step"]]).append(failure)
        for s, batch, own in zip(span.steps, batches, failed, strict=True):
            for c in span.copies[s["first"] : s["first"] + s["copies"]]:
                self.copy(c, batch)
            failures, self.known = [*self.known, *own], []
            yield (
                int(s["step"]),
                batch,
                sorted(failures, key=lambda f: (self.files.paths.index(f[2]), f[3], f[0], f[1])),
            )

    def piece(self, file: int, p: np.void, space: np.ndarray) -> Failed | None:
        offset, n, dest = int(p["offset"]), int(p["nbytes"]), int(p["dest"])
        data = self.files.contents[file][offset : offset + n]
        error = next((e for f, o, m, e in self.bad if f == file and offset < o + m and o < offset + n), 0)
        if not error and len(data) == n:
            space[dest : dest + n] = np.frombuffer(data, np.uint8)
            return None
        space[dest : dest + n] = 0
        return (int(p["id"]), int(p["part"]), self.files.paths[file], offset, n, error, 0 if error else len(data))

    def copy(self, c: np.void, batch: np.ndarray) -> None:
        a, b, n = int(c["arena"]), int(c["batch"]), int(c["nbytes"])
        if c["kind"] == GATHER:
            batch[b : b + n] = self.arena[a : a + n]
        elif c["kind"] == KEEP:
            self.arena[a : a + n] = batch[b : b + n]
        elif c["kind"] == REPEAT:
            batch[b : b + n] = batch[a : a + n].copy()
        else:
            chunk, row = box_sizes(BOXES[c["box"]])
            box_copy(BOXES[c["box"]], self.arena[a : a + chunk], batch[b : b + row])


@dataclass
class Random:
    """Makes random spans that obey the rule above."""

    rng: np.random.Generator
    sizes: list[int]
    slots: int
    slot: int = 96
    beyond: int = 0
    step: int = 5
    after: int = 0
    ids: int = 0
    touched: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.touched = np.full(self.slots, -1)

    def span(self, index: int) -> Span:
        rng = self.rng
        count = int(rng.integers(0, 6))
        steps = list(range(self.step, self.step + count))
        self.after = int(rng.integers(self.after, self.step + 1))
        sizes = [int(rng.integers(0, 6)) * self.slot for _ in steps]
        rooms = [list(range(0, n, self.slot)) for n in sizes]  # unwritten rows of each batch
        written: list[list[int]] = [[] for _ in steps]
        free = [int(x) for x in np.flatnonzero(self.touched < self.after)]
        reads, pieces = self.reads(rooms, written, free, self.step + max(count - 1, 0))
        copies, entries = [], []
        for s, number in enumerate(steps):
            first = len(copies)
            for _ in range(int(rng.integers(0, 7))):
                copies += self.copy(number, rooms[s], written[s])
            entries.append((number, number * 3, 3, sizes[s], first, len(copies) - first))
        self.step += count + int(rng.integers(0, 2)) * (count > 0)
        return Span(
            index, self.after, table(reads, READ), table(pieces, PIECE), table(copies, COPY), table(entries, STEP)
        )

    def reads(self, rooms: list, written: list, free: list, last: int) -> tuple[list, list]:
        """Reads of ascending pieces with gaps before, between and after them."""
        rng, reads, pieces = self.rng, [], []
        arena_only = rng.random() < 0.3
        for _ in range(int(rng.integers(0, 6))):
            file = int(rng.integers(len(self.sizes)))
            at = start = int(rng.integers(0, max(self.sizes[file] + self.beyond - 2000, 1)))
            first = len(pieces)
            for _ in range(int(rng.integers(0, 12))):
                at += int(rng.integers(0, 90)) * int(rng.random() < 0.5)
                n = int(rng.integers(1, self.slot + 1))
                place = self.place(rooms, written, free, last, arena_only)
                if place is None or at + n > self.sizes[file] + self.beyond:
                    break
                pieces.append((at, n, place[1], self.ids, place[0], int(rng.integers(0, 3))))
                self.ids += 1
                at += n
            end = min(at + int(rng.integers(0, 200)), self.sizes[file] + self.beyond)
            if end > start:
                reads.append((file, len(pieces) - first, first, start, end - start))
        return reads, pieces

    def place(self, rooms: list, written: list, free: list, last: int, arena_only: bool) -> tuple[int, int] | None:
        open_steps = [] if arena_only else [s for s, room in enumerate(rooms) if room]
        if open_steps and self.rng.random() < 0.5:
            s = int(self.rng.choice(open_steps))
            row = rooms[s].pop(int(self.rng.integers(len(rooms[s]))))
            written[s].append(row)
            return s, row
        if not free:
            return None
        slot = free.pop(int(self.rng.integers(len(free))))
        self.touched[slot] = last
        return -1, slot * self.slot

    def copy(self, number: int, room: list[int], written: list[int]) -> list[tuple[int, ...]]:
        rng = self.rng
        slot, n, kind = int(rng.integers(self.slots)), int(rng.integers(1, self.slot + 1)), int(rng.integers(0, 4))
        if kind in (GATHER, BOX) and room:
            row = room.pop()
            written.append(row)
            self.touched[slot] = max(self.touched[slot], number)
            fitting = [k for k, b in enumerate(BOXES) if max(box_sizes(b)) <= self.slot]
            box = int(rng.choice(fitting)) if kind == BOX else -1
            return [(slot * self.slot, row, n, kind, box)]
        if kind == KEEP and written:
            self.touched[slot] = max(self.touched[slot], number)
            return [(slot * self.slot, int(rng.choice(written)), n, KEEP, -1)]
        if kind == REPEAT and written and room:
            row = room.pop()
            source = int(rng.choice(written))
            written.append(row)
            return [(source, row, n, REPEAT, -1)]
        return []


@dataclass(repr=False)
class Files:
    """Files of random bytes, and the bytes."""

    paths: list[str]
    contents: list[bytes]

    @property
    def sizes(self) -> list[int]:
        return [len(c) for c in self.contents]


def make_files(folder: Path, sizes: Sequence[int], seed: int = 0) -> Files:
    """Files of random bytes under `folder`."""
    rng = np.random.default_rng(seed)
    contents = [rng.bytes(n) for n in sizes]
    paths = [folder / f"part-{k}.bin" for k in range(len(sizes))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return Files([str(p) for p in paths], contents)


def drain(
    engine: Engine, spans: Sequence[Span], timeout: float = 20.0
) -> Iterator[tuple[int, np.ndarray, list[Failed]]]:
    """Submits while there is room and takes steps in between; yields (step, batch, failures) in order."""
    waiting, ahead = list(spans), 0
    while True:
        # With no step to take, only the engine itself can make room: then wait for it.
        while waiting and waiting[0].submit(engine, 0.0 if ahead else timeout):
            ahead += len(waiting.pop(0).steps)
        if not waiting:
            engine.finish()
        ready = engine.next(timeout)
        if ready is None:
            return
        ahead -= 1
        yield ready.step, ready.buffer.view(0, ready.nbytes), ready.failures
