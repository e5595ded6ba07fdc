"""The same with torch: `headrace.torch.DataLoader` where `torch.utils.data.DataLoader` was.

headrace demo --keep train
python examples/fit_torch.py train --epochs 3
"""

from __future__ import annotations

import argparse

import torch

import headrace as hr
from headrace.torch import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory", default="64MiB")
    args = parser.parse_args()

    model = torch.nn.Sequential(
        torch.nn.Conv1d(3, 8, 32, stride=16), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(19)
    )
    dataset = hr.open(args.data, fields=["trace", "parameters"])
    loader = DataLoader(dataset, batch_size=64, shuffle=True, seed=1, memory=args.memory)
    model(torch.zeros(1, 3, 1600))  # the lazy layer learns its size
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for batch in loader:  # tensors that share the loader's memory
            loss = (model(batch["trace"].movedim(1, 2)) - batch["parameters"]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch["trace"])
        print(f"epoch {epoch}: loss {total / len(dataset):.4f}")


if __name__ == "__main__":
    main()
