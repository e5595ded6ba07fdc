"""How long does one sample per read take? A loop over h5py, as it stands in most training scripts."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 3.0
"""The loop ends after this time, or after one epoch; the epoch's time is scaled from what was read."""

_LOOK = 64  # samples between two looks at the clock


def one_sample_per_read(paths: list[Path], *, samples: int, seed: int) -> dict[str, Any]:
    """Read random samples one after the other for a bounded time."""
    import h5py

    with ExitStack() as stack:
        files = [stack.enter_context(h5py.File(path, "r")) for path in paths]
        fields = [[file[name] for name in file] for file in files]
        first = np.cumsum([0] + [len(values[0]) for values in fields])
        order = np.random.default_rng(seed).permutation(samples)
        which = np.searchsorted(first, order, side="right") - 1
        row = order - first[which]
        read = 0
        started = time.perf_counter()
        while read < samples and time.perf_counter() - started < SECONDS:
            for k in range(read, min(read + _LOOK, samples)):
                for values in fields[which[k]]:
                    values[row[k]]
            read = min(read + _LOOK, samples)
        seconds = time.perf_counter() - started
    return {
        "samples_read": read,
        "seconds": seconds,
        "samples_per_second": read / seconds,
        "epoch_seconds": seconds * samples / read,
        "scaled": read < samples,
    }
