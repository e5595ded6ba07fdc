"""What does the loader take the storage under a dataset to be?

1. what the user says;
2. files that are in the page cache: a copy, as `cost` assumes it;
3. what was measured here before and still holds;
4. a measurement now, unless told otherwise or not worth it;
5. what was measured here before, called stale; or else what is assumed of its kind.

Files on several filesystems: each is asked for, and the slowest counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.cost import assume_storage, format_bytes
from headrace.cost.filesystem import Filesystem, filesystem_of
from headrace.cost.probe import NBYTES, SECONDS, measure
from headrace.cost.probe_reads import ProbedFiles
from headrace.cost.remember import recall, remember
from headrace.errors import HeadraceError
from headrace.values.cost import Storage
from headrace.values.layout import Layout
from headrace.values.measured import Measured

WORTH = 64 << 20
"""A dataset of fewer bytes than this is read in less time than it would take to measure its storage."""

Watch = Callable[[str], None]


@dataclass(frozen=True)
class Known:
    """A storage, and what else there is to say about where its figures come from."""

    storage: Storage
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probing:
    """Whether storage may be measured, where measurements are kept, and who is told of each phase of one."""

    allowed: bool
    cache: str | None
    watch: Watch | None = None
    seconds: float = SECONDS
    nbytes: int = NBYTES
    now: Callable[[], float] = time.time


def storage_under(layout: Layout, *, probing: Probing) -> Known:
    """The storage under the files of a layout, as it is known, measured or assumed."""
    paths = [file.path for file in layout.files]
    assumed = assume_storage(paths)
    if assumed.cached or not paths:
        return Known(assumed)
    try:
        grouped = filesystems(paths)
    except OSError as error:
        return Known(assumed, (f"the filesystem under {error.filename} could not be looked at: {error.strerror}",))
    worth = sum(file.size for file in layout.files) >= WORTH
    known = [
        _of_one(filesystem, files, size=read_size(layout), worth=worth, probing=probing)
        for filesystem, files in grouped
    ]
    slowest = min(known, key=lambda k: (k.storage.iops, k.storage.bandwidth))
    if len(known) == 1:
        return slowest
    others = ", ".join(f"{k.storage.name} ({k.storage.source})" for k in known if k is not slowest)
    return replace(slowest, notes=(*slowest.notes, f"the slowest of {len(known)} filesystems counts; also: {others}"))


def read_size(layout: Layout) -> int:
    """About how many bytes one read of one sample takes: those of its largest part."""
    return max((int(part.segments.nbytes.mean()) for part in layout.parts if part.segments.n), default=1)


def filesystems(paths: Sequence[str]) -> list[tuple[Filesystem, list[str]]]:
    """The filesystems of some files, each with those that lie on it."""
    devices: dict[str, int] = {}
    grouped: dict[int, list[str]] = {}
    for path in paths:
        # 100,000 files lie in few folders; where a folder is, its files are, but for links.
        folder = os.path.dirname(path)
        if folder not in devices:
            devices[folder] = os.stat(path).st_dev
        grouped.setdefault(devices[folder], []).append(path)
    return [(filesystem_of(files[0]), files) for files in grouped.values()]


def probe_files(paths: Sequence[str], *, size: int, probing: Probing) -> Measured:
    """Measure the storage under these files now."""
    with ProbedFiles(paths) as device:
        return measure(
            device,
            path=os.path.dirname(os.path.abspath(paths[0])),
            name=assume_storage(paths, cached=None).name,
            when=probing.now(),
            size=size,
            seconds=probing.seconds,
            nbytes=probing.nbytes,
            watch=probing.watch,
        )


def _of_one(filesystem: Filesystem, paths: list[str], *, size: int, worth: bool, probing: Probing) -> Known:
    kept = recall(probing.cache, filesystem, now=probing.now())
    if kept is not None and not kept.stale:
        return Known(kept.measured.storage, tuple(_told(kept.measured, "")))
    problem = ""
    if probing.allowed and worth:
        try:
            measured = probe_files(paths, size=size, probing=probing)
        except (HeadraceError, OSError) as error:
            problem = f"the storage could not be measured: {error}"
        else:
            return Known(measured.storage, tuple(_told(measured, remember(probing.cache, filesystem, measured))))
    if kept is not None:
        storage = replace(kept.measured.storage, source=f"{kept.measured.storage.source}, stale: {kept.stale}")
        return Known(storage, tuple(filter(None, (*_told(kept.measured, ""), problem))))
    return Known(assume_storage(paths, cached=None), (problem,) if problem else ())


def _told(measured: Measured, problem: str) -> Iterator[str]:
    yield (
        f"the storage was measured on {measured.date} in {measured.seconds:.1f} s with {format_bytes(measured.nbytes)} "
        f"of {measured.path}; `headrace probe` measures again"
    )
    yield from measured.notes
    if problem:
        yield problem
