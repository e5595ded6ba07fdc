"""How fast is DALI without a GPU? Its reader for .npy files, and its parallel external source for HDF5.

Settings of its guide: a pipeline on the CPU with as many threads as workers; `fn.readers.numpy` with
`shuffle_after_epoch`, which shuffles the whole list of files; for HDF5, for which DALI has no reader, an external
source in worker processes (`parallel=True`, spawned), which gets a batch's ids and reads them as SPDL's stage does.
"""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

AHEAD = 2  # batches that the pipeline holds ready


def prepare(spec: Any) -> dict[str, Any]:
    """Nothing to convert."""
    return {"skipped": "reads the original files"}


class Batches:
    """What a worker of the external source calls: the batch of this number of this epoch."""

    def __init__(self, rows: Any, seed: int, batch_size: int):
        self.rows, self.seed, self.batch_size = rows, seed, batch_size
        self.epoch, self.batches = -1, []

    def __call__(self, batch: Any) -> tuple[Any, ...]:
        if batch.epoch_idx != self.epoch:
            self.epoch = batch.epoch_idx
            self.batches = self.rows.source.batches(epoch=self.epoch, seed=self.seed, batch_size=self.batch_size)
        if batch.iteration >= len(self.batches):
            raise StopIteration
        return self.rows.take(self.batches[batch.iteration])


def run(spec: Any) -> dict[str, Any]:
    """Time a Pipeline."""
    import numpy as np
    from nvidia import dali
    from nvidia.dali import fn

    from peers.contract import timed
    from peers.source import Rows, open_source

    source = open_source(spec.source)
    workers = max(spec.workers, 1)
    settings = {"num_threads": workers, "prefetch_queue_depth": AHEAD}
    if source.kind == "hdf5":
        settings |= {"external_source": "parallel, batch", "py_num_workers": workers, "py_start_method": "spawn"}
    else:
        settings |= {"readers.numpy": "shuffle_after_epoch, pad_last_batch"}
    batches = math.ceil(source.samples / spec.batch_size)

    def from_callback() -> Any:
        pipe = dali.Pipeline(
            batch_size=spec.batch_size,
            num_threads=workers,
            device_id=None,
            seed=spec.seed,
            prefetch_queue_depth=AHEAD,
            py_num_workers=workers,
            py_start_method="spawn",
        )
        with pipe:
            pipe.set_outputs(
                *fn.external_source(
                    source=Batches(Rows(source), spec.seed, spec.batch_size),
                    num_outputs=len(source.fields),
                    batch=True,
                    batch_info=True,
                    parallel=True,
                    prefetch_queue_depth=AHEAD,
                )
            )
        return pipe

    def from_files() -> Any:
        pipe = dali.Pipeline(
            batch_size=spec.batch_size,
            num_threads=workers,
            device_id=None,
            seed=spec.seed,
            prefetch_queue_depth=AHEAD,
        )
        with pipe:
            files = [str(path) for path in source.files]
            pipe.set_outputs(fn.readers.numpy(files=files, shuffle_after_epoch=True, pad_last_batch=True))
        return pipe

    def opened(stack: ExitStack) -> Any:
        pipe = from_callback() if source.kind == "hdf5" else from_files()
        pipe.build()

        def epoch(number: int) -> Any:
            if number and source.kind == "hdf5":
                pipe.reset()
            left = source.samples
            for _ in range(batches):
                fields = [np.asarray(out.as_tensor()) for out in pipe.run()]
                count = min(left, spec.batch_size)
                left -= count
                yield tuple(field[:count] for field in fields)

        return epoch

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="exact",
        settings=settings,
        version=dali.__version__,
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from peers.contract import serve

    serve(prepare=prepare, run=run)
