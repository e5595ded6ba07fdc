"""What happens in the process of one contender? It imports, opens, loops, checks, and prints one line of JSON.

`python -m headrace.bench.contender SPEC.json`; what the line holds is the contract in `headrace.bench`.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.bench.checking import Checker
from headrace.bench.contenders import Contender, Delivery, Open, find_contender
from headrace.bench.sources import open_source
from headrace.bench.values import Spec
from headrace.bench.watching import Watcher
from headrace.cost import page_cache_share

SHORT = 1.0
"""Seconds of an epoch in which the watcher may have seen too little by itself."""


class Clock:
    """The times of a run. `cap` ends it after the batch in which so many seconds are over."""

    def __init__(self, cap: float | None) -> None:
        self._cap = cap
        self._began = self._epoch_began = time.perf_counter()
        self.first: float | None = None
        self.epochs: list[float] = []
        self.waits: list[float] = []
        self.cut = False

    def delivered(self, asked: float) -> None:
        """A batch came that was asked for at this time."""
        now = time.perf_counter()
        self.waits[-1] += now - asked
        if self.first is None:
            self.first = now - self._began
        self.cut = self._cap is not None and now - self._began > self._cap

    def begin(self) -> None:
        """An epoch begins; the time since the last one, or since the opening, is its own."""
        self.waits.append(0.0)

    def end(self) -> None:
        """The last batch of an epoch was delivered."""
        now = time.perf_counter()
        self.epochs.append(now - self._epoch_began)
        self._epoch_began = now


def run(spec: Spec) -> dict[str, Any]:
    """One run of one contender; the answer."""
    contender = find_contender(spec.contender)
    prepare = contender.prepare(spec)
    checker = None if contender.limit else Checker(spec.samples, seed=spec.seed)
    watcher = Watcher()
    try:
        cached = page_cache_share(spec.files)
        base = watcher.start()
        clock, nbytes, cpu, notes = _race(prepare, spec, checker, watcher)
        peak = watcher.look()
    finally:
        watcher.close()
    return {
        "contender": contender.name,
        "epochs": clock.epochs,
        "first": clock.first,
        "bytes": nbytes,
        "ids_ok": _verdict(contender, checker, nbytes, spec, clock),
        "cpu": cpu,
        "peak_private": None if peak is None or base is None else max(peak - base, 0),
        "base_private": base,
        "waits": clock.waits,
        "cut": clock.cut,
        "cached": cached,
        "notes": notes,
    }


def _race(
    prepare: Open, spec: Spec, checker: Checker | None, watcher: Watcher
) -> tuple[Clock, int, float, Mapping[str, Any]]:
    """The part that is measured, from open to last batch: its clock, bytes, processor seconds, and notes."""
    used, nbytes = _cpu(), 0
    clock = Clock(spec.seconds)
    delivery = prepare()
    try:
        for epoch in range(spec.epochs):
            nbytes += _epoch(delivery, epoch, spec.step_seconds, clock, checker)
            # An epoch may be shorter than the watcher's interval, and a loader may give its memory back with the last
            # batch of the run. The look is on the clock, a millisecond or so, for everybody.
            if clock.epochs[-1] < SHORT:
                watcher.look()
            if clock.cut:
                break
        # Closing is not part of the time, but of the processor time: workers count when they have ended.
        delivery.close()
        return clock, nbytes, _cpu() - used, delivery.notes()
    finally:
        delivery.close()


def _epoch(delivery: Delivery, epoch: int, step_seconds: float, clock: Clock, checker: Checker | None) -> int:
    nbytes = 0
    clock.begin()
    if checker is not None:
        checker.begin()
    asked = time.perf_counter()
    for batch in delivery.epoch(epoch):
        clock.delivered(asked)
        nbytes += batch.nbytes
        if checker is not None and batch.ids is not None:
            checker.note(batch.ids, batch.values)
        if step_seconds:
            time.sleep(step_seconds)
        if clock.cut:
            break
        asked = time.perf_counter()
    clock.end()
    return nbytes


def _verdict(contender: Contender, checker: Checker | None, nbytes: int, spec: Spec, clock: Clock) -> bool | str:
    if checker is not None:
        return checker.verdict(open_source(spec), cut=clock.cut)
    if contender.name != "sequential" or clock.cut:
        return True
    size = spec.epochs * sum(Path(path).stat().st_size for path in spec.files)
    return nbytes == size or f"{nbytes:,} bytes were read of {size:,}"


def _cpu() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(arguments: list[str]) -> int:
    """The entry point: the path of a spec."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m headrace.bench.contender SPEC.json\n")
        return 2
    try:
        answer = run(Spec.from_json(Path(arguments[0]).read_text()))
    except Exception as error:
        # Whatever a contender raises is its result; the others go on.
        answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
