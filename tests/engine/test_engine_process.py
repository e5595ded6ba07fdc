"""Does the engine stay harmless at a fork and at the interpreter's end?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from engine_spans import make_files

PRELUDE = """
import os, sys, warnings
warnings.simplefilter("ignore")
from engine_spans import direct_span
from headrace.native.engine import Engine, EngineClosed
def make(**options):
    engine = Engine(paths=[sys.argv[1]], arena=1 << 20, batch_bytes=1 << 20, **options)
    for k in range(3):
        direct_span(k, step=k, size=100).submit(engine)
    return engine
"""

FORK = """
engine = make(io=sys.argv[2])
first = engine.next(20.0)
view = first.buffer.view(0, 400)
child = os.fork()
if child == 0:
    for call in (lambda: engine.next(1.0), engine.waiting, engine.cancel, engine.finish, engine.counters,
                 lambda: engine.close(1.0), lambda: direct_span(9, step=9, size=100).submit(engine)):
        try:
            call()
            os._exit(3)
        except EngineClosed as error:
            if f"opened in process {os.getppid()} and used in process {os.getpid()}" not in str(error):
                os._exit(4)
    same = bytes(view) == open(sys.argv[1], "rb").read(400)
    del view, first, engine
    os._exit(0 if same else 5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert [engine.next(20.0).step for _ in range(2)] == [1, 2]
assert engine.close(10.0)
"""

ENDS = {
    "idle": "engine = make(io=sys.argv[2])",
    "in use": "engine = make(io=sys.argv[2]); ready = engine.next(20.0); view = ready.buffer.view(0, 8)",
    "a cycle": "engine = make(io=sys.argv[2]); cycle = [engine, engine.next(20.0)]; cycle.append(cycle)",
    "a waiting thread": "engine = make(io=sys.argv[2]); import threading\n"
    "threading.Thread(target=lambda: [engine.next(60.0) for _ in range(9)], daemon=True).start()",
    "stuck reads": "engine = make(io=sys.argv[2], fault={'hold': True})\n"
    "while 'oldest' not in engine.waiting(): pass\n"
    "assert not engine.close(0.05)",
    "an error": "engine = make(io=sys.argv[2]); sys.exit(0)",
}


def run(script: str, path: str, io: str) -> None:
    here = Path(__file__).parent
    env = {"PYTHONPATH": f"{here}:{here.parent.parent / 'src'}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, path, io],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("io", ["threads", "uring"])
def test_a_forked_child_is_told_and_disturbs_nobody(tmp_path, io):
    """In a child every call raises EngineClosed, batches stay readable, and the parent goes on."""
    run(FORK, make_files(tmp_path, [1000]).paths[0], io)


@pytest.mark.parametrize("io", ["threads", "uring"])
@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_with_a_live_engine(tmp_path, io, end):
    """Leaving an engine open at exit neither hangs nor crashes nor prints."""
    run(ENDS[end], make_files(tmp_path, [1000]).paths[0], io)
