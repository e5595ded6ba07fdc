"""What goes to the terminal, and where?

Results go to standard output, as text or, with `--json`, as one JSON document. Progress and errors go to standard
error, so that a pipe sees results alone. A command's own error is one line; a traceback means a defect of Headrace.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

from headrace.errors import HeadraceError

FAILED = 2
"""The exit code of a command that could not do what was asked."""

Command = TypeVar("Command", bound=Callable[..., None])


def guarded(command: Command) -> Command:
    """The command, with errors made on purpose printed as one line (or one JSON document) and exit code 2."""

    @functools.wraps(command)
    def run(*args: Any, **keywords: Any) -> None:
        try:
            command(*args, **keywords)
        except HeadraceError as error:
            kind, message = type(error).__name__, " ".join(str(error).split())
            if keywords.get("as_json"):
                write_json({"error": {"type": kind, "message": message}})
            else:
                typer.secho(f"{kind}: {message}", fg=typer.colors.RED, err=True)
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            typer.secho("interrupted", fg=typer.colors.YELLOW, err=True)
            raise typer.Exit(130) from None

    return run  # type: ignore[return-value]


def write(text: str = "") -> None:
    """One or more lines of result."""
    typer.echo(text)


def write_heading(text: str) -> None:
    """A line that starts a part of the result."""
    typer.secho(f"\n{text}", bold=True)


def write_json(value: Mapping[str, Any]) -> None:
    """The result as one JSON document."""
    typer.echo(json.dumps(value, indent=2, default=_plain))


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, names: bool = False) -> None:
    """A table: the first column left, numbers right. `names`: the first column is never folded."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(
            name, justify="left" if number == 0 else "right", overflow="fold", no_wrap=names and not number
        )
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        # A pipe has no width; a table cut at 80 columns there would lose figures.
        console = Console(highlight=False, markup=False, emoji=False, width=160)
    console.print(table)


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """A bar on standard error; yields a function that takes the units done and a note to show. Silent in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn(f"{unit} {{task.fields[note]}}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(label, total=total, note="")

        def advance(done: int = 1, note: str | None = None) -> None:
            bars.update(task, advance=done)
            if note is not None:
                bars.update(task, note=note)

        yield advance


def _plain(value: object) -> object:
    """NumPy numbers and paths, for JSON."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
