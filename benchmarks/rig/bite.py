"""Does each condition bite? Some of the dataset is read under it for about a second, and what was seen is said.

Each limit is tried alone, in a group of its own: with several at once one could hide another. A limit that lets
through more than it should is refused, and so is one that the disk does not even reach: neither changes what a
program can read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.conditions import Conditions, Refused
from benchmarks.rig.data import PAGE, Data, cached_pages, drop_files

READER = Path(__file__).with_name("reader.py")
SECONDS = 1.0
PATIENCE = 60.0
MOST, LEAST = 1.2, 0.6
IN_FLIGHT = 64
MB = 1e6

Reader = Callable[[str, str], str]
"""Runs the reader under a named limit with its instructions, gives what it printed."""


@dataclass(frozen=True)
class Reading:
    """What the reader did."""

    reads: int
    nbytes: int
    seconds: float


def reader_argv() -> list[str]:
    """The reader as a command, without anything of the user's environment."""
    return [sys.executable, "-I", "-S", str(READER)]


def take_reading(read: Reader, limit: str, data: Data, **instructions: object) -> Reading:
    """Drop the data's pages, then read."""
    drop_files(data.files)
    printed = read(limit, json.dumps({"files": data.files, **instructions}))
    return Reading(**json.loads(printed))


def check_memory(read: Reader, data: Data, limit: int) -> str:
    """A reader of twice the limit keeps no more than the limit."""
    if data.nbytes <= limit:
        raise Refused(f"memory: the data ({data.nbytes:,} bytes) fit in the limit of {limit:,} bytes, which "
                      "therefore does not bite: take less memory or more data")  # fmt: skip
    seen = take_reading(
        read, "memory", data, chunk=4 << 20, threads=1, seconds=PATIENCE, nbytes=2 * limit, shuffled=False
    )
    kept = cached_pages(data.files) * PAGE
    if seen.nbytes <= limit:
        raise Refused(f"memory: in {seen.seconds:.0f} s only {seen.nbytes:,} bytes could be read, less than the "
                      f"limit of {limit:,}, so it was not seen to bite: take less memory")  # fmt: skip
    if kept > limit:
        raise Refused(f"memory: a reader of {seen.nbytes:,} bytes kept {kept:,} cached under a limit of {limit:,}: "
                      "another process reads the data too, or the limit is not enforced")  # fmt: skip
    return f"memory limit {limit:,} bytes: a reader of {seen.nbytes:,} bytes kept {kept:,} cached"


def check_iops(read: Reader, data: Data, limit: int) -> str:
    """Random reads of a page come as often as the limit says."""
    seen = take_reading(read, "iops", data, chunk=PAGE, threads=32, seconds=SECONDS, shuffled=True)
    rate = seen.reads / seen.seconds
    judge("IOPS", rate / limit, f"{rate:,.0f} random {PAGE // 1024} KiB reads/s under a limit of {limit:,}", seen)
    return f"IOPS limit {limit:,}: saw {rate:,.0f} random {PAGE // 1024} KiB reads/s"


def check_bandwidth(read: Reader, data: Data, limit: int) -> str:
    """Large reads bring as many bytes as the limit says."""
    seen = take_reading(
        read, "bandwidth", data, chunk=1 << 20, threads=4, seconds=SECONDS, nbytes=1 << 60, shuffled=False
    )
    rate = seen.nbytes / seen.seconds
    judge("bandwidth", rate / limit, f"{rate / MB:,.1f} MB/s of 1 MiB reads under a limit of {limit / MB:,.1f}", seen)
    return f"bandwidth limit {limit / MB:,.1f} MB/s: saw {rate / MB:,.1f} MB/s of 1 MiB reads"


def judge(name: str, ratio: float, text: str, seen: Reading) -> None:
    """Refuse what lies far from the limit, on either side."""
    if ratio > MOST:
        raise Refused(f"{name}: saw {text} ({seen.nbytes:,} bytes in {seen.seconds:.2f} s): it does not bite; the "
                      "reads do not reach the limited disk, or the data are too small or full of holes")  # fmt: skip
    if ratio < LEAST:
        raise Refused(f"{name}: saw {text}: the disk itself (or this check) is slower than the limit, which therefore "
                      "does not bite: ask for less")  # fmt: skip


def check_conditions(read: Reader, data: Data, conditions: Conditions) -> list[str]:
    """What was seen of each limit; `Refused` at the first that does not bite."""
    saw = []
    memory = conditions.memory_bytes(data.nbytes)
    if memory is not None:
        saw.append(check_memory(read, data, memory))
    if conditions.iops is not None:
        saw.append(check_iops(read, data, int(conditions.iops)))
    if conditions.bandwidth_bytes is not None:
        saw.append(check_bandwidth(read, data, conditions.bandwidth_bytes))
    return saw


def run_reader(argv: list[str], instructions: str, env: dict[str, str] | None = None) -> str:
    """Run the reader to its end. It has a deadline, and one that died says why."""
    try:
        done = subprocess.run(argv, input=instructions, capture_output=True, text=True, timeout=PATIENCE + 30, env=env)
    except subprocess.TimeoutExpired:
        raise Refused(f"the reader of the check did not end within {PATIENCE + 30:.0f} s: the limits are too low, "
                      "or the disk hangs") from None  # fmt: skip
    if done.returncode == -9:
        raise Refused("the reader of the check was killed: the limit of memory leaves no room for any process")
    if done.returncode:
        raise Refused(f"the reader of the check failed with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def check_held(conditions: Conditions, seconds: float, nbytes: int | None, operations: int | None) -> None:
    """What the device gave during the whole run fits the limits; if not, the figures are worth nothing."""
    if seconds < SECONDS:
        return
    limits = (
        (operations, conditions.iops, IN_FLIGHT, "reads"),
        (nbytes, conditions.bandwidth_bytes, IN_FLIGHT << 20, "bytes"),
    )
    for count, limit, waiting, what in limits:
        # Reads count when they are asked for: those that still wait when the command ends are no breach.
        if count is not None and limit is not None and count > limit * seconds * MOST + waiting:
            raise Refused(f"the limit of {limit:,} {what} a second did not hold: the device gave {count:,} in "
                          f"{seconds:.2f} s; the figures of this run are void")  # fmt: skip
