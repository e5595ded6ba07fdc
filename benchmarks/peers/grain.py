"""How fast is Grain? ArrayRecord files of one record a group, shuffled as a whole by Grain's Dataset API.

Settings of its guide: ArrayRecord with group_size:1 for random access, the reading defaults (16 threads, 500 elements
ahead, per process), batches made in worker processes. A record is the bytes of a sample's fields one after the other.
It is not compressed, as ArrayRecord would by default: of samples that were made up, that would measure the maker.
"""

from __future__ import annotations

import itertools
import math
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

SHARD = 1 << 30  # bytes a file


def prepare(spec: Any) -> dict[str, Any]:
    """Write ArrayRecord files."""
    from array_record.python.array_record_module import ArrayRecordWriter

    from peers.contract import clock_conversion
    from peers.source import open_source

    source = open_source(spec.source)
    in_a_file = max(SHARD // source.sample_nbytes, 1)

    def convert(target: Path) -> None:
        target.mkdir()
        writer = None
        for sample, fields in enumerate(source.each()):
            if sample % in_a_file == 0:
                if writer is not None:
                    writer.close()
                writer = ArrayRecordWriter(
                    str(target / f"{sample // in_a_file:05d}.array_record"), "group_size:1,uncompressed"
                )
            writer.write(b"".join(field.tobytes() for field in fields))
        writer.close()

    return clock_conversion(spec, "ArrayRecord", convert)


class Decode:
    """The fields of a record, as views of its bytes."""

    def __init__(self, fields: tuple[Any, ...]):
        self.fields = fields

    def __call__(self, record: bytes) -> tuple[Any, ...]:
        import numpy as np

        begins = itertools.accumulate((field.nbytes for field in self.fields), initial=0)
        return tuple(
            np.frombuffer(record, field.dtype, count=field.nbytes // field.dtype.itemsize, offset=begin).reshape(
                field.shape
            )
            for field, begin in zip(self.fields, begins, strict=False)
        )


def run(spec: Any) -> dict[str, Any]:
    """Time a Dataset with worker processes."""
    from importlib.metadata import version

    import grain

    from peers.contract import timed
    from peers.source import open_source

    source = open_source(spec.source)
    reading = grain.ReadOptions()
    workers = grain.MultiprocessingOptions(num_workers=spec.workers)
    batches = math.ceil(source.samples / spec.batch_size)

    def opened(stack: ExitStack) -> Any:
        records = grain.sources.ArrayRecordDataSource([str(file) for file in sorted((spec.work / "data").iterdir())])
        dataset = (
            grain.MapDataset.source(records)
            .seed(spec.seed)
            .shuffle()
            .map(Decode(source.fields))
            .batch(spec.batch_size, drop_remainder=False)
            .repeat(spec.epochs)
            .to_iter_dataset(reading)
            .mp_prefetch(workers)
        )
        iterator = iter(dataset)
        stack.callback(iterator.close)
        return lambda number: itertools.islice(iterator, batches)

    settings = {
        "record": "group_size:1,uncompressed",
        "num_threads": reading.num_threads,
        "prefetch_buffer_size": reading.prefetch_buffer_size,
        "num_workers": spec.workers,
        "per_worker_buffer_size": workers.per_worker_buffer_size,
    }
    return timed(spec, opened, samples=source.samples, shuffle="exact", settings=settings, version=version("grain"))


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, where `grain` would be this file
    from peers.contract import serve

    serve(prepare=prepare, run=run)
