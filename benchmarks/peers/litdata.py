"""How fast is LitData? Chunks of 64 MB that `optimize` wrote, shuffled by StreamingDataset: chunks, and inside chunks.

Settings of its README: chunk_bytes="64MB", as many workers in `optimize` as in the loader, `shuffle=True`,
`drop_last=False`, a local folder read in place.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any


class Convert:
    """What `optimize` calls for a run of samples: it yields them one by one."""

    def __init__(self, source: Any):
        from peers.source import Rows

        self.rows = Rows(source)

    def __call__(self, run: tuple[int, int]) -> Any:
        for sample in zip(*self.rows.run(*run), strict=True):
            yield {field.name: x for field, x in zip(self.rows.source.fields, sample, strict=True)}


def prepare(spec: Any) -> dict[str, Any]:
    """Write chunks by `optimize`."""
    from litdata import optimize

    from peers.contract import clock_conversion
    from peers.source import CHUNK, open_source

    source = open_source(spec.source)
    step = max(CHUNK // source.sample_nbytes, 1)
    runs = [(first, min(first + step, source.samples)) for first in range(0, source.samples, step)]

    def convert(target: Path) -> None:
        workers = min(max(spec.workers, 1), len(runs))
        optimize(
            fn=Convert(source),
            inputs=runs,
            output_dir=str(target),
            chunk_bytes="64MB",
            num_workers=workers,
            reorder_files=False,
            optimize_dns=False,
            verbose=False,
        )

    return clock_conversion(spec, "LitData chunks", convert)


def run(spec: Any) -> dict[str, Any]:
    """Time a StreamingDataLoader."""
    import litdata
    import numpy as np
    from litdata import StreamingDataLoader, StreamingDataset

    from peers.contract import timed
    from peers.source import open_source

    source = open_source(spec.source)
    settings = {"chunk_bytes": "64MB", "num_workers": spec.workers, "shuffle": True, "drop_last": False}

    def opened(stack: ExitStack) -> Any:
        dataset = StreamingDataset(str(spec.work / "data"), shuffle=True, drop_last=False, seed=spec.seed)
        loader = StreamingDataLoader(
            dataset,
            batch_size=spec.batch_size,
            num_workers=spec.workers,
            persistent_workers=spec.workers > 0,
        )
        return lambda number: (tuple(np.asarray(batch[field.name]) for field in source.fields) for batch in loader)

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="approximate",
        settings=settings,
        version=litdata.__version__,
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, where `litdata` would be this file
    from peers.contract import serve

    serve(prepare=prepare, run=run)
