"""Who is fastest where? Every workload under every condition: the tables of the docs are made by this.

    python benchmarks/matrix.py --quick            (make bench: two workloads, the strongest contenders, minutes)
    python benchmarks/matrix.py --full --peers     (make bench-full: everything, hours)
    python benchmarks/matrix.py --only-workload neuron_inverter --only-condition throttled

Conditions: `warm` (page cache), `cold` (dropped, memory= a quarter), `cgroup` (a memory cgroup of 28 % of the data,
memory= a fifth), `throttled` (the same and 1,500 reads and 150 MB a second). A condition that this machine cannot make
is left out, with the reason. Figures are MB/s from open to last batch; compare those of one table only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from headrace.bench import Bench, run_bench  # noqa: E402
from headrace.bench.summary import table  # noqa: E402
from headrace.cost import parse_bytes  # noqa: E402
from headrace.workloads import find_workload, make_workload  # noqa: E402
from peers import run as peers  # noqa: E402

PEERS = ("ffcv", "spdl", "dali", "grain", "tfdata", "litdata", "mds", "webdataset")
QUICK = ("sequential", "memcpy", "headrace", "headrace-echo", "memmap", "threads", "torch-slabs-0")


@dataclass(frozen=True)
class Condition:
    """What surrounds every contender, the share of the data that `memory=` is, and what a planner is told."""

    name: str
    what: str
    flags: tuple[str, ...] = ()
    memory: float = 0.25
    storage: dict[str, float] | None = None


@dataclass(frozen=True)
class Job:
    """One workload: its bytes in a quick and in a full run, and the samples of a batch."""

    name: str
    quick: str
    full: str
    batch_size: int = 256
    sample_nbytes: int = 19200
    conditions: tuple[str, ...] = field(default=())


CONDITIONS = (
    Condition("warm", "page cache warm"),
    Condition("cold", "page cache dropped", ("--cold",)),
    Condition("cgroup", "memory cgroup of 28 %", ("--memory", "28%"), 0.2),
    Condition(
        "throttled", "memory cgroup of 28 %, 1,500 reads/s, 150 MB/s",
        ("--memory", "28%", "--iops", "1500", "--bandwidth", "150MB"), 0.2, {"iops": 1500.0, "bandwidth": 150e6},
    ),
)  # fmt: skip
JOBS = (
    Job("neuron_inverter", "1200MB", "2900MB"),
    Job("small_records", "600MB", "1500MB", 256, 3000, conditions=("warm",)),
    Job("chunked", "", "2600MB", 64, 65536),
    Job("npy_files", "", "2600MB", 64, 131072),
    Job("large", "", "2600MB", 16, 2 << 20),
)


def rigged(flags: tuple[str, ...], data: Path) -> Callable[[list[str]], list[str]]:
    """A command under the rig."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from benchmarks.rig.__main__ import main; sys.exit(main())"
    )
    return lambda argv: [sys.executable, "-c", script, "--data", str(data), *flags, "--", *argv]


def refused(condition: Condition, data: Path) -> str:
    """Why the rig cannot make a condition here; empty where it can."""
    if not condition.flags:
        return ""
    tried = subprocess.run(
        rigged(condition.flags, data)(["true"]), capture_output=True, text=True, timeout=300, check=False
    )
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else ""


def measure(job: Job, condition: Condition, data: Path, args: argparse.Namespace) -> dict:
    """All contenders of one cell row."""
    nbytes = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    memory = int(condition.memory * nbytes)
    only = tuple(args.only or (QUICK if args.quick else ()))
    bench = Bench(
        (str(data),), fields=find_workload(job.name).fields, batch_size=job.batch_size, epochs=args.epochs,
        memory=str(memory), seconds=args.seconds, storage=condition.storage, rounds=args.rounds,
        warm=condition.name == "warm", condition=condition.what, only=fitting(only, condition),
    )  # fmt: skip
    wrap = rigged(condition.flags, data) if condition.flags else None
    if wrap is not None and condition.storage is None:
        # As after an earlier run on this filesystem: the storage is measured once, and remembered.
        probe = wrap([sys.executable, "-m", "headrace.cli", "probe", str(data), "--size", str(job.sample_nbytes)])
        subprocess.run(probe, capture_output=True, timeout=300, check=False)
    found = run_bench(bench, wrap=wrap, told=lambda name, result: tell(name, result))
    found["workload"], found["cell"] = job.name, condition.name
    found["peers"] = []
    for name in PEERS if args.peers else ():
        print(f"    {name} …", end=" ", flush=True)
        work = Path(args.data) / "peers" / job.name
        # What is limited and dropped is what the peer reads: its own conversion, or the files as they are.
        source = work / name if condition.flags and (work / name / "data").exists() else data
        one = peers.measure(
            name, data, work=work, batch_size=job.batch_size, epochs=args.epochs, memory=memory,
            wrap=rigged(condition.flags, source) if condition.flags else None, timeout=args.seconds * 4,
        )  # fmt: skip
        print(one.get("unavailable") or one.get("failed") or f"{one['rate']:,.0f} MB/s", flush=True)
        found["peers"].append(one)
    return found


