"""Which way of reading is fastest, for which size of piece?

Makes a file of random bytes, cuts it into samples, and lets the engine read them in one random order in several ways:

- `direct`: every sample is one read into its row (io, threads and depth vary);
- `coalesced`: reads of `--coalesce` bytes whose samples go to scattered slots of the arena, scattered by the kernel
  (preadv) or through a bounce buffer (pread and memcpy).

Each figure is the median of `--rounds` runs, taken in turn (A B C A B C …): a busy neighbour disturbs all alike.
CPU seconds a gigabyte are those of all threads, and suffer less from neighbours than the clock does. Cold runs drop the
file's pages with fadvise before each run. Compare figures of one run of this script only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.native.engine import Engine
from headrace.values.span import COPY, PIECE, READ, STEP

SIZES = (3_000, 19_200, 131_072, 2 << 20)


@dataclass(frozen=True)
class Way:
    """One contender: a name, whether its reads are coalesced, and the engine's options."""

    name: str
    coalesced: bool
    options: dict


def ways(threads: list[int], depths: list[int]) -> Iterator[Way]:
    for access in ("buffered", "direct", "mapped"):
        kind = "O_DIRECT" if access == "direct" else access
        for t in threads:
            yield Way(f"direct    {kind} threads={t}", False, {"io": "threads", "threads": t, "access": access})
        for d in depths if access != "mapped" else ():
            options = {"io": "uring", "threads": 1, "depth": d, "access": access}
            yield Way(f"direct    {kind} uring depth={d}", False, options)
    for t in threads[:2]:
        for name, below in (("preadv", 0), ("bounce", 1 << 40)):
            yield Way(f"coalesced {name} threads={t}", True, {"io": "threads", "threads": t, "bounce_below": below})
    for name, below in (("preadv", 0), ("bounce", 1 << 40)):
        yield Way(f"coalesced {name} uring", True, {"io": "uring", "threads": 1, "bounce_below": below})
    yield Way("coalesced O_DIRECT threads", True, {"io": "threads", "threads": threads[-1], "access": "direct"})


def direct_spans(order: np.ndarray, size: int, batch: int) -> list[tuple]:
    """One step a span; every sample is a read of its own."""
    spans = []
    for ids in np.split(order, range(batch, len(order), batch)):
        n = len(ids)
        reads = np.zeros(n, READ)
        reads["pieces"], reads["first"], reads["offset"], reads["nbytes"] = 1, np.arange(n), ids * size, size
        pieces = np.zeros(n, PIECE)
        pieces["offset"], pieces["nbytes"], pieces["dest"], pieces["id"] = ids * size, size, np.arange(n) * size, ids
        spans.append((reads, pieces, n * size))
    return spans


def coalesced_spans(order: np.ndarray, size: int, coalesce: int) -> list[tuple]:
    """The file front to back in large reads; sample k goes to the arena slot `order[k]`. One step ends it."""
    n, per = len(order), max(coalesce // size, 1)
    pieces = np.zeros(n, PIECE)
    pieces["offset"] = np.arange(n) * size
    pieces["nbytes"], pieces["dest"], pieces["step"] = size, order * size, -1
    first = np.arange(0, n, per)
    reads = np.zeros(len(first), READ)
    reads["first"], reads["pieces"] = first, np.minimum(per, n - first)
    reads["offset"], reads["nbytes"] = first * size, reads["pieces"] * size
    return [(reads, pieces, 1)]


def run(engine: Engine, spans: list[tuple], step: int) -> int:
    """As a training loop would: a few spans ahead, batches dropped at once. Returns the number of the next step."""
    ahead = 0
    for number, (reads, pieces, nbytes) in enumerate(spans, start=step):
        steps = np.array([(number, 0, 0, nbytes, 0, 0)], STEP)
        while not engine.submit(number, step, reads, pieces, np.zeros(0, COPY), steps, 0.0 if ahead else 60.0):
            engine.next(60.0)
            ahead -= 1
        ahead += 1
    for _ in range(ahead):
        engine.next(60.0)
    return step + len(spans)


def drop_pages(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


class Contender:
    """An engine that stays open, so that its memory and descriptors are as in the middle of a run."""

    def __init__(self, way: Way, path: Path, spans: list[tuple], arena: int) -> None:
        self.way, self.path, self.spans = way, path, spans
        self.engine = Engine(
            paths=[str(path)], arena=arena if way.coalesced else 0, batch_bytes=64 << 20, max_spans=8, **way.options
        )
        self.step = run(self.engine, spans, 0)
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    def measure(self, *, cold: bool) -> None:
        if cold:
            drop_pages(self.path)
        start, cpu = time.perf_counter(), time.process_time()
        self.step = run(self.engine, self.spans, self.step)
        self.seconds.append(time.perf_counter() - start)
        self.cpu.append(time.process_time() - cpu)


def compare(*, path: Path, nbytes: int, size: int, args: argparse.Namespace) -> list[dict]:
    """All ways for one size of sample: megabytes a second, and how much of the fastest that is."""
    order = np.random.default_rng(0).permutation(nbytes // size)
    direct, coalesced = direct_spans(order, size, args.batch), coalesced_spans(order, size, args.coalesce)
    field = [
        Contender(way, path, coalesced if way.coalesced else direct, len(order) * size)
        for way in ways(args.threads, args.depths)
        # Pages that somebody has mapped are not dropped: with one mapped way among them, no way would be cold.
        if args.only in way.name and not (args.cold and way.options.get("access") == "mapped")
    ]
    for _ in range(args.rounds):
        for contender in field:
            contender.measure(cold=args.cold)
    volume = len(order) * size / 1e6
    rows = [
        {
            "size": size,
            "way": c.way.name,
            "io": c.engine.io,
            "mb_per_s": volume / statistics.median(c.seconds),
            "cpu_s_per_gb": statistics.median(c.cpu) / volume * 1e3,
        }
        for c in field
    ]
    for c in field:
        c.engine.close(30.0)
    best = max(r["mb_per_s"] for r in rows)
    return [{**r, "of_best": r["mb_per_s"] / best} for r in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=96, help="size of the file")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes of a sample")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--coalesce", type=int, default=1 << 20, help="bytes of a coalesced read")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="ways whose name contains this")
    parser.add_argument("--cold", action="store_true", help="drop the file's pages before each run")
    parser.add_argument("--folder", default=None, help="where the file is made (default: the system's)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "samples.bin"
        with path.open("wb") as file:
            for _ in range(args.mb):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        for size in args.sizes:
            rows = compare(path=path, nbytes=args.mb << 20, size=size, args=args)
            if args.json:
                print(json.dumps(rows))
                continue
            print(f"\n{size:,} bytes a sample, {'cold' if args.cold else 'warm'} cache")
            for r in sorted(rows, key=lambda r: -r["mb_per_s"]):
                cpu = r["cpu_s_per_gb"]
                print(
                    f"  {r['way']:<36} {r['mb_per_s']:8.0f} MB/s  {r['of_best']:5.2f} of the best  {cpu:6.3f} CPU s/GB"
                )


if __name__ == "__main__":
    main()
