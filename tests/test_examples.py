"""Every example runs as its first lines say, and does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.workloads import neuron_inverter

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """The dataset that `headrace demo --keep train` makes, smaller."""
    folder = tmp_path_factory.mktemp("data") / "train"
    neuron_inverter(folder, samples=400)
    return folder


def run(example: str, *arguments: object, where: Path) -> str:
    """What an example prints."""
    command = [sys.executable, EXAMPLES / example, *map(str, arguments)]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fit_goes_on_where_it_ended(train, tmp_path):
    """Two epochs and two more deliver what four in one go deliver: the losses are the same."""
    once = run("fit.py", train, "--epochs", 4, "--checkpoint", "once.json", where=tmp_path)
    first = run("fit.py", train, "--epochs", 2, where=tmp_path)
    # Another number of epochs is another plan, and the same order.
    second = run("fit.py", train, "--epochs", 4, "--memory", "32MiB", where=tmp_path)
    losses = [line for line in once.splitlines() if line.startswith("epoch ") and "loss" in line]
    assert [line[:7] for line in losses] == ["epoch 0", "epoch 1", "epoch 2", "epoch 3"]
    assert [x for x in (first + second).splitlines() if x.startswith("epoch ") and "loss" in x] == losses


def test_a_torch_model_learns(train, tmp_path):
    """The loss of the last epoch is below that of the first."""
    lines = run("fit_torch.py", train, "--epochs", 3, where=tmp_path).splitlines()
    losses = [float(line.rsplit(" ", 1)[1]) for line in lines]
    assert len(losses) == 3 and losses[-1] < losses[0]
