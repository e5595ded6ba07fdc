"""How fast is FFCV? Its own file (.beton), loaded by threads that Numba compiled.

Settings of its tuning guide: all in memory (os_cache) and RANDOM where the dataset fits; where it does not, FFCV's own
cache and QUASI_RANDOM, which shuffles pages. With `exact` it is RANDOM with os_cache whatever the memory: FFCV's own
cache would have to hold the whole dataset for it. A batch is a view of a buffer that FFCV fills again later.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

PAGE = 8 << 20  # FFCV's default; larger only where a sample would not fit


def prepare(spec: Any) -> dict[str, Any]:
    """Write the .beton, by FFCV's writer with its workers."""
    import numpy as np
    from ffcv.fields import NDArrayField
    from ffcv.writer import DatasetWriter

    from peers.contract import clock_conversion
    from peers.source import Rows, open_source

    source = open_source(spec.source)

    class Samples(Rows):
        def __getitem__(self, sample: int) -> tuple[np.ndarray, ...]:
            return tuple(np.atleast_1d(field) for field in super().__getitem__(sample))

    def convert(target: Path) -> None:
        target.mkdir()
        page = PAGE
        while page < 2 * source.sample_nbytes:
            page *= 2
        fields = {f.name: NDArrayField(f.dtype, f.shape or (1,)) for f in source.fields}
        writer = DatasetWriter(str(target / "data.beton"), fields, page_size=page, num_workers=max(spec.workers, 1))
        writer.from_indexed_dataset(Samples(source))

    return clock_conversion(spec, "beton", convert)


def run(spec: Any) -> dict[str, Any]:
    """Time a Loader."""
    from importlib.metadata import version

    from ffcv.fields.decoders import NDArrayDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import ToTensor

    from peers.contract import timed
    from peers.source import open_source

    source = open_source(spec.source)
    file = spec.work / "data" / "data.beton"
    fits = spec.memory is None or spec.memory >= file.stat().st_size
    random = fits or spec.exact
    settings = {
        "order": "RANDOM" if random else "QUASI_RANDOM",
        "os_cache": random,
        "num_workers": max(spec.workers, 1),
        "batches_ahead": 3,
    }

    def opened(stack: ExitStack) -> Any:
        loader = Loader(
            str(file),
            batch_size=spec.batch_size,
            drop_last=False,
            seed=spec.seed,
            pipelines={field.name: [NDArrayDecoder(), ToTensor()] for field in source.fields},
            **{**settings, "order": OrderOption[settings["order"]]},
        )
        return lambda number: (tuple(field.numpy() for field in batch) for batch in loader)

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="exact" if random else "approximate",
        settings=settings,
        version=version("ffcv"),
        note="built without its image decoders",
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, where `ffcv` would be this file
    from peers.contract import serve

    serve(prepare=prepare, run=run)
