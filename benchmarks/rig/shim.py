"""How is storage made slow where the kernel's limits may not be set? By a model between the program and the C library.

`shim.c` is built on demand and preloaded into the command; its state, shared by all processes of a run, is a mapped
file that `Model` lays out here. It sees read, pread, readv, preadv and fread of the data, and counts mappings of the
data without slowing them. What it does not see at all is named in docs/guide-rig.md.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.bite import check_bandwidth, check_iops, reader_argv, run_reader, take_reading
from benchmarks.rig.conditions import Conditions, Refused
from benchmarks.rig.data import Data

SOURCE = Path(__file__).with_name("shim.c")
BUILD = SOURCE.parents[2] / "build" / "rig"
HEADER = struct.Struct("=16Q")
MAGIC, PAGE, WAYS = 0x52494753, 4096, 16
# Of a set with four times the room it needs on average, hardly one page in ten thousand leaves.
ROOM = 4
MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Seen:
    """What passed the model: operations and bytes of its device, calls that read data, processes, mappings of data."""

    operations: int
    nbytes: int
    calls: int
    processes: int
    mapped: int


def build_shim(folder: Path = BUILD) -> Path:
    """The shared library, built once for this source."""
    source = SOURCE.read_bytes()
    library = folder / f"shim-{hashlib.sha256(source).hexdigest()[:12]}.so"
    if library.exists():
        return library
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Refused("--shim builds a small C library, and no C compiler was found: install cc, or name one in CC")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--shim builds its library in {folder}, which failed: {error.strerror}") from error
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / library.name
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Refused(f"--shim: {compiler} could not build {SOURCE}: {done.stderr.strip()[-500:]}")
        made.replace(library)
    return library


def mix(x: int) -> int:
    """The hash of shim.c."""
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9 & MASK
    return x ^ (x >> 32)


class Model:
    """The state of one run: limits, an empty cache, the files that are data. Removed at the end of the block."""

    def __init__(self, data: Data, conditions: Conditions) -> None:
        self._data = data
        memory = conditions.memory_bytes(data.nbytes)
        pages = data.pages * ROOM if memory is None else memory // PAGE
        self._sets = max(pages // WAYS, 1)
        self._limits = (int(conditions.iops or 0), conditions.bandwidth_bytes or 0)
        self._path = ""

    def __enter__(self) -> Model:
        self._library = build_shim()
        table = self._table()
        fd, self._path = tempfile.mkstemp(prefix="headrace-rig-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        with open(fd, "wb") as file:
            file.write(HEADER.pack(MAGIC, *self._limits, self._sets, len(table) // 16, *[0] * 11))
            file.write(table)
            file.truncate(HEADER.size + len(table) + self._sets * WAYS * 12)
        return self

    def __exit__(self, *_: object) -> None:
        if self._path:
            os.unlink(self._path)
            self._path = ""

    def _table(self) -> bytes:
        """(device, inode) of the data files, hashed with open addressing."""
        slots = 1 << max(2 * len(self._data.files), 2).bit_length()
        table: list[tuple[int, int]] = [(0, 0)] * slots
        for name, _ in self._data.files:
            status = os.stat(name)
            at = mix((status.st_ino * 31 + status.st_dev) & MASK) & (slots - 1)
            while table[at][1]:
                at = (at + 1) & (slots - 1)
            table[at] = (status.st_dev, status.st_ino)
        return b"".join(struct.pack("=2Q", *entry) for entry in table)

    def env(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment in which programs meet this model."""
        loaded = f"{self._library} {base.get('LD_PRELOAD', '')}".strip()
        return {**base, "LD_PRELOAD": loaded, "HEADRACE_RIG_SHIM": self._path}

    def counts(self) -> Seen:
        """What passed so far."""
        with open(self._path, "rb") as file:
            fields = HEADER.unpack(file.read(HEADER.size))
        return Seen(*fields[8:13])

    def read(self, _: str, instructions: str) -> str:
        """Run the reader of the bite check against this model."""
        return run_reader(reader_argv(), instructions, env=self.env(os.environ))


def check_memory(data: Data, limit: int) -> str:
    """Of twice the limit, read twice, the second reading finds no more than the limit in the model's cache."""
    if data.nbytes <= limit:
        raise Refused(f"memory: the data ({data.nbytes:,} bytes) fit in the limit of {limit:,} bytes, which "
                      "therefore does not bite: take less memory or more data")  # fmt: skip
    how = {"chunk": 1 << 20, "threads": 1, "seconds": 60.0, "nbytes": 2 * limit, "shuffled": False}
    with Model(data, Conditions(memory=limit)) as model:
        first = take_reading(model.read, "memory", data, **how)
        before = model.counts().nbytes
        take_reading(model.read, "memory", data, **how)
        again = model.counts().nbytes - before
    if again < first.nbytes - limit:
        raise Refused(f"memory: of {first.nbytes:,} bytes read twice under a limit of {limit:,}, the second reading "
                      f"fetched only {again:,}: the shim is not loaded or its cache too large")  # fmt: skip
    return f"memory limit {limit:,} bytes (model): of {first.nbytes:,} bytes read twice, {again:,} were fetched again"


def check_conditions(data: Data, conditions: Conditions) -> list[str]:
    """What was seen of each limit of the model, as `bite` says it of the kernel's."""
    saw = []
    memory = conditions.memory_bytes(data.nbytes)
    if memory is not None:
        saw.append(check_memory(data, memory))
    if conditions.iops is not None:
        with Model(data, Conditions(iops=conditions.iops)) as model:
            saw.append(check_iops(model.read, data, int(conditions.iops)))
    if conditions.bandwidth_bytes is not None:
        with Model(data, Conditions(bandwidth=conditions.bandwidth)) as model:
            saw.append(check_bandwidth(model.read, data, conditions.bandwidth_bytes))
    if conditions.starts_cold:
        saw.append("cold: the model's cache begins empty")
    return saw


def check_seen(seen: Seen, conditions: Conditions) -> None:
    """A command that went around the shim has no figures."""
    if seen.processes == 0:
        raise Refused("the shim was not loaded into the command: it is statically linked or has rights of its own")
    if not conditions.starts_cold:
        return
    if seen.mapped:
        raise Refused(f"the command mapped data files {seen.mapped:,} times, and the shim does not slow mapped reads: "
                      "the figures of this run are void")  # fmt: skip
    if seen.calls == 0:
        raise Refused("the command read none of the data through calls that the shim sees (it may use io_uring, "
                      "sendfile or a static program): the figures of this run are void")  # fmt: skip
