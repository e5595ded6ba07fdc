"""What do planning, starting, remembering and warm reading cost? The figures of one process on one node.

    python benchmarks/spine.py [--mb 400] [--only planner]

1. `planner`: deciding on 10⁹ samples (seconds, memory), expanding (samples a second on one core);
2. `start`: importing, and the first batch against reading that batch alone;
3. `memory`: the resident set beyond the baseline against `memory=`, in every mode, and over 50 epochs;
4. `warm`: an exact shuffle of files in the page cache beside torch + h5py, which take turns.

Every part runs in processes of its own. Figures are medians; compare those of one run only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.workloads import SAMPLE_NBYTES, neuron_inverter

PLANNER = """
import json, resource, sys, time
import numpy as np
from headrace.order import make_order
from headrace.plan import decide, expand
from headrace.values.cost import Cost, Storage
from headrace.values.layout import Field, File, Layout, Part, Segments
from headrace.values.run import Run, Steps

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def run(n, memory):
    one = lambda value, kind=np.int64: np.array([value], kind)
    segments = Segments(n, one(0), one(0, np.int32), one(0), one(19200), one(19200))
    field = Field("x", np.dtype(np.uint8), (19200,), (Part(segments),))
    layout = Layout(n, (field,), (File("x", n * 19200, 0),), "f", "bin")
    return Run(layout, make_order("exact", n=n, seed=0), Steps(n, 256, False, 10), memory, Cost(Storage(1500, 150e6)))

