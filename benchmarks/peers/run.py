"""How does a peer do on a dataset? Environment, conversion, run: one dictionary at the end.

    python benchmarks/peers/run.py NAME DATASET WORK [--batch-size 256] [--epochs 2] [--workers 2] [--memory BYTES]

`measure` does the same for other scripts. `wrap` gets the command of the run alone, so that a rig puts exactly what is
measured under its limits: neither the installation nor the conversion. A conversion is kept in the work folder and used
again as long as the dataset, the adapter and the number of workers are the same. A peer that cannot be installed is
{"unavailable": reason}, one that fails or takes too long {"failed": reason}; neither raises.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from peers import environment

HERE = Path(__file__).resolve().parent
Wrap = Callable[[list[str]], list[str]]
GRACE = 5.0  # seconds that a peer has to clean up after its time is over
TAIL = 4  # lines of a peer's complaint that the reason repeats


class Failed(Exception):
    """A peer was started and did not answer: how it ended, and what it said last."""


def measure(
    name: str,
    source: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str],
    batch_size: int = 256,
    epochs: int = 2,
    seed: int = 0,
    workers: int = 2,
    memory: int | None = None,
    exact: bool = False,
    wrap: Wrap | None = None,
    timeout: float = 600.0,
    script: str | os.PathLike[str] | None = None,
    python: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """What the peer's run said, with "name", "conversion" and "rate" (delivered MB/s over all epochs).

    `timeout` bounds the conversion and the run, each. `script` and `python` stand in for the peer's own in tests.
    """
    folder = Path(work) / name
    spec = {
        "source": str(Path(source).resolve()),
        "work": str(folder.resolve()),
        "batch_size": batch_size,
        "epochs": epochs,
        "seed": seed,
        "workers": workers,
        "memory": memory,
        "exact": exact,
    }
    try:
        command = [str(python or environment.ensure(name)), str(script or HERE / f"{name}.py")]
        conversion = _prepared(command, spec, folder, timeout)
        said = _ask(command, {**spec, "what": "run"}, folder, timeout, wrap)
    except environment.Unavailable as error:
        return {"name": name, "unavailable": str(error)}
    except Failed as error:
        return {"name": name, "failed": str(error)}
    seconds = sum(said["epochs"])
    return {"name": name, "rate": round(said["bytes"] / seconds / 1e6, 1), "conversion": conversion, **said}


def _prepared(command: list[str], spec: dict[str, Any], folder: Path, timeout: float) -> dict[str, Any]:
    """The conversion of this dataset: that of an earlier call, or a new one."""
    note = folder / "prepared.json"
    adapter = hashlib.sha256(Path(command[-1]).read_bytes()).hexdigest()
    wanted = {"dataset": _fingerprint(Path(spec["source"])), "adapter": adapter, "workers": spec["workers"]}
    if note.is_file():
        earlier = json.loads(note.read_text())
        if earlier["for"] == wanted:
            return earlier["conversion"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    conversion = _ask(command, {**spec, "what": "prepare"}, folder, timeout, None)
    note.write_text(json.dumps({"for": wanted, "conversion": conversion}))
    return conversion


def _fingerprint(folder: Path) -> list[list[Any]]:
    """What tells one dataset from another without reading it: too long a list is cut to its ends."""
    files = sorted(folder.iterdir())
    shown = files if len(files) <= 64 else [*files[:32], *files[-32:]]
    return [[str(folder), len(files), 0], *([f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in shown)]


def _ask(command: list[str], spec: dict[str, Any], folder: Path, timeout: float, wrap: Wrap | None) -> dict[str, Any]:
    """Run the peer on a spec and read its answer. Its whole process group ends with it, workers too."""
    file = folder / f"{spec['what']}.json"
    file.write_text(json.dumps(spec))
    argv = [*command, str(file)]
    argv = wrap(argv) if wrap else argv
    # Files, not pipes: a worker that outlives the peer would keep a pipe open, and the reader waiting.
    with (
        tempfile.TemporaryFile() as out,
        open(folder / f"{spec['what']}.log", "w+b") as log,
        tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as temporary,
    ):
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            env={**os.environ, "TMPDIR": temporary},  # some leave locks, sockets and caches there
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        out.seek(0)
        log.seek(0)
        answer, complaint = out.read().decode(), log.read().decode(errors="replace")
    if code is None:
        raise Failed(f"{spec['what']} took more than {timeout:g} s")
    lines = answer.splitlines()
    if code or len(lines) != 1:
        how = f"{spec['what']} ended with {code} and {len(lines)} lines of answer"
        said = [line.strip() for line in complaint.splitlines() if line.strip()]
        raise Failed(f"{how}: {' / '.join(said[-TAIL:]) or 'it said nothing'}")
    return json.loads(lines[0])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its group: first as Ctrl-C does, so that a library can remove its shared memory."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=environment.PEERS)
    parser.add_argument("source", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=int, default=None)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--timeout", type=float, default=600.0)
    said = vars(parser.parse_args())
    print(json.dumps(measure(said.pop("name"), said.pop("source"), **said)))


if __name__ == "__main__":
    main()
