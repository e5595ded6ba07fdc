"""How fast is SPDL? A pipeline of threads over the original files, in an order of the user's own.

SPDL schedules the user's reading code and has no format. Settings of its guide: one pipeline for all epochs, the
reading stage takes a batch of ids at once and runs several of them concurrently, a sink of three batches. The reading
code is the fastest that h5py offers (each file in the order of its rows, no sieve buffer), or `np.load` for each file.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

READERS = 4  # concurrent reads for each worker that others get: HDF5 has one lock for all, files of their own have none


def prepare(spec: Any) -> dict[str, Any]:
    """Nothing to convert."""
    return {"skipped": "reads the original files"}


def run(spec: Any) -> dict[str, Any]:
    """Time a Pipeline."""
    from importlib.metadata import version

    from spdl.pipeline import PipelineBuilder

    from peers.contract import timed
    from peers.source import Rows, open_source

    source = open_source(spec.source)
    workers = max(spec.workers, 1)
    settings = {"concurrency": workers if source.kind == "hdf5" else READERS * workers, "sink": 3}

    def opened(stack: ExitStack) -> Any:
        rows = Rows(source)
        orders = [
            source.batches(epoch=epoch, seed=spec.seed, batch_size=spec.batch_size) for epoch in range(spec.epochs)
        ]
        pipeline = (
            PipelineBuilder()
            .add_source(itertools.chain.from_iterable(orders))
            .pipe(rows.take, concurrency=settings["concurrency"], output_order="input")
            .add_sink(settings["sink"])
            .build(num_threads=settings["concurrency"])
        )
        stack.enter_context(pipeline.auto_stop())
        batches = iter(pipeline.get_iterator(timeout=600))
        return lambda number: itertools.islice(batches, len(orders[number]))

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="exact",
        settings=settings,
        version=version("spdl-core"),
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, where `spdl` would be this file
    from peers.contract import serve

    serve(prepare=prepare, run=run)
