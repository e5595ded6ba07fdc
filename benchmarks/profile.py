"""Where does the time go? Counters per batch, and the hottest functions where `perf` is there.

    python benchmarks/profile.py [--mb 600] [--perf]

Three runs of one dataset of 19.2 KB samples: `warm` (copied out of the page cache), `swept` (read round and round,
around the page cache) and `resident` (all of it kept in memory after the first epoch).
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = {
    "warm": {"access": "mapped", "read": "direct", "residency": "none", "share": 0.25},
    "swept": {"access": "direct", "read": "sweep", "residency": "none", "share": 0.25},
    "resident": {"read": "direct", "residency": "static", "share": 1.3},
}
COUNTED = (
    ("syscalls", "system calls of the reading threads"),
    ("operations", "reads"),
    ("copies", "copies from the arena"),
    ("consumer_wakeups", "wake-ups of the loop"),
    ("thread_wakeups", "wake-ups of the threads"),
)


def measure(path: str, name: str, batch_size: int, epochs: int) -> dict:
    """The last epochs of a run: the first one fills memory and page tables."""
    import headrace as hr

    options = dict(RUNS[name])
    dataset = hr.open(path)
    memory = int(options.pop("share") * dataset.layout.nbytes) + (64 << 20)
    storage = hr.Storage(40_000, 2e9, 1e-4)
    loader = hr.Loader(dataset, global_batch_size=batch_size, epochs=epochs, memory=memory, storage=storage, **options)
    for _batch in loader:
        pass
    before = loader.report().to_dict()["measured"]
    used, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    nbytes = 0
    for _ in range(epochs - 1):
        for batch in loader:
            nbytes += sum(value.nbytes for value in batch.values())
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    found, batches = loader.report().to_dict()["measured"], len(loader) * (epochs - 1)
    user, system = after.ru_utime - used.ru_utime, after.ru_stime - used.ru_stime
    rows = {what: (found[key] - before[key]) / batches for key, what in COUNTED}
    rows["bytes copied once more, of those delivered"] = (found["bytes_copied"] - before["bytes_copied"]) / nbytes
    rows["bytes through a buffer, of those delivered"] = (found["bytes_bounced"] - before["bytes_bounced"]) / nbytes
    rows["page faults"] = (after.ru_minflt - used.ru_minflt) / batches
    rows["context switches, voluntary"] = (after.ru_nvcsw - used.ru_nvcsw) / batches
    rows["context switches, forced"] = (after.ru_nivcsw - used.ru_nivcsw) / batches
    rows["buffers allocated"] = (found["buffers_allocated"] - before["buffers_allocated"]) / batches
    rows["user time, µs"], rows["system time, µs"] = user / batches * 1e6, system / batches * 1e6
    return {"plan": loader.plan.chosen.label, "MB/s": nbytes / seconds / 1e6, "per batch": rows}


def hottest(path: str, name: str, args: argparse.Namespace) -> list[str]:
    """The functions that most samples fell into, by thread."""
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        command = [sys.executable, __file__, "--path", path, "--run", name, "--batch", str(args.batch)]
        subprocess.run(
            ["perf", "record", "-e", "cpu-clock", "-F", "4000", "-o", data, *command], capture_output=True, check=True
        )
        told = subprocess.run(
            ["perf", "report", "-i", data, "--sort", "comm,sym", "-g", "none"],
            capture_output=True,
            text=True,
            check=True,
        )
    return [line.strip() for line in told.stdout.splitlines() if "%" in line][:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=600)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--perf", action="store_true")
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(measure(args.path, args.run, args.batch, args.epochs)))
        return
    if args.perf and shutil.which("perf") is None:
        raise SystemExit("--perf needs the program perf (Debian: linux-perf)")
    from headrace.workloads import make_workload

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "train")
        make_workload("neuron_inverter", Path(path), size=args.mb * 1_000_000, seed=0)
        for name in RUNS:
            command = [sys.executable, __file__, "--path", path, "--run", name, "--batch", str(args.batch)]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            print(f"\n{name}: {found['plan']}, {found['MB/s']:,.0f} MB/s, batches of {args.batch}")
            for what, value in found["per batch"].items():
                print(f"  {what:46} {value:10,.2f}")
            for line in hottest(path, name, args) if args.perf else ():
                print(f"    {line}")


if __name__ == "__main__":
    main()
