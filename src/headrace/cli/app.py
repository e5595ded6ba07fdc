"""Which commands are there? Each line here is one; what it does is in the module of its name.

Nothing is imported before a command runs but typer: `headrace --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace import __version__
from headrace.cli.output import guarded, write, write_json

app = typer.Typer(
    name="headrace",
    help="Plans the I/O of a training run, explains it and carries it out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Paths = Annotated[list[str], typer.Argument(help="A file, folder or pattern; or several of them.")]
Fields = Annotated[list[str] | None, typer.Option("--field", help="A field to read; may be repeated. All otherwise.")]
Format = Annotated[str | None, typer.Option(help="hdf5, npy or bin, where the files do not say.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        write(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def headrace(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plans the I/O of a training run, explains it and carries it out."""


@app.command()
@guarded
def demo(
    size: Annotated[str, typer.Option(help="Bytes of data, like 256MB.")] = "256MB",
    memory: Annotated[str, typer.Option(help="Memory that the loader may use.")] = "64MiB",
    batch_size: Annotated[int, typer.Option(min=1, help="Samples of one step.")] = 64,
    epochs: Annotated[int, typer.Option(min=1)] = 3,
    step_ms: Annotated[float, typer.Option(min=0, help="Milliseconds that the simulated training step takes.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Of the data and of the shuffle.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Write the dataset to this folder and leave it there.")] = None,
    cold: Annotated[
        bool, typer.Option("--cold/--warm", help="Drop the files from the page cache before each epoch, or leave them.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Make a dataset of small samples, plan it, read it, and compare: plan, measurement, one sample per read."""
    from headrace.cli import demonstrating

    settings = demonstrating.Settings(
        size=size,
        memory=memory,
        batch_size=batch_size,
        epochs=epochs,
        step=step_ms / 1e3,
        seed=seed,
        keep=keep,
        cold=cold,
    )
    result = demonstrating.run(settings, quiet=as_json)
    if as_json:
        write_json(result)


@app.command()
@guarded
def inspect(paths: Paths, field: Fields = None, format: Format = None, as_json: AsJson = False) -> None:
    """Say what a dataset holds: samples, fields, files, and the storage under them."""
    from headrace.cli import inspecting

    found = inspecting.facts(paths, field, format)
    if as_json:
        write_json(found)
    else:
        inspecting.show(found)


@app.command()
@guarded
def explain(
    paths: Paths,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples of one step, over all ranks.")] = 256,
    epochs: Annotated[int, typer.Option(min=1)] = 1,
    memory: Annotated[str | None, typer.Option(help="Like 8GiB or 25%; half of what is there otherwise.")] = None,
    shuffle: Annotated[str, typer.Option(help="exact, echo or sequential.")] = "exact",
    seed: Annotated[int, typer.Option()] = 0,
    drop_last: Annotated[bool, typer.Option(help="Leave out the last batch where it is not full.")] = False,
    iops: Annotated[float | None, typer.Option(help="Storage operations a second, instead of assumed ones.")] = None,
    bandwidth: Annotated[str | None, typer.Option(help="Bytes a second, like 150MB; with --iops.")] = None,
    field: Fields = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Print the plan of a training run before it starts, with what was rejected and what no plan could beat."""
    from headrace.cli import explaining

    asked: dict[str, Any] = {
        "global_batch_size": batch_size,
        "epochs": epochs,
        "memory": memory,
        "shuffle": shuffle,
        "seed": seed,
        "drop_last": drop_last,
        "storage": explaining.given_storage(iops, bandwidth),
    }
    text, plan = explaining.planned(paths, field, format, asked)
    if as_json:
        write_json(plan)
    else:
        write(text)


@app.command()
@guarded
def bench(
    paths: Paths,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples of one batch.")] = 256,
    epochs: Annotated[int, typer.Option(min=1)] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each contender; the median counts.")] = 1,
    memory: Annotated[str | None, typer.Option(help="What this loader may hold, like 8GiB or 25%.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A contender, or a pattern like 'torch-*'.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Cut each contender after so many seconds.")] = None,
    step_ms: Annotated[float, typer.Option(min=0, help="Milliseconds that the loop sleeps at each batch.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of every shuffle, and of the rows that are compared.")] = 0,
    warm: Annotated[bool, typer.Option("--warm/--as-found", help="Read the files once before, or do not.")] = True,
    save: Annotated[Path | None, typer.Option(help="Write all raw figures to this file, as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the table into this file, as SVG.")] = None,
    field: Fields = None,
    format: Format = None,
    dtype: Annotated[str | None, typer.Option(help="Of fixed records (bin), like '<f4'.")] = None,
    shape: Annotated[str | None, typer.Option(help="Of fixed records (bin), like 64,3.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare this loader with torch, np.memmap, threads, the sequential read and memcpy over a dataset of yours."""
    from headrace.bench import Bench
    from headrace.cli import benching

    asked = Bench(
        paths=paths,
        fields=field,
        format=format,
        options=benching.record_options(dtype, shape),
        batch_size=batch_size,
        epochs=epochs,
        memory=memory,
        seed=seed,
        seconds=seconds,
        step_seconds=step_ms / 1e3,
        rounds=rounds,
        only=only or (),
        warm=warm,
    )
    benching.check_writable(save, plot)
    found = benching.measured(asked)
    benching.save(found, json_to=save, plot=plot)
    if as_json:
        write_json(found)
    else:
        benching.show(found)


@app.command()
@guarded
def probe(
    path: Annotated[Path, typer.Argument(help="A file, or a folder of files, on the storage to measure.")],
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long to measure, at most.")] = 3.0,
    nbytes: Annotated[str, typer.Option("--bytes", help="How much to read, at most.")] = "256MiB",
    size: Annotated[str, typer.Option(help="Bytes of one random read: about those of a sample.")] = "16KiB",
    forget: Annotated[bool, typer.Option("--forget", help="Measure nothing; drop what is remembered.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the storage under a path and remember it: latency, operations and bytes a second."""
    from headrace.cli import probing

    if forget:
        dropped = probing.drop(path)
        if as_json:
            write_json(dropped)
        else:
            probing.show_dropped(dropped)
        return
    result = probing.run(path, seconds=seconds, nbytes=nbytes, size=size)
    if as_json:
        write_json(result)
    else:
        probing.show(result)


@app.command()
@guarded
def report(
    run: Annotated[Path, typer.Argument(help="A report that a loader saved as JSON.")], as_json: AsJson = False
) -> None:
    """Print a saved report of a run: measured beside predicted, beside the bound."""
    from headrace.cli import reporting

    saved = reporting.load(run)
    if as_json:
        write_json(saved.to_dict())
    else:
        write(str(saved))


def main() -> None:
    """The entry point of the command line."""
    app()
