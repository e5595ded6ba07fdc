"""What is in this dataset? The facts of `headrace.formats.inspect`, for people."""

from __future__ import annotations

from typing import Any

from headrace.cli.output import progress, write, write_heading, write_table
from headrace.cost import assume_storage, format_bytes
from headrace.formats import inspect
from headrace.formats import open as open_dataset


def facts(paths: list[str], fields: list[str] | None, format: str | None) -> dict[str, Any]:
    """What `headrace inspect --json` prints."""
    with progress("opening", total=2, unit="stages") as advance:
        dataset = open_dataset(paths[0] if len(paths) == 1 else paths, fields or None, format=format)
        advance(note="looking at the storage")
        found = inspect(dataset)
        storage = assume_storage([file.path for file in dataset.layout.files])
    return {**found, "storage": storage.to_dict()}


def show(found: dict[str, Any]) -> None:
    """Print facts as text."""
    write(
        f"{found['n']:,} samples of {format_bytes(found['bytes_per_sample'])} in {found['file_count']:,} "
        f"{found['format']} file{'s' * (found['file_count'] != 1)}, {format_bytes(found['bytes'])} of data"
    )
    write_heading("Fields")
    rows = []
    for field in found["fields"]:
        shape = "ragged" if field["shape"] is None else " × ".join(map(str, field["shape"])) or "scalar"
        nbytes = field["bytes_per_sample"]
        rows.append([field["name"], field["stored"], shape, "varies" if nbytes is None else format_bytes(nbytes)])
    write_table(["name", "stored as", "shape", "bytes a sample"], rows)
    write_heading("Files")
    write_table(["path", "size"], [[file["path"], format_bytes(file["bytes"])] for file in found["files"]])
    if found["file_count"] > len(found["files"]):
        write(f"and {found['file_count'] - len(found['files']):,} more")
    storage = found["storage"]
    write_heading("Storage")
    write(
        f"{storage['name']}: {storage['iops']:,.0f} operations a second, {storage['bandwidth'] / 1e6:,.0f} MB/s "
        f"({storage['source']})"
    )
    for note in found["notes"]:
        write(f"note: {note}")
    write(f"\nfingerprint {found['fingerprint']}")
