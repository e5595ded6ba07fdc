"""Which files are the data, how much of them is cached, and how is it dropped?

Pages are counted with mincore(2) over a mapping that touches none of them. The kernel tells the truth about a file
only to those who may write it; to others it calls every page cached, and the rig says so.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.conditions import Refused

PAGE = mmap.PAGESIZE
SLICE = 1 << 30
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
    """How many pages of `files` are in the page cache."""
    return sum(_cached(name, size) for name, size in files)


def _cached(name: str, size: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    count = 0
    fd = os.open(name, os.O_RDONLY)
    try:
        for start in range(0, size, SLICE):
            length = min(SLICE, size - start)
            address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
            if address in (None, ctypes.c_void_p(-1).value):
                raise OSError(ctypes.get_errno(), f"mmap of {name} failed")
            pages = -(-length // PAGE)
            flags = ctypes.create_string_buffer(pages)
            failed = libc.mincore(address, length, flags)
            libc.munmap(address, length)
            if failed:
                raise OSError(ctypes.get_errno(), f"mincore of {name} failed")
            # Bit 0 says cached; the others are undefined.
            count += pages - flags.raw[:pages].translate(LOWEST_BIT).count(0)
    finally:
        os.close(fd)
    return count


LOWEST_BIT = bytes(value & 1 for value in range(256))


def make_cold(data: Data, *, machine: bool) -> str:
    """Drop the data's pages and say what is left of them, which has to be nothing."""
    if machine:
        drop_machine()
    left = 0
    for _ in range(3):
        drop_files(data.files)
        left = cached_pages(data.files)
        if not left:
            return f"cold: 0 of {data.pages:,} pages cached"
    mine = all(os.access(name, os.W_OK) for name, _ in data.files[:100])
    why = "a process has them mapped, or their filesystem keeps its data in memory" if mine else (
        "you may not write these files, and then the kernel does not tell which pages are cached")  # fmt: skip
    raise Refused(f"cold: {left:,} of {data.pages:,} pages of the data are cached after dropping them: {why}")
