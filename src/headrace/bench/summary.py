"""What do the rounds say together? Medians, the ratios to the two limits, and who is first."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.bench.contenders import Contender
from headrace.bench.values import Result

Round = Sequence[Result]


def summarise(contenders: Sequence[Contender], rounds: Sequence[Round]) -> dict[str, Any]:
    """One row a contender, in the order of their names in the registry, and the name of the fastest.

    Ratios are taken inside of each round, against the limit that ran in it. A contender that was wrong or failed in one
    round has no figures at all.
    """
    rows = [_row(one, rounds) for one in contenders]
    racing = [row for row in rows if row["rate"] is not None and not row["limit"]]
    racing.sort(key=lambda row: -row["rate"])
    return {
        "rows": rows,
        "first": racing[0]["contender"] if racing else None,
        "second": racing[1]["contender"] if len(racing) > 1 else None,
    }


def first_line(summary: dict[str, Any]) -> str:
    """Who is first, and by how much."""
    rows = {row["contender"]: row for row in summary["rows"]}
    if summary["first"] is None:
        return "Nobody is first: no contender delivered what it had to."
    first = rows[summary["first"]]
    text = f"First: {first['contender']} with {first['rate'] / 1e6:,.0f} MB/s"
    if first["to_sequential"] is not None:
        text += f", {first['to_sequential']:.2f} of the sequential read"
    if summary["second"] is not None:
        second = rows[summary["second"]]
        text += f"; {first['rate'] / second['rate']:.2f} times the second, {second['contender']}"
    return text + "."


def _row(one: Contender, rounds: Sequence[Round]) -> dict[str, Any]:
    runs = [result for turn in rounds for result in turn if result.contender == one.name]
    verdict = next((result.verdict for result in runs if result.verdict), "")
    fine = not verdict
    return {
        "contender": one.name,
        "what": one.what,
        "limit": one.limit,
        "verdict": verdict,
        "rate": _median((run.rate for run in runs), fine),
        "later_rate": _median((run.later_rate for run in runs), fine),
        "to_sequential": _ratio(one.name, "sequential", rounds, fine),
        "to_memcpy": _ratio(one.name, "memcpy", rounds, fine),
        "first": _median((run.first for run in runs), fine and not one.limit),
        "wait": _median((sum(run.waits) / len(run.waits) for run in runs if run.waits), fine and not one.limit),
        "cpu_per_gb": _median((_cpu_per_gb(run) for run in runs), fine),
        "peak_private": _median((run.peak_private for run in runs), fine),
        "cached": [run.cached for run in runs],
        "cut": any(run.cut for run in runs),
        "notes": dict(runs[-1].notes) if runs else {},
    }


def _median(values: Iterable[float | None], wanted: bool = True) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found and wanted else None


def _ratio(name: str, limit: str, rounds: Sequence[Round], wanted: bool) -> float | None:
    def rate(turn: Round, of: str) -> float | None:
        return next((result.rate for result in turn if result.contender == of), None)

    pairs = [(rate(turn, name), rate(turn, limit)) for turn in rounds]
    return _median((own / best for own, best in pairs if own is not None and best), wanted)


def _cpu_per_gb(run: Result) -> float | None:
    return run.cpu / (run.nbytes / 1e9) if run.cpu is not None and run.nbytes else None


COLUMNS: tuple[tuple[str, str, Callable[[dict[str, Any]], str]], ...] = (
    ("rate", "MB/s", lambda row: f"{row['rate'] / 1e6:,.0f}"),
    ("later_rate", "epoch 2 on", lambda row: f"{row['later_rate'] / 1e6:,.0f}"),
    ("to_sequential", "of sequential", lambda row: f"{row['to_sequential']:.2f}"),
    ("to_memcpy", "of memcpy", lambda row: f"{row['to_memcpy']:.2f}"),
    ("first", "first batch", lambda row: f"{row['first'] * 1e3:,.0f} ms"),
    ("wait", "waited an epoch", lambda row: f"{row['wait']:.2f} s"),
    ("cpu_per_gb", "CPU s/GB", lambda row: f"{row['cpu_per_gb']:.2f}"),
    ("peak_private", "own memory", lambda row: f"{row['peak_private'] / 1e6:,.0f} MB"),
)
"""The columns of the table: key, heading, and how a figure is written."""


def table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of text. The column of waiting comes where the loop had a step of its own."""
    stepped = bool(found["settings"]["step_seconds"])
    columns = [column for column in COLUMNS if column[0] != "wait" or stepped]
    rows = []
    for row in found["summary"]["rows"]:
        cells = ["–" if row[key] is None else write(row) for key, _, write in columns]
        if row["cut"] and row["rate"] is not None:
            cells[0] += "*"
        if row["verdict"]:
            cells = ["–"] * len(columns)
        rows.append([row["contender"], *cells])
    return ["contender", *(heading for _, heading, _ in columns)], rows