n = 10**9
before, start = peak(), time.perf_counter()
plan = decide(run(n, n * 19200 // 4))
print(json.dumps({"decide": time.perf_counter() - start, "label": plan.chosen.label, "mb": peak() - before}))
n = 20_000_000
modes = (("direct", "none"), ("direct", "static"), ("window", "none"), ("sweep", "none"), ("sweep", "static"))
for read, residency in modes:
    plan = decide(run(n, n * 19200 // 4), read=read, residency=residency)
    steps, marks = 0, [time.process_time()]
    for span in expand(plan, plan.run.steps.per_epoch):
        steps += len(span.steps)
        if steps * 256 >= len(marks) * n // 2:
            marks.append(time.process_time())
        if len(marks) == 4:
            break
    first, _, later = (n // 2 / (b - a) for a, b in zip(marks, marks[1:]))
    print(json.dumps({"mode": plan.chosen.label, "first": first, "later": later}))
"""

IMPORT = "import time; t = time.perf_counter(); import headrace; print(time.perf_counter() - t)"

FIRST = """
import mmap, os, sys, time
import numpy as np
import headrace as hr
import headrace.runtime.loader, headrace.plan.decide, headrace.plan.expand, headrace.native.engine
path, memory = sys.argv[1:3]
dataset = hr.open(path)
loader = hr.Loader(dataset, global_batch_size=256, epochs=1, memory=memory)
loader.plan
ids = loader.order.ids(0, 0, 256)
files = [os.open(file.path, os.O_RDONLY) for file in dataset.layout.files]

def alone():
    start = time.perf_counter()
    for part in dataset.layout.parts:
        # Into memory that nobody has touched: the loader's first batch has no other either.
        size = part.segments.fixed
        into = np.frombuffer(mmap.mmap(-1, 256 * size), np.uint8).reshape(256, size)
        for row, (file, offset, nbytes) in enumerate(zip(*part.segments.locate(ids))):
            os.preadv(files[file], [into[row]], int(offset))
    return time.perf_counter() - start

def forget():
    for file in files:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)

cold = sys.argv[3] == "cold"
times = []
for _ in range(5):
    forget() if cold else None
    times.append(alone())
    forget() if cold else None
    storage = loader.plan.run.cost.storage
    with hr.Loader(dataset, global_batch_size=256, epochs=1, memory=memory, storage=storage) as again:
        again.plan
        start = time.perf_counter()
        next(iter(again))
        times.append(time.perf_counter() - start)
print(sorted(times[1::2])[2], sorted(times[::2])[2])
"""

MEMORY = """
import json, sys
import headrace as hr
import headrace.runtime.loader, headrace.plan, headrace.plan.expand, headrace.native.engine, h5py
path, memory, epochs, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
print("baseline", flush=True)
sys.stdin.readline()
loader = hr.Loader(path, global_batch_size=64, epochs=epochs, memory=memory, storage=hr.Storage(1500, 150e6), **options)
for epoch in range(epochs):
    for batch in loader:
        batch["trace"].sum()
    print("epoch", flush=True)
print("label", loader.plan.chosen.label, flush=True)
"""

WARM = """
import os, sys, time
way, path, memory, batch_size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
epochs = 2
files = sorted(os.path.join(path, name) for name in os.listdir(path))

def sequential():
    into, total, start = bytearray(4 << 20), 0, time.perf_counter()
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        while n := os.readv(fd, [into]):
            total += n
        os.close(fd)
    return total / (time.perf_counter() - start)

def headrace():
    import headrace as hr
    loader = hr.Loader(path, global_batch_size=batch_size, epochs=epochs, memory=memory)
    for _ in range(epochs):
        for batch in loader:
            yield batch["trace"], batch["parameters"]

def torch(workers, batched, ordered=False):
    import bisect
    import h5py, numpy as np, torch

    class Samples(torch.utils.data.Dataset):
        def __init__(self):
            self.starts = [0]
            for file in files:
                with h5py.File(file) as f:
                    self.starts.append(self.starts[-1] + len(f["trace"]))
            self.open = None
        def __len__(self):
            return self.starts[-1]
        def sets(self):
            if self.open is None:
                self.open = [(f["trace"], f["parameters"]) for f in map(h5py.File, files)]
            return self.open
        def __getitem__(self, i):
            k = bisect.bisect_right(self.starts, i) - 1
            x, y = self.sets()[k]
            return x[i - self.starts[k]], y[i - self.starts[k]]
        def __getitems__(self, ids):
            ids = np.sort(ids)
            x, y = np.empty((len(ids), 1600, 3), np.float32), np.empty((len(ids), 19), np.float32)
            for k, sets in enumerate(self.sets()):
                here = np.flatnonzero((ids >= self.starts[k]) & (ids < self.starts[k + 1]))
                if len(here):
                    where = ids[here] - self.starts[k]
                    x[here], y[here] = sets[0][where], sets[1][where]
            return torch.from_numpy(x), torch.from_numpy(y)

    if not batched:
        del Samples.__getitems__
    kept = {} if not batched else {"collate_fn": lambda made: made}
    loader = torch.utils.data.DataLoader(Samples(), batch_size, shuffle=True, num_workers=workers, **kept)
    for _ in range(epochs):
        yield from loader

sequential()
limit = max(sequential() for _ in range(3))
ways = {"headrace": headrace} | {
    f"torch {kind} {workers}": lambda workers=workers, kind=kind: torch(workers, kind == "batched")
    for kind in ("item", "batched") for workers in (0, 2)
}
start, nbytes = time.perf_counter(), 0
for x, y in ways[way]():
    nbytes += x.nbytes + y.nbytes
print(nbytes / (time.perf_counter() - start), limit)
"""

MODES = [
    (read, residency)
    for read in ("direct", "window", "sweep", "group")
    for residency in ("none", "static", "next-use", "lru")
]


def python(text: str, *arguments: object) -> str:
    """What a process that runs this text prints."""
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def planner(_: Path) -> None:
    first, *modes = map(json.loads, python(PLANNER).splitlines())
    print(f"decide, 1,000,000,000 samples: {first['decide']:.3f} s, {first['mb']:.0f} MB more ({first['label']})")
    for mode in modes:
        print(
            f"expand, {mode['mode']:32} {mode['later'] / 1e6:6.1f} million samples a second on one core "
            f"({mode['first'] / 1e6:.1f} while memory and tables are touched for the first time)"
        )


def start(path: Path) -> None:
    print(f"import headrace: {statistics.median(float(python(IMPORT)) for _ in range(7)):.3f} s")
    for condition in ("warm", "cold"):
        first, alone = map(float, python(FIRST, path, "64MiB", condition).split())
        print(
            f"first batch of 256, {condition}: {first * 1e3:.2f} ms; "
            f"reading it alone, one by one: {alone * 1e3:.2f} ms; ratio {first / alone:.2f}"
        )


def watched(path: Path, memory: str, epochs: int, options: dict) -> tuple[float, list[float], str]:
    """(peak, resident at the end of each epoch) in MiB beyond the baseline, watched from outside; the plan's label."""
    import select

    import psutil

    process = subprocess.Popen(
        [sys.executable, "-c", MEMORY, str(path), memory, str(epochs), json.dumps(options)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    seen = psutil.Process(process.pid)

    def private() -> float:
        info = seen.memory_info()
        return (info.rss - info.shared) / 2**20

    if process.stdout.readline() != "baseline\n":
        raise SystemExit(process.stderr.read())
    base, peak, ends = private(), 0.0, []
    process.stdin.write("go\n")
    process.stdin.flush()
    while len(ends) < epochs:
        while not select.select([process.stdout], [], [], 0.002)[0]:
            peak = max(peak, private() - base)
        if process.stdout.readline() != "epoch\n":
            raise SystemExit(process.stderr.read().splitlines()[-1])
        ends.append(private() - base)
        peak = max(peak, ends[-1])
    label = process.stdout.readline()[6:].strip()
    process.wait(60)
    return peak, ends, label


def memory(path: Path) -> None:
    for read, residency in MODES:
        options: dict = {"read": read, "residency": residency}
        if read == "group":
            options |= {"shuffle": "group", "order_options": {"size": 500}}
        peak, _, label = watched(path, "64MiB", 2, options)
        print(f"memory=64MiB, {read:6} {residency:8}: at most {peak:6.1f} MiB beyond the baseline   ({label})")
    _, ends, label = watched(path, "64MiB", 50, {})
    print(
        f"50 epochs: {ends[4]:.1f} MiB after the fifth, {ends[-1]:.1f} after the last, "
        f"at most {max(ends):.1f} ({label})"
    )


def warm(path: Path) -> None:
    ways = ["headrace", "torch item 0", "torch item 2", "torch batched 0", "torch batched 2"]
    for batch in (64, 256, 1024):
        rates: dict[str, list[float]] = {way: [] for way in ways}
        limits = []
        for _ in range(3):
            for way in ways:
                rate, limit = map(float, python(WARM, way, path, "128MiB", batch).split())
                rates[way].append(rate)
                limits.append(limit)
        limit = statistics.median(limits)
        print(f"warm, {SAMPLE_NBYTES:,} bytes a sample, batches of {batch}; sequential read {limit / 1e6:,.0f} MB/s")
        for way in ways:
            rate = statistics.median(rates[way])
            print(f"  {way:16} {rate / 1e6:8,.0f} MB/s   {rate / limit:5.2f} of the sequential read")


PARTS = {"planner": planner, "start": start, "memory": memory, "warm": warm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=400, help="size of the dataset")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part")
    parser.add_argument("--folder", default=None, help="where the dataset is made (default: the system's)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "train"
        neuron_inverter(path, samples=args.mb * 1_000_000 // SAMPLE_NBYTES)
        for name, part in PARTS.items():
            if args.only in (None, name):
                print(f"\n== {name}")
                part(path)


if __name__ == "__main__":
    main()
