"""How fast is the storage under a path? Measured now, remembered for the loaders to come, and printed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from headrace import config
from headrace.cli.output import progress, write, write_heading, write_table
from headrace.cost import format_bytes, parse_bytes
from headrace.cost.filesystem import Filesystem, filesystem_of
from headrace.cost.probe import phases
from headrace.cost.remember import FILE, forget, recall, remember
from headrace.errors import InputError
from headrace.runtime.probing import Probing, probe_files
from headrace.values.measured import measured_from_dict

MOST_FILES = 10_000


def run(path: Path, *, seconds: float, nbytes: str, size: str) -> dict[str, Any]:
    """Measure, remember, and give what `headrace probe --json` prints."""
    settings = config.load()
    files = files_under(path)
    filesystem = filesystem_of(files[0])
    wanted = parse_bytes(size, name="--size")
    with progress("probing", total=len(list(phases(wanted))), unit="measurements") as advance:
        probing = Probing(
            allowed=True,
            cache=settings.cache,
            watch=lambda label: advance(note=label),
            seconds=seconds,
            nbytes=parse_bytes(nbytes, name="--bytes"),
        )
        measured = probe_files(files, size=wanted, probing=probing)
    problem = remember(settings.cache, filesystem, measured)
    return {
        "measured": measured.to_dict(),
        "filesystem": dict(filesystem.identity),
        "conditions": dict(filesystem.conditions),
        "remembered": None if problem or settings.cache is None else str(Path(settings.cache, FILE)),
        "notes": [*measured.notes, *([problem] if problem else [])],
    }


def drop(path: Path) -> dict[str, Any]:
    """Forget what was measured on the filesystem of a path, and give what `headrace probe --forget --json` prints."""
    cache, filesystem = config.load().cache, _filesystem(path)
    kept = recall(cache, filesystem, now=0.0)
    try:
        forgotten = forget(cache, filesystem)
    except OSError as error:
        raise InputError(f"--forget: {error}; make it writable, or remove the file by hand") from None
    return {"forgotten": forgotten, "of": None if kept is None else kept.measured.date}


def show_dropped(result: dict[str, Any]) -> None:
    """Print what was forgotten."""
    write(f"forgotten: the measurement of {result['of']}" if result["forgotten"] else "nothing was remembered")


def show(result: dict[str, Any]) -> None:
    """Print a measurement as text."""
    measured = measured_from_dict(result["measured"])
    storage = measured.storage
    write(f"{storage.name}: measured in {measured.seconds:.1f} s with {format_bytes(measured.nbytes)}")
    write_heading("Reads")
    rows = [
        [
            f"{f.pattern}, {f.how}",
            f"{f.depth}",
            format_bytes(f.nbytes),
            f"{f.rate:,.0f}",
            f"{f.bandwidth / 1e6:,.0f}",
            f"{f.latency * 1e3:.2f} ms",
        ]
        for f in measured.figures
    ]
    write_table(["", "in flight", "bytes each", "reads/s", "MB/s", "time of one"], rows)
    write_heading("Storage")
    write(
        f"{storage.iops:,.0f} operations/s, {storage.bandwidth / 1e6:,.0f} MB/s, {storage.latency * 1e3:.2f} ms; "
        f"a gap of {format_bytes(measured.break_even)} costs as much as an operation"
    )
    ratio = measured.random_costs
    write(f"random reads take {ratio:.1f}× the time of sequential ones" if ratio > 1.1 else "random reads cost no more")
    write(f"remembered in {result['remembered']}" if result["remembered"] else "not remembered")
    for note in result["notes"]:
        write(f"note: {note}")


def files_under(path: Path) -> list[str]:
    """The file, or the files of a folder that hold something: at most so many, in the order of their names."""
    if not path.exists():
        raise InputError(f"{path} does not exist; give a file or a folder of files to read from")
    found = [str(path)] if path.is_file() else list(islice(_walk(path), MOST_FILES))
    if not found:
        raise InputError(f"{path} holds no file with anything in it; a probe reads what is there, and writes nothing")
    return found


def _walk(path: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(folder, name)
            if os.path.isfile(file) and os.path.getsize(file):
                yield file


def _filesystem(path: Path) -> Filesystem:
    try:
        return filesystem_of(path)
    except OSError as error:
        raise InputError(f"{path} cannot be looked at: {error.strerror}") from None
