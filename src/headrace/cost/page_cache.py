"""How much of these files is in the page cache already?

Asked of the kernel, file by file, without reading: `cachestat` where the kernel has it (6.5 and later), else `mincore`
over a mapping. The kernel answers only those who may write the file or own it; for the others there is no answer, and
none is made up. Of many files, and of very large ones, an evenly spread part is asked.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator, Sequence

MAX_FILES = 64
"""Files that are asked: enough to tell 95 % from less, few enough to take milliseconds."""

WINDOW = 4 << 20
WINDOWS = 16
"""Of a file, `WINDOWS` evenly spread stretches of at most `WINDOW` bytes are asked: the kernel looks at every page."""

_CACHESTAT = 451  # the same number on every architecture


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Cachestat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


def page_cache_share(paths: Sequence[str]) -> float | None:
    """The share of the files' bytes that is in the page cache, 0 to 1; None where the kernel does not tell."""
    step = max(len(paths) // MAX_FILES, 1)
    cached = total = 0
    for path in paths[::step][:MAX_FILES]:
        answer = _ask(path)
        if answer is None:
            return None
        cached += answer[0]
        total += answer[1]
    return min(cached / total, 1.0) if total else None


def _ask(path: str) -> tuple[int, int] | None:
    """(bytes in the cache, bytes asked about) of one file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        # Others are told that everything is cached (mincore) or refused (cachestat).
        if status.st_uid != os.geteuid() and not os.access(path, os.W_OK):
            return None
        answer = cachestat(descriptor, status.st_size)
        return mincore(descriptor, status.st_size) if answer is None else answer
    finally:
        os.close(descriptor)


def cachestat(descriptor: int, size: int) -> tuple[int, int] | None:
    """(bytes in the cache, bytes asked about) by the system call of that name; None where the kernel lacks it."""
    libc = ctypes.CDLL(None, use_errno=True)
    cached = total = 0
    for start, length in _stretches(size):
        span, stat = _Range(start, length), _Cachestat()
        code = libc.syscall(
            ctypes.c_long(_CACHESTAT), ctypes.c_uint(descriptor), ctypes.byref(span), ctypes.byref(stat),
            ctypes.c_uint(0),
        )  # fmt: skip
        if code != 0:
            number = ctypes.get_errno()
            # ENOSYS: an older kernel; EPERM: a sandbox; EOPNOTSUPP: huge pages. mincore may know.
            if number in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF):
                return None
            raise OSError(number, os.strerror(number), f"cachestat of file descriptor {descriptor}")
        cached += min(stat.cached * mmap.PAGESIZE, length)
        total += length
    return cached, total


def _stretches(size: int) -> Iterator[tuple[int, int]]:
    """(offset, length) of what is asked of a file of `size` bytes: all of a small one."""
    spread = max(size // WINDOWS, WINDOW)
    for start in range(0, size, spread):
        start -= start % mmap.ALLOCATIONGRANULARITY
        yield start, min(WINDOW, size - start)


def mincore(descriptor: int, size: int) -> tuple[int, int] | None:
    """(bytes in the cache, bytes asked about) by mapping stretches of the file, which reads nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    cached = total = 0
    for start, length in _stretches(size):
        with mmap.mmap(descriptor, length, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, offset=start) as view:
            pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
            # A writable private mapping, since ctypes takes the address of nothing else; nothing is written.
            address = ctypes.c_char.from_buffer(view)
            code = libc.mincore(ctypes.byref(address), ctypes.c_size_t(length), pages)
            del address
        if code != 0:
            return None
        cached += sum(page & 1 for page in pages) * mmap.PAGESIZE
        total += length
    return min(cached, total), total
