"""What was measured here before, and is it still true?

One small JSON file holds the latest measurement of every filesystem. It is replaced as a whole, so a reader never sees
half of it; one that is damaged counts as empty and is written anew. A place that cannot be written costs the memory
and nothing else, and says so.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.cost.filesystem import Filesystem
from headrace.values.measured import Measured, measured_from_dict

FORMAT = 1
FILE = "storage.json"
DAYS = 30
"""After so many days a measurement is stale: disks fill, volumes are resized, neighbours move in."""

DAY = 86_400.0


@dataclass(frozen=True)
class Remembered:
    """A measurement of an earlier run, and why it is `stale`, in words; empty where it is not."""

    measured: Measured
    stale: str


def recall(cache: str | None, filesystem: Filesystem, *, now: float) -> Remembered | None:
    """The measurement that is kept for a filesystem; None where there is none."""
    entry = _read(cache).get(filesystem.key)
    try:
        if entry is None:
            return None
        measured = measured_from_dict(entry["measured"])
        conditions = {str(k): str(v) for k, v in dict(entry["conditions"]).items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    return Remembered(measured, _stale(measured, filesystem, conditions, now))


def remember(cache: str | None, filesystem: Filesystem, measured: Measured) -> str:
    """Keep a measurement; gives a sentence on why it could not be kept, or nothing."""
    entry = {
        "filesystem": dict(filesystem.identity),
        "conditions": dict(filesystem.conditions),
        "measured": measured.to_dict(),
    }
    return _write(cache, {**_read(cache), filesystem.key: entry})


def forget(cache: str | None, filesystem: Filesystem) -> bool:
    """Drop what is kept for a filesystem; whether there was something. OSError where the file cannot be written."""
    kept = dict(_read(cache))
    if kept.pop(filesystem.key, None) is None:
        return False
    problem = _write(cache, kept)
    if problem:
        raise OSError(problem)
    return True


def _stale(measured: Measured, filesystem: Filesystem, conditions: dict[str, str], now: float) -> str:
    age = (now - measured.when) / DAY
    if age > DAYS:
        return f"{age:.0f} days old"
    if age < -1:
        return f"dated {measured.date}, which is yet to come"
    return filesystem.changed(conditions)


def _read(cache: str | None) -> Mapping[str, Any]:
    if cache is None:
        return {}
    try:
        data = json.loads(Path(cache, FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    kept = data.get("filesystems") if isinstance(data, dict) and data.get("format") == FORMAT else None
    return kept if isinstance(kept, dict) else {}


def _write(cache: str | None, kept: Mapping[str, Any]) -> str:
    if cache is None:
        return "not remembered: no HEADRACE_CACHE, XDG_CACHE_HOME or HOME says where"
    temporary = ""
    try:
        os.makedirs(cache, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=cache, prefix=FILE)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"format": FORMAT, "filesystems": kept}, file, indent=1)
        os.replace(temporary, Path(cache, FILE))
    except OSError as error:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
        return f"not remembered: {cache} cannot be written ({error.strerror})"
    return ""
