"""Where is the interpreter that a peer runs in, and what was installed for it?

Each peer has a virtual environment of its own in `build/peers/<name>/`, made from `requirements/<name>.txt`: every
package with its version, what it pulls in included, and installed without looking for more, so that no peer's
dependency can replace the CPU build of torch that was installed first. `python environment.py NAME` makes or reuses it
and prints the interpreter. An environment is made anew when its requirements changed, and never half: what could not be
installed is removed again, and said with the step that failed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[1] / "build" / "peers"
PEERS = ("ffcv", "grain", "mds", "litdata", "webdataset", "spdl", "tfdata", "dali")

# Packages that PyPI has as source only, and for which headers stand in that need not be installed.
BUILT = {"ffcv": ("ffcv==1.0.2", HERE / "ffcv_build")}
STEP_SECONDS = 1200
LINES = 3  # of a failed step's output that the reason repeats


class Unavailable(Exception):
    """A peer cannot be installed here: which step failed, and what it said."""


def interpreter(name: str) -> Path:
    """Where the peer's interpreter is, or would be."""
    return ENVIRONMENTS / name / "bin" / "python"


def installed(name: str) -> bool:
    """Whether the environment is there and made from the requirements as they are now."""
    stamp = ENVIRONMENTS / name / "requirements.sha256"
    return stamp.is_file() and stamp.read_text() == _fingerprint(name)


def ensure(name: str) -> Path:
    """Make or reuse the environment; its interpreter. Unavailable says why not."""
    if name not in PEERS:
        raise Unavailable(f"no peer is called {name!r}: there are {', '.join(PEERS)}")
    if not installed(name):
        with _alone(name):
            if not installed(name):  # another process may just have made it
                _make_whole(name)
    return interpreter(name)


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Let one process at a time make an environment."""
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + STEP_SECONDS
    with open(ENVIRONMENTS / f"{name}.lock", "w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise Unavailable(f"another process installs {name} since {STEP_SECONDS} s: wait for it") from error
                time.sleep(1)
        yield


def _make_whole(name: str) -> None:
    folder = ENVIRONMENTS / name
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _make(name, folder, interpreter(name))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / "requirements.sha256").write_text(_fingerprint(name))


def _make(name: str, folder: Path, python: Path) -> None:
    requirements = HERE / "requirements" / f"{name}.txt"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _step(f"make a virtual environment for {name}", [sys.executable, "-m", "venv", folder])
    torch = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    if torch:
        _step(f"install {torch[0]} for {name}", [*pip, "--constraint", requirements, *torch])
    _step(f"install the packages of {requirements.name}", [*pip, "--no-deps", "--requirement", requirements])
    if name in BUILT:
        package, headers = BUILT[name]
        _step(
            f"build {package} from source (needs g++, pkg-config and Python's headers)",
            [*pip, "--no-deps", "--no-build-isolation", "--no-binary", ":all:", package],
            PKG_CONFIG_PATH=str(headers),
        )


def _step(what: str, argv: list[str | os.PathLike[str]], **environment: str) -> None:
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"could not {what}: {error}") from error
    if done.returncode:
        said = [line.strip() for line in done.stdout.splitlines() if line.strip() and "WARNING" not in line]
        errors = [line for line in said if "error" in line.lower()]
        raise Unavailable(f"could not {what}: {' / '.join((errors or said)[-LINES:])}")


def _fingerprint(name: str) -> str:
    digest = hashlib.sha256(sys.version.encode())
    files = [HERE / "requirements" / f"{name}.txt"]
    if name in BUILT:
        files += sorted(path for path in BUILT[name][1].rglob("*") if path.is_file())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} {{{','.join(PEERS)}}}")
    try:
        print(ensure(sys.argv[1]))
    except Unavailable as error:
        sys.exit(str(error))
