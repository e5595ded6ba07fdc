"""How much memory of its own does a process take, with its workers, while it runs?

A second, small process asks the kernel: the proportional size (Pss) of anonymous and shared memory, so that pages which
a forked worker shares with its parent, or a batch in shared memory, count once. The pages of files do not count. Asking
walks the page tables, so it is done seldom enough to take at most a fiftieth of one core.

`python -I -S watching.py PID` answers each line of input with a line: peak and present bytes, or -1 -1. Nothing but the
standard library is imported, and nothing of this package: it must stay small.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

INTERVAL = 0.1
SHARE = 50
COUNTED = ("Pss_Anon:", "Pss_Shmem:", "Private_Hugetlb:")
ANSWER_SECONDS = 30.0


class Watcher:
    """Watches this process from outside, from `start` to `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> int | None:
        """Begin to watch; the bytes that the process has now, None where the kernel does not tell."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._ask()[1]

    def look(self) -> int | None:
        """Look now, whatever the interval; the most bytes that were seen so far."""
        return self._ask()[0]

    def close(self) -> None:
        """End the process that watches, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=ANSWER_SECONDS)
            self._process = None

    def _ask(self) -> tuple[int | None, int | None]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None, None
        try:
            process.stdin.write("\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None, None
        if not select.select([process.stdout], [], [], ANSWER_SECONDS)[0]:
            return None, None
        words = process.stdout.readline().split()
        if len(words) != 2 or words[0] == "-1":
            return None, None
        return int(words[0]), int(words[1])


def family(pid: int) -> list[int]:
    """A process and those that it started, without this one."""
    found = [pid]
    for parent in found:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it ended meanwhile
    return [one for one in found if one != os.getpid()]


def private_bytes(pid: int) -> int | None:
    """Bytes of one process, its share of what it shares; None where the kernel does not tell."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    lines = [line.split() for line in text.splitlines() if line.startswith(COUNTED)]
    return sum(int(words[1]) * 1024 for words in lines) if lines else None


def watch(pid: int) -> None:
    """Look again and again; answer each line of standard input, end with it."""
    peak, cost = -1, 0.0
    while True:
        asked = bool(select.select([sys.stdin], [], [], max(INTERVAL, SHARE * cost))[0])
        started = time.perf_counter()
        sizes = [private_bytes(one) for one in family(pid)]
        present = sum(size for size in sizes if size is not None) if sizes and sizes[0] is not None else -1
        peak = max(peak, present)
        cost = time.perf_counter() - started
        if asked:
            if not sys.stdin.readline():
                return
            sys.stdout.write(f"{peak} {present}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    watch(int(sys.argv[1]))
