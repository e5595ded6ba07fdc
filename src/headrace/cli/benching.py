"""Who is fastest over this dataset? The bench of `headrace.bench`, printed as a table, saved, drawn."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.bench import Bench, Result, run_bench
from headrace.bench.chart import bar_chart
from headrace.bench.contenders import CONTENDERS
from headrace.bench.summary import first_line, table
from headrace.cli.output import progress, write, write_heading, write_table
from headrace.cost import format_bytes
from headrace.errors import InputError


def measured(bench: Bench) -> dict[str, Any]:
    """All contenders in turns, with a bar."""
    command = shlex.join(["headrace", *sys.argv[1:]])
    # Some do not fit the data; the bar then ends early.
    with progress("bench", total=len(CONTENDERS) * bench.rounds, unit="runs") as advance:

        def told(name: str, result: Result | None) -> None:
            if result is None:
                advance(0, name)
            else:
                advance(1, f"{name} {result.verdict or f'{(result.rate or 0) / 1e6:,.0f} MB/s'}")

        return run_bench(replace(bench, command=command), told=told)


def check_writable(*paths: Path | None) -> None:
    """Refuse before the run what could not be written after it."""
    for path in paths:
        if path is not None and not path.resolve().parent.is_dir():
            raise InputError(f"{path} cannot be written: {path.resolve().parent} is no folder; make it first")


def record_options(dtype: str | None, shape: str | None) -> dict[str, Any]:
    """The options of fixed records, for `headrace.open`."""
    options: dict[str, Any] = {}
    if dtype is not None:
        options["dtype"] = dtype
    if shape is not None:
        try:
            options["shape"] = [int(size) for size in shape.split(",")]
        except ValueError:
            raise InputError(f"--shape={shape} is no list of whole numbers like 64,3") from None
    return options


def save(found: dict[str, Any], *, json_to: Path | None, plot: Path | None) -> None:
    """Write the figures and the picture where they were asked for."""
    for path, text in ((json_to, json.dumps(found, indent=2) + "\n"), (plot, bar_chart(found))):
        if path is not None:
            path.write_text(text)


def show(found: dict[str, Any]) -> None:
    """The table, who is first, and what has to be said beside it."""
    data, settings, machine = found["dataset"], found["settings"], found["machine"]
    write_heading(f"{found['condition']}: {', '.join(data['paths'])}")
    write(
        f"{data['samples']:,} samples of {data['nbytes'] / data['samples']:,.0f} bytes, {format_bytes(data['nbytes'])} "
        f"in {data['files']:,} {data['format']} file{'s' * (data['files'] != 1)}; batches of "
        f"{settings['batch_size']:,}, {settings['epochs']} epochs, exact shuffle, memory {settings['memory'] or 'auto'}"
    )
    write(
        f"{machine['cores']} cores, {format_bytes(machine['memory_nbytes'])}, kernel {machine['kernel']}, "
        f"torch {machine['torch'] or 'not installed'}; median of {settings['rounds']}\n"
    )
    headings, rows = table(found)
    write_table(headings, rows, names=True)
    write()
    for row in found["summary"]["rows"]:
        if row["verdict"]:
            write(f"{row['contender']}: {row['verdict']}")
    for name, why in found["left_out"].items():
        write(f"{name}: left out, {why}")
    if any(row["cut"] for row in found["summary"]["rows"]):
        write(f"* cut after {settings['seconds']:g} s")
    write(_cached(found))
    write(first_line(found["summary"]))


def _cached(found: dict[str, Any]) -> str:
    """How much of the files was in the page cache when contenders began."""
    shares = [share for row in found["summary"]["rows"] for share in row["cached"] if share is not None]
    if not shares:
        return "How much of the files was in the page cache is not known."
    low, high = min(shares), max(shares)
    between = f"{low:.0%}" if high - low < 0.005 else f"{low:.0%} to {high:.0%}"
    return f"In the page cache when a contender began: {between} of the files."
