"""How do the contenders take turns? One process after the other, round by round, under the same condition.

Every round runs all of them, every second one in reverse, so that what drifts (a noisy neighbour, a warming disk) does
not favour one. Nothing else runs meanwhile. A contender that fails, hangs or is wrong is a row of its own; the others
go on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.bench.contenders import Contender, choose
from headrace.bench.machine import machine_facts
from headrace.bench.opening import described
from headrace.bench.summary import summarise
from headrace.bench.values import Result, Spec
from headrace.errors import InputError

Wrap = Callable[[list[str]], "list[str] | str"]
Told = Callable[[str, Result | None], None]

PROGRAM = (sys.executable, "-m", "headrace.bench.contender")
LONGEST = 3600.0
"""Seconds after which a contender without a cap is given up."""

GRACE = 120.0
"""Seconds beyond its cap for opening, the last batch and the checks."""

ENDING = 20.0
"""Seconds that a process has to end when it is asked to."""

_PIECE = 4 << 20


@dataclass(frozen=True)
class Bench:
    """What is compared: a dataset, the settings of the run, and who takes part.

    `only` are names or patterns of contenders; all that fit the data otherwise. `warm` reads the files once before, so
    that all find the page cache alike. `storage` is what a loader that plans is told of it. `condition` is what the
    table is headed with; `wrap` puts it around each. `guests` are other programs that keep to the contract, by name:
    the command before SPEC.json. They check themselves.
    """

    paths: Sequence[str]
    fields: Sequence[str] | None = None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 256
    epochs: int = 2
    memory: str | None = None
    seed: int = 0
    seconds: float | None = None
    step_seconds: float = 0.0
    storage: Mapping[str, float] | None = None
    rounds: int = 1
    only: Sequence[str] = ()
    guests: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warm: bool = True
    condition: str = ""
    command: str = ""


def run_contender(spec: Spec, *, wrap: Wrap | None = None) -> Result:
    """One run of one contender in a process of its own, as the contract in `headrace.bench` says."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        path = Path(folder) / "SPEC.json"
        path.write_text(spec.to_json())
        argv = [*(spec.program or PROGRAM), str(path)]
        wrapped = argv if wrap is None else wrap(argv)
        deadline = LONGEST if spec.seconds is None else 2 * spec.seconds + GRACE
        try:
            text = wrapped if isinstance(wrapped, str) else _output(wrapped, deadline)
        except _Failed as failure:
            return Result(spec.contender, error=str(failure))
    answer = _answer(text)
    if answer is None:
        return Result(spec.contender, error=f"it printed no JSON but {text.strip()[-200:]!r}")
    return Result.from_answer(spec.contender, answer)


def run_bench(bench: Bench, *, wrap: Wrap | None = None, told: Told | None = None) -> dict[str, Any]:
    """All contenders in turns; every raw figure and the summary, for JSON. `told` hears of each run and its result."""
    if bench.rounds < 1 or bench.epochs < 1 or bench.batch_size < 1:
        raise InputError(
            f"rounds={bench.rounds}, epochs={bench.epochs}, batch_size={bench.batch_size}: each must be at least 1"
        )
    spec, dataset = described(
        [str(path) for path in bench.paths],
        bench.fields,
        bench.format,
        bench.options,
        batch_size=bench.batch_size,
        epochs=bench.epochs,
        memory=bench.memory,
        seed=bench.seed,
        seconds=bench.seconds,
        step_seconds=bench.step_seconds,
        storage=bench.storage,
    )
    chosen, left = choose(bench.only, dataset.layout)
    chosen += [Contender(name, f"a program of its own: {argv[0]}", "", "") for name, argv in bench.guests.items()]
    if bench.warm:
        _read(spec.files)
    results: list[list[Result]] = []
    for number in range(bench.rounds):
        turn = []
        for one in reversed(chosen) if number % 2 else chosen:
            if told is not None:
                told(one.name, None)
            turn.append(run_contender(_task(spec, one.name, bench.guests), wrap=wrap))
            if told is not None:
                told(one.name, turn[-1])
        results.append(turn)
    layout = dataset.layout
    return {
        "format": 1,
        "command": bench.command,
        "condition": bench.condition or ("page cache warm" if bench.warm else "as found"),
        "dataset": {
            "paths": list(spec.paths),
            "format": layout.format,
            "fields": list(spec.fields),
            "files": len(layout.files),
            "samples": layout.n,
            "nbytes": layout.nbytes,
            "fingerprint": layout.fingerprint,
        },
        "settings": {
            name: getattr(bench, name)
            for name in (
                "batch_size",
                "epochs",
                "memory",
                "seed",
                "seconds",
                "step_seconds",
                "storage",
                "rounds",
                "warm",
            )
        },
        "machine": machine_facts(),
        "summary": summarise(chosen, results),
        "left_out": left,
        "rounds": [[result.to_dict() for result in turn] for turn in results],
    }


def _task(spec: Spec, name: str, guests: Mapping[str, Sequence[str]]) -> Spec:
    return replace(spec, contender=name, program=tuple(guests.get(name, ())))


class _Failed(Exception):
    """A process gave no answer; the message says why."""


def _output(argv: Sequence[str], deadline: float) -> str:
    """What a process prints; it is ended, with all that it started, after the deadline."""
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, errors="replace"
    )
    try:
        out, err = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        raise _Failed(f"it gave no answer within {deadline:,.0f} s") from None
    finally:
        if process.poll() is None:
            _end(process)
    if process.returncode:
        last = err.strip().splitlines()[-1:] or ["it said nothing"]
        raise _Failed(f"it ended with {process.returncode}: {last[0][:300]}")
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """End a process with all that it started. It is asked first: a rig around it has limits to take back."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=ENDING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        # Somebody who left the group may still hold the pipe; nobody waits for that.
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=ENDING)


def _answer(text: str) -> dict[str, Any] | None:
    """The last line of a text that is a JSON object."""
    for line in reversed(text.strip().splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return None


def _read(files: Sequence[str]) -> None:
    """Bring files into the page cache, as far as they fit."""
    buffer = bytearray(_PIECE)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
