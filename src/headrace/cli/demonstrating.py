"""What does Headrace do for somebody who has just installed it? The demonstration, from a dataset to a comparison.

1. write a dataset of small samples into a few HDF5 files;
2. print the plan of a run over it;
3. carry it out for a few epochs, with a step that only takes time, and check what arrives;
4. read a part of it as most people do, one sample per read, and put the three side by side.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import headrace
from headrace.cli.baseline import one_sample_per_read
from headrace.cli.output import progress, write, write_heading
from headrace.cli.reporting import write_comparison
from headrace.cost import format_bytes, parse_bytes
from headrace.errors import DataError, InputError
from headrace.plan import forecast
from headrace.runtime.loader import Loader
from headrace.values.plan import Plan
from headrace.workloads import SAMPLE_NBYTES, expected, neuron_inverter, samples_in

FILES = 4
Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    size: str
    memory: str
    batch_size: int
    epochs: int
    step: float
    seed: int
    keep: Path | None
    cold: bool


def run(settings: Settings, *, quiet: bool) -> dict[str, Any]:
    """The whole demonstration; what it found, for JSON. `quiet` prints no text."""
    samples = samples_in(parse_bytes(settings.size, name="--size"))
    if samples < FILES * settings.batch_size:
        raise InputError(
            f"--size={settings.size} makes {samples:,} samples, fewer than {FILES} steps of {settings.batch_size}; "
            f"ask for {format_bytes(FILES * settings.batch_size * SAMPLE_NBYTES)} or more"
        )
    say, head = (_nothing, _nothing) if quiet else (write, write_heading)
    with _folder(settings.keep) as folder:
        head("1. A dataset")
        paths = _make(folder, samples, settings)
        say(f"{samples:,} samples of {SAMPLE_NBYTES:,} bytes (1600 × 3 float32, 19 float32) in {len(paths)} HDF5 files")
        say(f"in {folder}" + ("" if settings.keep else ", removed at the end"))
        if settings.cold:
            say("They leave the page cache before each epoch, as if they were larger than memory (--warm: they stay).")
        result = _as_planned(paths, settings, say=say, head=head)
        head("4. The same samples, one per read")
        result["one_sample_per_read"] = _one_per_read(paths, samples, settings, say=say)
        if not quiet:
            head("5. Side by side")
            write_comparison(result)
            if settings.keep:
                say(f"\nThe dataset stays in {folder}: try headrace inspect {folder}")
        return result


def _as_planned(paths: list[Path], settings: Settings, *, say: Say, head: Say) -> dict[str, Any]:
    """Plan the epochs and carry them out."""
    dataset = headrace.open([str(path) for path in paths])
    with Loader(
        dataset,
        global_batch_size=settings.batch_size,
        epochs=settings.epochs,
        shuffle="exact",
        seed=settings.seed,
        memory=settings.memory,
        step_seconds=settings.step,
    ) as loader:
        head("2. The plan")
        say(loader.explain())
        head(f"3. {settings.epochs} epochs")
        epochs = [_epoch(loader, epoch, paths, settings, say) for epoch in range(settings.epochs)]
        report, plan = loader.report(), loader.plan
    assert plan is not None, "a dataset of files has a plan"
    return {
        "samples": len(dataset),
        "fields": len(plan.run.layout.fields),
        "nbytes": plan.run.layout.nbytes,
        "storage": plan.run.cost.storage.source,
        **_outlook(plan, settings),
        "epochs": epochs,
        "report": report.to_dict(),
    }


def _outlook(plan: Plan, settings: Settings) -> dict[str, Any]:
    """What the plan says of the whole run: counted exactly, and the least that any plan reads."""
    epochs = settings.epochs
    figures = forecast(plan, epochs=epochs)
    compute = settings.step * plan.run.steps.per_epoch
    return {
        "predicted": {
            "operations": sum(f.operations for f in figures),
            "nbytes": sum(f.nbytes for f in figures),
            "waited_seconds": sum(max(f.seconds - compute, 0.0) for f in figures),
        },
        "bound": {"nbytes": plan.run.layout.nbytes + (epochs - 1) * plan.bound.nbytes},
    }


def _one_per_read(paths: list[Path], samples: int, settings: Settings, *, say: Say) -> dict[str, Any]:
    if settings.cold:
        _drop(paths)
    plain = one_sample_per_read(paths, samples=samples, seed=settings.seed)
    scaled = f"; an epoch of {samples:,} would take {plain['epoch_seconds']:.2f} s" if plain["scaled"] else ""
    say(f"h5py read {plain['samples_read']:,} samples in random order in {plain['seconds']:.2f} s{scaled}")
    return plain


def _nothing(text: str = "") -> None:
    """Print nothing."""


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder of the dataset: one that stays, or one that goes whatever happens."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="headrace-demo-") as name:
            yield Path(name)
    else:
        _check_new(keep)
        yield keep


def _check_new(folder: Path) -> None:
    """Make the folder, or refuse it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        empty = not any(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"--keep={folder} cannot be made a folder: {error.strerror}; name one that can be written"
        ) from error
    if not empty:
        raise InputError(f"--keep={folder} is not empty: name a new folder, or remove what is in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"--keep={folder} cannot be written: name a folder that can")


def _make(folder: Path, samples: int, settings: Settings) -> list[Path]:
    with progress("writing", total=samples, unit="samples") as advance:
        paths = neuron_inverter(folder, samples=samples, files=FILES, seed=settings.seed, progress=advance)
    if settings.cold:
        _drop(paths)
    return paths


def _drop(paths: list[Path]) -> None:
    """Take files out of the page cache, which anybody may do with clean pages of files that nobody maps."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _epoch(loader: Loader, epoch: int, paths: list[Path], settings: Settings, say: Say) -> dict[str, Any]:
    """One pass with a simulated step. Every id is counted, one sample of each batch is compared bit by bit."""
    if settings.cold and epoch > 0:
        _drop(paths)
    seen = np.zeros(loader.dataset.n, np.int64)
    waited, compared = 0.0, 0
    started = asked = time.perf_counter()
    with progress(f"epoch {epoch}", total=len(loader), unit="steps") as advance:
        for batch in loader:
            waited += time.perf_counter() - asked
            np.add.at(seen, batch.ids, 1)
            compared += _compare(batch, settings.seed)
            time.sleep(settings.step)
            advance(1, f"waited {waited:.2f} s")
            asked = time.perf_counter()
    seconds = time.perf_counter() - started
    if not (seen == 1).all():
        wrong = int(np.flatnonzero(seen != 1)[0])
        raise DataError(f"epoch {epoch} delivered sample {wrong:,} {seen[wrong]} times instead of once", sample=wrong)
    say(
        f"epoch {epoch}: {seconds:.2f} s, of which {waited:.2f} s waiting for data; each of {len(seen):,} samples "
        f"once, {compared} compared bit by bit"
    )
    return {"epoch": epoch, "seconds": seconds, "waited_seconds": waited, "samples_compared": compared}


def _compare(batch: Any, seed: int) -> int:
    """Compare the first sample of a batch with what it must be; the number of samples compared."""
    sample = int(batch.ids[0])
    for name, values in expected([sample], seed=seed).items():
        if not np.array_equal(batch[name][0], values[0]):
            raise DataError(f"field {name!r} of sample {sample:,} is not what was written", sample=sample)
    return 1
