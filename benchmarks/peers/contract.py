"""What does every peer answer, and how is it timed and checked?

A peer is a script that is run by the interpreter of its own environment: `python <name>.py SPEC.json`. It prints one
line of JSON to standard output, and whatever it or its library has to say goes to standard error.

- `prepare` converts the dataset if the peer has a format of its own: {"seconds", "bytes", "format"}, or {"skipped"}.
- `run` delivers every sample of every epoch in batches: {"epochs", "first", "bytes", "shuffle", "ids_ok", …}.

Time runs from before the loader is opened to the last batch of the last epoch: opening, compiling and starting workers
count, importing and closing do not. Between two epochs it runs on. The bytes are those of all fields of all batches.
The first eight bytes of each delivered sample say which it is, and every epoch must hold each sample once.

Needs numpy only, and knows no peer.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

Batch = Sequence[np.ndarray]  # the fields of a batch, x first
Epoch = Callable[[int], Iterable[Batch]]

NAMED = 3  # ids that a complaint lists


@dataclass(frozen=True)
class Spec:
    """What a peer is asked to do. `memory` is what the run may hold, None for all there is.

    `exact` asks those that can for a uniform shuffle where their guide would have recommended an approximate one.
    """

    what: str
    source: Path
    work: Path
    batch_size: int
    epochs: int
    seed: int
    workers: int
    memory: int | None = None
    exact: bool = False

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Spec:
        """The spec in a file of JSON; a key that is unknown or missing is an error."""
        said = json.loads(Path(path).read_text())
        known = {field.name for field in fields(cls)}
        if unknown := set(said) - known:
            raise ValueError(f"{path}: unknown keys {sorted(unknown)}, known are {sorted(known)}")
        spec = cls(**said)
        return cls(**{**vars(spec), "source": Path(spec.source), "work": Path(spec.work)})


def serve(*, prepare: Callable[[Spec], dict[str, Any]], run: Callable[[Spec], dict[str, Any]]) -> None:
    """Answer the spec that the command line names."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} SPEC.json")
    spec = Spec.read(sys.argv[1])
    verbs = {"prepare": prepare, "run": run}
    if spec.what not in verbs:
        sys.exit(f"{sys.argv[1]}: what={spec.what!r}, expected one of {sorted(verbs)}")
    answers = os.dup(1)
    os.dup2(2, 1)  # what the peer's library prints, in this process and in its workers, is no answer
    spec.work.mkdir(parents=True, exist_ok=True)
    answer = json.dumps(verbs[spec.what](spec)) + "\n"
    os.write(answers, answer.encode())


def timed(spec: Spec, opened: Callable[[ExitStack], Epoch], *, samples: int, **said: Any) -> dict[str, Any]:
    """Open a loader, take every batch of every epoch, and say how long it took and whether all was there.

    `opened` gets a stack for what has to be closed, and gives the function of an epoch's number that iterates over it.
    """
    delivered: list[list[np.ndarray]] = [[] for _ in range(spec.epochs)]
    seconds: list[float] = []
    first = None
    nbytes = 0
    with ExitStack() as stack:
        cpu = cpu_seconds()
        start = last = now = time.perf_counter()
        epoch = opened(stack)
        for number in range(spec.epochs):
            for batch in epoch(number):
                delivered[number].append(ids_of(batch[0]))
                nbytes += sum(field.nbytes for field in batch)
                now = time.perf_counter()
                first = now - start if first is None else first
            seconds.append(now - last)
            last = now
        cpu = cpu_seconds() - cpu
    ids = [np.concatenate(batches) if batches else np.empty(0, np.int64) for batches in delivered]
    return {
        "epochs": [round(each, 4) for each in seconds],
        "first": None if first is None else round(first, 4),
        "bytes": nbytes,
        "ids_ok": check_ids(ids, samples),
        "order": describe_order(ids, samples),
        "cpu": round(cpu, 3),
        **said,
    }


def ids_of(x: np.ndarray) -> np.ndarray:
    """The ids of a batch: the first eight bytes of each sample."""
    rows = x.reshape(len(x), -1)
    return np.ascontiguousarray(rows[:, : max(8 // x.itemsize, 1)]).view("<i8")[:, 0]


def check_ids(epochs: Sequence[np.ndarray], samples: int) -> bool | str:
    """True if each epoch holds each of the ids 0 … samples-1 once; else a sentence that names what is wrong."""
    complaints = []
    for number, ids in enumerate(epochs):
        known = ids[(ids >= 0) & (ids < samples)]
        counts = np.bincount(known, minlength=samples)
        wrong = {
            "missing": np.flatnonzero(counts == 0),
            "repeated": np.flatnonzero(counts > 1),
            "unknown": np.unique(ids[(ids < 0) | (ids >= samples)]),
        }
        found = [f"{len(which)} {what} ({_some(which)})" for what, which in wrong.items() if len(which)]
        if found:
            complaints.append(f"epoch {number}: {len(ids)} delivered of {samples}, {', '.join(found)}")
    return "; ".join(complaints) or True


def _some(which: np.ndarray) -> str:
    return ", ".join(str(each) for each in which[:NAMED]) + (", …" if len(which) > NAMED else "")


def describe_order(epochs: Sequence[np.ndarray], samples: int) -> dict[str, Any]:
    """How far samples were carried from their places: 1.0 in a uniform shuffle, 0 in none; and whether epochs differ.

    A crude measure that tells a shuffle from none and a buffer from a uniform one; no statement on randomness.
    """
    far = [float(np.abs(ids - np.arange(len(ids))).mean()) * 3 / max(samples, 1) if len(ids) else 0.0 for ids in epochs]
    same = len(epochs) > 1 and np.array_equal(epochs[0], epochs[1])
    return {"displacement": [round(each, 3) for each in far], "epochs_differ": not same}


def cpu_seconds() -> float:
    """CPU seconds of this process, of the children it has waited for, and of those that still run."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in own) + _living(os.getpid())


def _living(parent: int) -> float:
    """CPU seconds of the descendants of a process, each with the children it has waited for."""
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        pid, ppid = int(entry.name), int(after_name[1])
        times[pid] = sum(int(ticks) for ticks in after_name[11:15]) / os.sysconf("SC_CLK_TCK")
        children.setdefault(ppid, []).append(pid)
    found = list(children.get(parent, []))
    for pid in found:
        found.extend(children.get(pid, []))
    return sum(times[pid] for pid in found)


def clock_conversion(spec: Spec, fmt: str, convert: Callable[[Path], None]) -> dict[str, Any]:
    """Convert into a fresh folder `data` of the work folder; how long it took and what it takes on disk."""
    target = spec.work / "data"
    start = time.perf_counter()
    convert(target)
    seconds = time.perf_counter() - start
    files = [path for path in target.rglob("*") if path.is_file()] if target.is_dir() else [target]
    return {"seconds": round(seconds, 3), "bytes": sum(path.stat().st_size for path in files), "format": fmt}
