"""How fast is WebDataset? Tar shards that are read front to back and shuffled in a buffer.

Settings of its FAQ and README: several shards a worker, `shardshuffle=100`, a buffer of 1,000 samples in each worker,
batches made in the worker, and a second buffer of 1,000 over all workers. Arrays are stored as raw bytes, which costs
less to decode than the .npy that its examples use. Buffers shrink where `memory` would not hold them.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

LARGEST = 256 << 20  # bytes a shard; smaller where each worker would have fewer than SHARDS
SHARDS = 4
BUFFER = 1000


def prepare(spec: Any) -> dict[str, Any]:
    """Write tar shards."""
    import webdataset as wds

    from peers.contract import clock_conversion
    from peers.source import open_source

    source = open_source(spec.source)
    shards = max(-(-source.nbytes // LARGEST), SHARDS * max(spec.workers, 1))
    in_a_shard = max(-(-source.samples // shards), 1)

    def convert(target: Path) -> None:
        target.mkdir()
        pattern = str(target / "shard-%05d.tar")
        with wds.ShardWriter(pattern, maxcount=in_a_shard, maxsize=4 * LARGEST, verbose=0) as out:
            for sample, fields in enumerate(source.each()):
                named = {f"{f.name}.bin": x.tobytes() for f, x in zip(source.fields, fields, strict=True)}
                out.write({"__key__": f"{sample:09d}", **named})

    return clock_conversion(spec, "tar", convert)


def run(spec: Any) -> dict[str, Any]:
    """Time a WebLoader."""
    from importlib.metadata import version

    import numpy as np
    import webdataset as wds

    from peers.contract import timed
    from peers.source import open_source

    source = open_source(spec.source)
    buffer = BUFFER
    if spec.memory is not None:  # one buffer a worker and one over all, in half of the memory
        buffer = min(BUFFER, max(spec.memory // 2 // source.sample_nbytes // (spec.workers + 1), spec.batch_size))
    settings = {"shardshuffle": 100, "shuffle": buffer, "num_workers": spec.workers}

    def decode(sample: tuple[bytes, ...]) -> tuple[Any, ...]:
        return tuple(np.frombuffer(x, f.dtype).reshape(f.shape) for f, x in zip(source.fields, sample, strict=True))

    def opened(stack: ExitStack) -> Any:
        shards = [str(path) for path in sorted((spec.work / "data").iterdir())]
        dataset = (
            wds.WebDataset(shards, shardshuffle=100, empty_check=False, seed=spec.seed)
            .shuffle(buffer)
            .to_tuple(*(f"{field.name}.bin" for field in source.fields))
            .map(decode)
            .batched(spec.batch_size)
        )
        loader = wds.WebLoader(dataset, batch_size=None, num_workers=spec.workers, persistent_workers=spec.workers > 0)
        batches = loader.unbatched().shuffle(buffer).batched(spec.batch_size)
        return lambda number: (tuple(np.asarray(field) for field in batch) for batch in batches)

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="approximate",
        settings=settings,
        version=version("webdataset"),
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, where `webdataset` would be this file
    from peers.contract import serve

    serve(prepare=prepare, run=run)
