"""What users install: the wheel is built, installed into an empty folder, and reads a dataset there."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

USE = """
import sys
import numpy as np
import headrace
from headrace.workloads import expected, neuron_inverter

assert headrace.__file__.startswith(sys.argv[1]), headrace.__file__
neuron_inverter("data", samples=200, files=2)
with headrace.Loader(headrace.open("data"), global_batch_size=32, epochs=1, memory="16MiB") as loader:
    ids = []
    for batch in loader:
        np.testing.assert_array_equal(batch["trace"], expected(batch.ids)["trace"])
        ids += batch.ids.tolist()
assert sorted(ids) == list(range(200))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree, built with the tools that are installed."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    environ = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=400)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return next(folder.glob("headrace-*.whl"))


@pytest.mark.heavy
@pytest.mark.timeout(420)
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    """Both halves of the core, their stubs, the type marker, the licence; no sources of the core, no tests."""
    names = zipfile.ZipFile(wheel).namelist()
    for module in ("kernels", "engine"):
        assert any(n.startswith(f"headrace/native/{module}.") and n.endswith(".so") for n in names), names
        assert f"headrace/native/{module}.pyi" in names
    assert "headrace/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    in_tree = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src/headrace").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == in_tree
    assert not [n for n in names if not n.startswith(("headrace/", "headrace-0.1.0.dist-info/"))]
    assert not [n for n in names if n.endswith((".cpp", ".hpp", ".pyc"))]


@pytest.mark.heavy
@pytest.mark.timeout(420)
def test_the_installed_wheel_reads_a_dataset(wheel, tmp_path):
    """Away from the tree, by an interpreter that knows nothing of it."""
    place = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    # The interpreter below the environment does not run the hook that puts this tree in front.
    environ = {
        **os.environ,
        "PYTHONPATH": f"{place}{os.pathsep}{sysconfig.get_path('purelib')}",
        "PYTHONNOUSERSITE": "1",
    }
    python = getattr(sys, "_base_executable", sys.executable)
    done = subprocess.run(
        [python, "-c", USE, str(place)], capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=100
    )
    assert done.returncode == 0, done.stderr
