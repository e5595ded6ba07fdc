"""How is a command started inside groups, waited for, and ended with all that it started?

A shell moves itself into the groups and becomes the command (`exec`), so that not a page of the command is charged
elsewhere; the caller needs no code between fork and exec, which is unsafe where threads run. The command leads a
session of its own: what it leaves behind is found through its groups or, without any, through the session.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any

from benchmarks.rig.cgroups import DEADLINE, ENDING, Group, uninterrupted
from benchmarks.rig.conditions import Refused

NOT_ENTERED = 125
ENTER = (
    f'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit {NOT_ENTERED}; shift; n=$((n-1)); done; exec "$@"'
)


@dataclass(frozen=True)
class Outcome:
    """What is known of a command that ended."""

    returncode: int
    stdout: bytes | None
    stderr: bytes | None
    wall_seconds: float
    cpu_seconds: float
    peak_rss: int
    block_input: int
    timed_out: bool


def enter_groups(groups: Iterable[Group], argv: Sequence[str]) -> list[str]:
    """The command that enters `groups` and becomes `argv`."""
    files = sorted({str(group.procs) for group in groups})
    return ["/bin/sh", "-c", ENTER, "headrace-rig", str(len(files)), *files, *argv] if files else list(argv)


def run_process(
    argv: Sequence[str],
    *,
    groups: Sequence[Group],
    timeout: float | None,
    env: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> Outcome:
    """Run `argv` in `groups` to its end, or to that of `timeout`, and end whatever it left running."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    start = time.monotonic()
    process = subprocess.Popen(enter_groups(groups, argv), start_new_session=True, env=env, **pipes)
    handle = os.pidfd_open(process.pid)
    drains = [Drain(stream) if stream else None for stream in (process.stdout, process.stderr)]
    ended, wall, usage = False, 0.0, None
    try:
        ended = bool(select.select([handle], [], [], timeout)[0])
        wall = time.monotonic() - start
    finally:
        with uninterrupted():
            usage = end_process(process, handle, groups)
            os.close(handle)
            outputs = [drain.finish() if drain else None for drain in drains]
    if groups and process.returncode == NOT_ENTERED and outputs[1] and b"cgroup.procs" in outputs[1]:
        raise Refused(f"the command could not enter its cgroup: {outputs[1].decode(errors='replace').strip()}")
    return Outcome(
        process.returncode,
        *outputs,
        wall_seconds=wall,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_rss=usage.ru_maxrss * 1024,
        block_input=usage.ru_inblock * 512,
        timed_out=not ended,
    )


def end_process(process: subprocess.Popen[bytes], handle: int, groups: Sequence[Group]) -> Any:
    """End the command's session and groups, then reap it. Its number is ours until then."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for group in groups:
        group.kill()
    if not select.select([handle], [], [], DEADLINE)[0]:
        process.returncode = -signal.SIGKILL
        raise Refused(f"process {process.pid} did not end within {DEADLINE:.0f} s of being killed: it waits")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


class Drain:
    """Reads a pipe to its end on a thread, so that a full pipe stops nobody."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._parts: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while part := os.read(self._stream.fileno(), 1 << 16):
            self._parts.append(part)

    def finish(self) -> bytes:
        """All that came. A process that got away may hold the pipe open: it is not waited for."""
        self._thread.join(DEADLINE)
        if not self._thread.is_alive():
            self._stream.close()
        return b"".join(self._parts)


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block like Ctrl-C does, through its `finally`s, where they would end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = [number for number in ENDING[1:] if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
