"""Do the peers' adapters keep their contract, and does the check of the ids see what it must?

The runner is tried with a peer that is written here and needs no environment. The peers themselves are heavy: each that
is installed in build/peers (`python benchmarks/peers/environment.py NAME`) reads one small dataset of each kind.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import select
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks" / "peers"
if str(PEERS.parent) not in sys.path:
    sys.path.append(str(PEERS.parent))

contract = importlib.import_module("peers.contract")
environment = importlib.import_module("peers.environment")
runner = importlib.import_module("peers.run")
sources = importlib.import_module("peers.source")

FAKE = '''
"""A peer that delivers an epoch in order; what it is told to do wrong, it does wrong."""
import os, sys, time
sys.path.insert(0, {benchmarks!r})
from peers.contract import serve, timed
from peers.source import Rows, open_source

def prepare(spec):
    with open(spec.work.parent / "conversions", "a") as log:
        log.write("once\\n")
    print("a library that talks")
    os.system("echo and its child")
    return {{"seconds": 0.5, "bytes": 7, "format": "none"}}

def run(spec):
    source = open_source(spec.source)
    def opened(stack):
        rows = Rows(source)
        stack.callback(lambda: (spec.work / "closed").touch())
        def epoch(number):
            {wrong}
            for first in range(0, source.samples, spec.batch_size):
                yield rows.run(first, min(first + spec.batch_size, source.samples))
        return epoch
    return timed(spec, opened, samples=source.samples, shuffle="exact", settings={{"memory": spec.memory}}, version="1")

serve(prepare=prepare, run=run)
'''


LEAVES = "os.system(f'touch $TMPDIR/lock; echo $TMPDIR > {spec.work}/temporary; sleep 600 & echo $! > {spec.work}/pid')"


def make_hdf5(folder: Path, *, counts: tuple[int, ...], nbytes: int, labels: bool = True) -> Path:
    """HDF5 files of unequal length; the first eight bytes of a sample are its id."""
    folder.mkdir(parents=True)
    first = 0
    for number, count in enumerate(counts):
        ids = np.arange(first, first + count, dtype="<i8")
        with h5py.File(folder / f"part-{number}.h5", "w") as file:
            x = np.random.default_rng(number).integers(0, 256, (count, nbytes), np.uint8)
            x[:, :8] = ids[:, None].view(np.uint8)
            file["x"] = x
            if labels:
                file["y"] = ids.astype(np.float32)
        first += count
    return folder


def make_npy(folder: Path, *, samples: int, values: int) -> Path:
    """One .npy file a sample."""
    folder.mkdir(parents=True)
    for sample in range(samples):
        x = np.zeros(values, np.float32)
        x[:2] = np.array([sample], "<i8").view(np.float32)
        np.save(folder / f"{sample:06d}.npy", x)
    return folder


@pytest.fixture
def dataset(tmp_path):
    return make_hdf5(tmp_path / "data", counts=(5, 11, 7), nbytes=64)


def ask(tmp_path, dataset, *, wrong="pass", **options):
    script = tmp_path / "fake.py"
    script.write_text(FAKE.format(benchmarks=str(PEERS.parent), wrong=wrong))
    options = {"batch_size": 4, "work": tmp_path / "work", "timeout": 60, **options}
    return runner.measure("fake", dataset, script=script, python=sys.executable, **options)


def test_a_run_is_one_dictionary_of_figures(tmp_path, dataset):
    """The runner joins the peer's answers, whatever its library prints beside them."""
    said = ask(tmp_path, dataset, epochs=3, memory=1 << 20)
    assert said["conversion"] == {"seconds": 0.5, "bytes": 7, "format": "none"}
    assert said["ids_ok"] is True
    assert said["bytes"] == 3 * 23 * (64 + 4)
    assert len(said["epochs"]) == 3 and 0 < said["first"] <= said["epochs"][0]
    assert said["settings"] == {"memory": 1 << 20}
    assert said["cpu"] >= 0 and said["rate"] >= 0
    assert said["order"] == {"displacement": [0.0] * 3, "epochs_differ": False}
    assert (tmp_path / "work" / "fake" / "closed").exists()