def fitting(only: tuple[str, ...], condition: Condition) -> tuple[str, ...]:
    """Echo differs where storage is slow; elsewhere it is the same loader."""
    return tuple(name for name in only if name != "headrace-echo" or condition.name == "throttled")


def tell(name: str, result: object) -> None:
    """One contender has begun, or ended."""
    if result is None:
        print(f"    {name} …", end=" ", flush=True)
        return
    rate = getattr(result, "rate", None)
    print(getattr(result, "verdict", "") or f"{(rate or 0) / 1e6:,.0f} MB/s", flush=True)


def markdown(found: dict) -> str:
    """One table for the docs."""
    headings, rows = table(found)
    data, settings = found["dataset"], found["settings"]
    lines = [
        f"### {found['workload']}, {found['condition']}",
        "",
        f"{data['samples']:,} samples, {data['nbytes'] / 1e6:,.0f} MB; batches of {settings['batch_size']}, "
        f"{settings['epochs']} epochs, memory= {int(settings['memory']) / 1e6:,.0f} MB.",
        "",
        "| " + " | ".join(headings) + " |",
        "|" + "---|" * len(headings),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    for row in found["summary"]["rows"]:
        if row["verdict"]:
            lines.append(f"\n{row['contender']}: {row['verdict']}")
        predicted = row["notes"].get("predicted_seconds")
        if predicted and found["cell"] == "throttled":
            taken = [
                e for turn in found["rounds"] for r in turn if r["contender"] == row["contender"] for e in r["epochs"]
            ]
            lines.append(
                f"\n{row['contender']}: {row['notes']['plan']}; epochs predicted "
                f"{', '.join(f'{s:.1f}' for s in predicted)} s, measured {', '.join(f'{s:.1f}' for s in taken)} s"
            )
    if found["peers"]:
        lines += ["", "| peer | MB/s | shuffle | conversion | ids |", "|---|---|---|---|---|"]
        for one in found["peers"]:
            if "rate" not in one:
                lines.append(f"| {one['name']} | – | | | {one.get('unavailable') or one.get('failed')} |")
                continue
            made = one.get("conversion") or {}
            cost = f"{made['seconds']:.0f} s, {made['bytes'] / 1e6:,.0f} MB" if "seconds" in made else "none"
            lines.append(f"| {one['name']} | {one['rate']:,.0f} | {one['shuffle']} | {cost} | {one['ids_ok']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--peers", action="store_true", help="also the loaders of benchmarks/peers/")
    parser.add_argument("--only", action="append", help="a contender; may be repeated")
    parser.add_argument("--only-workload", action="append", choices=[job.name for job in JOBS])
    parser.add_argument("--only-condition", action="append", choices=[c.name for c in CONDITIONS])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=25.0, help="cut each contender after so many seconds")
    parser.add_argument("--data", default=str(ROOT / "build" / "bench"), help="where datasets are made and kept")
    parser.add_argument("--out", default=str(ROOT / "build" / "bench"), help="where matrix.json and .md are written")
    args = parser.parse_args()
    start, cells, text = time.monotonic(), [], []
    for job in JOBS:
        nbytes = job.quick if args.quick else job.full
        if not nbytes or (args.only_workload and job.name not in args.only_workload):
            continue
        data = Path(args.data) / f"{job.name}-{nbytes}"
        if not data.exists():
            print(f"making {data.name}", flush=True)
            make_workload(job.name, data, size=parse_bytes(nbytes), seed=0)
        for condition in CONDITIONS:
            if args.only_condition and condition.name not in args.only_condition:
                continue
            if args.quick and job.conditions and condition.name not in job.conditions:
                continue
            print(f"{job.name}, {condition.what}", flush=True)
            if why := refused(condition, data):
                print(f"  left out: {why}")
                text.append(f"### {job.name}, {condition.what}\n\nLeft out: {why}\n")
                continue
            cells.append(measure(job, condition, data, args))
            text.append(markdown(cells[-1]))
            Path(args.out).mkdir(parents=True, exist_ok=True)
            (Path(args.out) / "matrix.json").write_text(json.dumps(cells, indent=1) + "\n")
            (Path(args.out) / "matrix.md").write_text("\n".join(text))
    print("\n" + "\n".join(text))
    print(f"{time.monotonic() - start:.0f} s; raw figures in {args.out}/matrix.json")


if __name__ == "__main__":
    main()
