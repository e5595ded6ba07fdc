"""Fit a linear model to a folder of HDF5 files, with a checkpoint after every epoch. Needs NumPy and h5py only.

    headrace demo --keep train
    python examples/fit.py train --epochs 3
    python examples/fit.py train --epochs 6      # goes on where the first one ended

The checkpoint holds the model and the loader's state: a run that was killed goes on with the next sample.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import headrace as hr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory", default="64MiB")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.json"))
    args = parser.parse_args()

    dataset = hr.open(args.data, fields=["trace", "parameters"])
    weights = np.zeros((3, 19))
    with hr.Loader(dataset, global_batch_size=64, epochs=args.epochs, seed=1, memory=args.memory) as loader:
        if args.checkpoint.exists():
            saved = json.loads(args.checkpoint.read_text())
            loader.load_state_dict(saved["loader"])
            weights = np.array(saved["weights"])
        print(loader.explain())
        for epoch in range(loader.epoch, args.epochs):
            losses = []
            for batch in loader:
                inputs = batch["trace"].mean(axis=1)  # three channels, averaged over time
                error = inputs @ weights - batch["parameters"]
                weights -= 1e-2 * inputs.T @ error / len(batch)
                losses.append(float(np.square(error).mean()))
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
            args.checkpoint.write_text(json.dumps({"loader": loader.state_dict(), "weights": weights.tolist()}))
        print(loader.report())


if __name__ == "__main__":
    main()