def test_a_conversion_is_made_once_for_a_dataset(tmp_path, dataset):
    """A second run of the same dataset converts nothing, another dataset does."""
    log = tmp_path / "work" / "conversions"
    ask(tmp_path, dataset, epochs=1)
    ask(tmp_path, dataset, epochs=2)
    assert log.read_text() == "once\n"
    with h5py.File(dataset / "part-9.h5", "w") as file:
        file["x"], file["y"] = np.full((1, 64), 0, np.uint8), np.zeros(1, np.float32)
    said = ask(tmp_path, dataset, epochs=1)
    assert log.read_text() == "once\n" * 2
    assert "1 missing (23)" in said["ids_ok"] and "1 repeated (0)" in said["ids_ok"]


def test_only_the_run_is_wrapped(tmp_path, dataset):
    """A rig gets the command of the run, and what it makes of it is what is run."""
    seen = []

    def wrap(argv):
        seen.append(argv)
        return ["env", "PEER_TEST=1", *argv]

    said = ask(tmp_path, dataset, epochs=1, wrap=wrap, wrong="assert os.environ['PEER_TEST'] == '1'")
    assert said["ids_ok"] is True
    (argv,) = seen
    assert json.loads(Path(argv[-1]).read_text())["what"] == "run"


def test_a_peer_that_fails_is_a_sentence(tmp_path, dataset):
    """A crash is told with what the peer said last, and raises nothing."""
    said = ask(tmp_path, dataset, wrong="raise RuntimeError('the disk is on fire')")
    assert "run ended with 1" in said["failed"] and "the disk is on fire" in said["failed"]


def test_a_peer_that_hangs_is_ended(tmp_path, dataset):
    """A run has a deadline, and the sentence names it."""
    assert ask(tmp_path, dataset, wrong="time.sleep(600)", timeout=3)["failed"] == "run took more than 3 s"


def test_a_worker_that_outlives_its_peer_is_ended(tmp_path, dataset):
    """Nothing that a peer started is left behind, and the answer does not wait for it."""
    said = ask(tmp_path, dataset, epochs=1, wrong=LEAVES)
    assert said["ids_ok"] is True
    assert not Path((tmp_path / "work" / "fake" / "temporary").read_text().strip()).exists()
    pid = int((tmp_path / "work" / "fake" / "pid").read_text())
    with contextlib.suppress(ProcessLookupError):  # gone already
        worker = os.pidfd_open(pid)
        assert select.select([worker], [], [], 30)[0], f"process {pid} still runs"
        os.close(worker)


def test_a_peer_that_cannot_be_installed_is_unavailable(tmp_path, dataset, monkeypatch):
    """The failing step and its reason are the answer, and no half environment stays."""
    monkeypatch.setattr(environment, "ENVIRONMENTS", tmp_path / "environments")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nmkdir -p "$3/bin"\necho "Error: no room left"\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr(environment.sys, "executable", str(python))
    said = runner.measure("spdl", dataset, work=tmp_path / "work")
    assert said == {
        "name": "spdl",
        "unavailable": "could not make a virtual environment for spdl: Error: no room left",
    }
    assert not (tmp_path / "environments" / "spdl").exists()
    assert "no peer is called 'nobody'" in runner.measure("nobody", dataset, work=tmp_path / "work")["unavailable"]


def test_an_unknown_key_of_a_spec_is_named(tmp_path):
    """A misspelt setting is an error, not a default."""
    (tmp_path / "spec.json").write_text('{"what": "run", "bach_size": 3}')
    with pytest.raises(ValueError, match="bach_size"):
        contract.Spec.read(tmp_path / "spec.json")


def test_ids_that_are_missing_repeated_or_wrong_are_named():
    """The check names the epoch, how many, and the first of each kind."""
    good = np.random.default_rng(0).permutation(10)
    assert contract.check_ids([good, good[::-1]], 10) is True
    assert contract.check_ids([good, good[good != 3]], 10) == "epoch 1: 9 delivered of 10, 1 missing (3)"
    assert contract.check_ids([np.append(good, [7, 7])], 10) == "epoch 0: 12 delivered of 10, 1 repeated (7)"
    swapped = np.where(good == 4, 10, good)
    assert contract.check_ids([swapped], 10) == "epoch 0: 10 delivered of 10, 1 missing (4), 1 unknown (10)"
    assert contract.check_ids([good - 1], 10).endswith("1 missing (9), 1 unknown (-1)")
    assert contract.check_ids([good[:0]], 10) == "epoch 0: 0 delivered of 10, 10 missing (0, 1, 2, …)"


