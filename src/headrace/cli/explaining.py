"""How would this run be read? The loader's own plan, without a loop."""

from __future__ import annotations

from typing import Any

import headrace
from headrace.cli.output import progress
from headrace.cost import parse_bytes
from headrace.errors import InputError
from headrace.runtime.setup import Arguments
from headrace.values.cost import Storage


def given_storage(iops: float | None, bandwidth: str | None) -> Storage | None:
    """The storage that was described on the command line, if it was."""
    if iops is None and bandwidth is None:
        return None
    if iops is None or bandwidth is None:
        raise InputError(f"--iops={iops} and --bandwidth={bandwidth}: a storage is described by both, or by neither")
    nbytes = parse_bytes(bandwidth, name="--bandwidth")
    if not (iops > 0 and nbytes > 0):
        raise InputError(f"--iops={iops} and --bandwidth={bandwidth}: both must be above 0")
    return Storage(iops, nbytes)


def planned(
    paths: list[str], fields: list[str] | None, format: str | None, asked: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The plan as text, and as a value for JSON."""
    with progress("opening", total=2, unit="stages") as advance:
        dataset = headrace.open(paths[0] if len(paths) == 1 else paths, fields or None, format=format)
        advance(note="planning")
        # Storage that nobody has measured yet takes some seconds: the bar says what they are spent on.
        arguments = Arguments(dataset, watch=lambda label: advance(0, note=f"measuring the storage: {label}"), **asked)
        loader = headrace.Loader.of(arguments)
        text = loader.explain()
    assert loader.plan is not None
    return text, loader.plan.to_dict()
