"""Which files are the data, how much of them is cached, and how is it dropped?

Pages are counted with cachestat(2), on older kernels with mincore(2) over a mapping that touches none of them. The
kernel tells the truth about a file only to those who may write it; mincore calls every page cached to others, and the
rig says so.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.conditions import Refused

PAGE = mmap.PAGESIZE
SLICE = 1 << 30
CACHESTAT = 451
DEADLINE, SETTLE = 10.0, 0.05
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class Data:
    """The files of a dataset."""

    files: tuple[tuple[str, int], ...]

    @property
    def nbytes(self) -> int:
        """All bytes."""
        return sum(size for _, size in self.files)

    @property
    def pages(self) -> int:
        """All pages."""
        return sum(-(-size // PAGE) for _, size in self.files)


def find_data(paths: Iterable[str | os.PathLike[str]]) -> Data:
    """The regular files that `paths` name or hold, each once, in a fixed order."""
    found: dict[tuple[int, int], tuple[str, int]] = {}
    for path in paths:
        if not os.path.exists(path):
            raise Refused(f"--data {os.fspath(path)}: there is no such file or folder")
        for name in sorted(_walk(os.path.realpath(path))):
            status = os.stat(name)
            if status.st_size:
                found.setdefault((status.st_dev, status.st_ino), (name, status.st_size))
    return Data(tuple(found.values()))


def _walk(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, _, names in os.walk(path):
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full):
                yield full


def drop_files(files: Sequence[tuple[str, int]]) -> None:
    """Write back and drop the pages of `files`. Pages that a process has mapped stay."""
    for name, _ in files:
        fd = os.open(name, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def drop_machine() -> None:
    """Drop every clean page, entry and inode that the kernel caches, for everybody on this machine."""
    os.sync()
    try:
        DROP_CACHES.write_text("3")
    except OSError as error:
        raise Refused(
            f"cold=machine writes {DROP_CACHES}, which failed ({error.strerror}): run as root on the host, or drop "
            "only the pages of the data with --cold"
        ) from error


def cached_pages(files: Sequence[tuple[str, int]]) -> int:
    """How many pages of `files` are in the page cache; where the kernel can tell (6.5), also those still being read."""
    count = 0
    for name, size in files:
        fd = os.open(name, os.O_RDONLY)
        try:
            exact = _cachestat(fd)
            count += _mincore(fd, size) if exact is None else exact
        finally:
            os.close(fd)
    return count


def _cachestat(fd: int) -> int | None:
    """Pages of the file in the cache as cachestat(2) counts them, or None where it is not to be had."""
    syscall = ctypes.CDLL(None).syscall
    whole, answer = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    failed = syscall(ctypes.c_long(CACHESTAT), fd, ctypes.byref(whole), ctypes.byref(answer), 0)
    return None if failed else answer[0]


def _mincore(fd: int, size: int) -> int:
    """The same from mincore(2), which leaves out pages that are still being read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    count = 0
    for start in range(0, size, SLICE):
        length = min(SLICE, size - start)
        address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"mapping {length:,} bytes at {start:,} failed")
        pages = -(-length // PAGE)
        flags = ctypes.create_string_buffer(pages)
        failed = libc.mincore(address, length, flags)
        libc.munmap(address, length)
        if failed:
            raise OSError(ctypes.get_errno(), f"mincore of {length:,} bytes at {start:,} failed")
        # Bit 0 says cached; the others are undefined.
        count += pages - flags.raw[:pages].translate(LOWEST_BIT).count(0)
    return count


LOWEST_BIT = bytes(value & 1 for value in range(256))


def make_cold(data: Data, *, machine: bool) -> str:
    """Drop the data's pages and say what is left of them, which has to be nothing."""
    if machine:
        drop_machine()
    end = time.monotonic() + DEADLINE
    left, empty = 0, 0
    # Read-ahead that somebody asked for may still be on its way, and lands after the drop: seen empty twice is empty.
    while empty < 2 and time.monotonic() < end:
        drop_files(data.files)
        left = cached_pages(data.files)
        empty = 0 if left else empty + 1
        time.sleep(SETTLE)
    if empty == 2:
        return f"cold: 0 of {data.pages:,} pages cached"
    mine = all(os.access(name, os.W_OK) for name, _ in data.files[:100])
    why = "a process has them mapped, or their filesystem keeps its data in memory" if mine else (
        "you may not write these files, and then the kernel does not tell which pages are cached")  # fmt: skip
    raise Refused(f"cold: {left:,} of {data.pages:,} pages of the data are cached after dropping them: {why}")
