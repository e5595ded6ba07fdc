"""How fast is MosaicML Streaming? MDS shards on the local disk, in the default shuffle of StreamingDataset.

Settings of its guide: shards of 64 MiB without compression, ndarray columns of known shape, `shuffle=True` (py1e, which
shuffles within blocks), `batch_size` told to the dataset and to the loader, worker processes by torch's DataLoader.
With `exact` the shuffle is `naive`: one permutation of the epoch. The library repeats samples where an epoch does not
divide by what it deals out at once; the check of the ids says so.
"""

from __future__ import annotations

import sys
import types
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


def _without_images() -> None:
    """Stand in for torchvision, which is imported for image datasets, and whose wheels need torch's CUDA build."""

    class Missing:
        pass

    for name, holds in {
        "torchvision": (),
        "torchvision.datasets": ("VisionDataset", "CIFAR10"),
        "torchvision.transforms": (),
        "torchvision.transforms.functional": ("to_tensor",),
    }.items():
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)  # a library that it pulls in looks for it
        for each in holds:
            setattr(module, each, Missing)
        sys.modules[name] = module


def prepare(spec: Any) -> dict[str, Any]:
    """Write MDS shards."""
    _without_images()
    from streaming import MDSWriter

    from peers.contract import clock_conversion
    from peers.source import open_source

    source = open_source(spec.source)
    shapes = {field.name: field.shape or (1,) for field in source.fields}
    columns = {f.name: f"ndarray:{f.dtype.name}:{','.join(map(str, shapes[f.name]))}" for f in source.fields}

    def convert(target: Path) -> None:
        with MDSWriter(out=str(target), columns=columns) as out:
            for sample in source.each():
                out.write({f.name: x.reshape(shapes[f.name]) for f, x in zip(source.fields, sample, strict=True)})

    return clock_conversion(spec, "MDS", convert)


def run(spec: Any) -> dict[str, Any]:
    """Time a StreamingDataset in a DataLoader."""
    _without_images()
    import streaming
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    from peers.contract import timed
    from peers.source import open_source

    source = open_source(spec.source)
    settings = {"shuffle_algo": "naive" if spec.exact else "py1e", "num_workers": spec.workers}

    def opened(stack: ExitStack) -> Any:
        dataset = StreamingDataset(
            local=str(spec.work / "data"),
            shuffle=True,
            shuffle_algo=settings["shuffle_algo"],
            shuffle_seed=spec.seed,
            batch_size=spec.batch_size,
        )
        loader = DataLoader(
            dataset,
            batch_size=spec.batch_size,
            num_workers=spec.workers,
            persistent_workers=spec.workers > 0,
        )
        return lambda number: (tuple(batch[field.name].numpy() for field in source.fields) for batch in loader)

    return timed(
        spec,
        opened,
        samples=source.samples,
        shuffle="exact" if spec.exact else "approximate",
        settings=settings,
        version=streaming.__version__,
    )


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from peers.contract import serve

    serve(prepare=prepare, run=run)
