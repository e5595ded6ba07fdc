"""How fast is tf.data? TFRecord files read side by side and shuffled in a buffer.

Settings of its performance guide: files of about 100 MB (and ten of them where they stay above 10 MB), interleaved with
AUTOTUNE and without a fixed order, one shuffle buffer, batches parsed as a whole (vectorised map), prefetch(AUTOTUNE).
The buffer is 10,000 samples or what fits into a quarter of the memory. Samples are tf.train.Example with raw bytes.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

LARGE, SMALL, FEW = 100_000_000, 10_000_000, 10  # bytes a file, and how many there should be
BUFFER = 10_000
UNKNOWN = 4 << 30  # bytes that the buffer may take a quarter of where no memory is said


def _quiet() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def prepare(spec: Any) -> dict[str, Any]:
    """Write TFRecord files."""
    _quiet()
    import tensorflow as tf

    from peers.contract import clock_conversion
    from peers.source import open_source

    source = open_source(spec.source)
    files = max(source.nbytes // LARGE, min(FEW, source.nbytes // SMALL), 1)
    in_a_file = -(-source.samples // files)

    def example(fields: tuple[Any, ...]) -> bytes:
        named = {
            field.name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[x.tobytes()]))
            for field, x in zip(source.fields, fields, strict=True)
        }
        return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()

    def convert(target: Path) -> None:
        target.mkdir()
        writer = None
        for sample, fields in enumerate(source.each()):
            if sample % in_a_file == 0:
                if writer is not None:
                    writer.close()
                writer = tf.io.TFRecordWriter(str(target / f"{sample // in_a_file:05d}.tfrecord"))
            writer.write(example(fields))
        writer.close()

    return clock_conversion(spec, "TFRecord", convert)


def run(spec: Any) -> dict[str, Any]:
    """Time a tf.data.Dataset."""
    _quiet()
    import tensorflow as tf

    from peers.contract import timed
    from peers.source import open_source

    source = open_source(spec.source)
    within = (spec.memory or UNKNOWN) // 4 // source.sample_nbytes
    buffer = min(BUFFER, max(within, spec.batch_size), source.samples)
    settings = {"shuffle": buffer, "interleave": "AUTOTUNE", "map": "AUTOTUNE", "prefetch": "AUTOTUNE"}
    features = {field.name: tf.io.FixedLenFeature([], tf.string) for field in source.fields}

    def parse(records: Any) -> Any:
        found = tf.io.parse_example(records, features)
        return tuple(
            tf.reshape(tf.io.decode_raw(found[f.name], tf.as_dtype(f.dtype)), (-1, *f.shape)) for f in source.fields
        )

    def opened(stack: ExitStack) -> Any:
        files = sorted(str(path) for path in (spec.work / "data").iterdir())
        options = tf.data.Options()
        options.deterministic = False
        if spec.memory is not None:
            options.autotune.ram_budget = spec.memory // 2
        dataset = (
            tf.data.Dataset.from_tensor_slices(files)
            .shuffle(len(files), seed=spec.seed)
            .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
            .shuffle(buffer, seed=spec.seed)
            .batch(spec.batch_size)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )
        return lambda number: dataset.as_numpy_iterator()

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="exact" if buffer >= source.samples else "approximate",
        settings=settings,
        version=tf.__version__,
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from peers.contract import serve

    serve(prepare=prepare, run=run)