def test_ids_are_read_from_the_content_of_any_type():
    """The first eight bytes of a sample are its id, whatever its elements are."""
    ids = np.array([5, 1 << 40, -1], "<i8")
    for dtype, shape in ((np.uint8, (3, 4, 4)), (np.float32, (3, 4)), (np.float64, (3, 2))):
        x = np.zeros((3, 16), np.uint8)
        x[:, :8] = ids[:, None].view(np.uint8)
        assert np.array_equal(contract.ids_of(x.view(dtype).reshape(shape)), ids)


def test_a_shuffle_is_told_from_none():
    """The displacement is 0 for the files' order and about 1 for a uniform shuffle."""
    order = np.arange(10_000)
    shuffled = np.random.default_rng(0).permutation(order)
    said = contract.describe_order([order, shuffled], 10_000)
    assert said["displacement"][0] == 0 and said["displacement"][1] == pytest.approx(1, abs=0.05)
    assert said["epochs_differ"]


@pytest.mark.parametrize("kind", ["hdf5", "npy"])
def test_the_original_is_read_by_id(tmp_path, kind):
    """Samples come in the order asked for, from the right file, also through a copy that was sent to a worker."""
    if kind == "hdf5":
        source = sources.open_source(make_hdf5(tmp_path / "data", counts=(3, 1, 6), nbytes=24))
    else:
        source = sources.open_source(make_npy(tmp_path / "data", samples=10, values=6))
    assert (source.kind, source.samples, source.fields[0].nbytes) == (kind, 10, 24)
    rows = sources.Rows(source)
    asked = np.array([9, 0, 3, 4, 2])
    assert np.array_equal(contract.ids_of(rows.take(asked)[0]), asked)
    if kind == "hdf5":
        assert np.array_equal(rows.take(asked)[1], asked)
    assert np.array_equal(np.concatenate([contract.ids_of(x[0][None]) for x in source.each()]), np.arange(10))
    sent = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(contract.ids_of(sent.take(asked)[0]), asked)
    assert [int(contract.ids_of(rows[i][0][None])[0]) for i in (0, 3, 9)] == [0, 3, 9]
    ids = np.concatenate(source.batches(epoch=1, seed=0, batch_size=4))
    assert sorted(ids) == list(range(10)) and list(ids) != list(range(10))


def test_every_peer_has_an_adapter_and_pinned_requirements():
    """What the runner offers exists, and every package is named with its version."""
    assert {path.stem for path in (PEERS / "requirements").iterdir()} == set(environment.PEERS)
    for name in environment.PEERS:
        assert (PEERS / f"{name}.py").is_file()
        lines = (PEERS / "requirements" / f"{name}.txt").read_text().splitlines()
        assert all(line.startswith("#") or "==" in line for line in lines)


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["hdf5", "npy"])
@pytest.mark.parametrize("name", environment.PEERS)
def test_an_installed_peer_delivers_every_sample(tmp_path, name, kind):
    """Every epoch of a peer holds every sample once, shuffled, with a last batch that is not full."""
    if not environment.installed(name):
        pytest.skip(f"{name} is not installed in build/peers: python benchmarks/peers/environment.py {name}")
    if kind == "hdf5":
        source = make_hdf5(tmp_path / "data", counts=(130, 300, 170), nbytes=1_700)
    else:
        source = make_npy(tmp_path / "data", samples=600, values=425)
    said = runner.measure(name, source, work=tmp_path / "work", batch_size=64, timeout=240)
    assert "failed" not in said, said
    assert said["ids_ok"] is True
    assert said["shuffle"] in ("exact", "approximate")
    assert min(said["order"]["displacement"]) > 0.2 and said["order"]["epochs_differ"]
    assert ("skipped" in said["conversion"]) == (name in ("spdl", "dali"))
