"""How much of these files is in the page cache already?

Asked of the kernel, file by file, without reading: `cachestat` where the kernel has it (6.5 and later), else `mincore`
over a mapping. The kernel answers only those who may write the file or own it; for the others there is no answer, and
none is made up. Of many files, and of very large ones, an evenly spread part is asked.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
from collections.abc import Callable, Iterator, Sequence

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


def cached_bytes(descriptor: int, offset: int, length: int) -> int | None:
    """Bytes of one range of an open file that are in the cache; None where the kernel does not tell this process."""
    status = os.fstat(descriptor)
    # Others are told that everything is cached (mincore) or refused (cachestat).
    if status.st_uid != os.geteuid() and not os.access(f"/proc/self/fd/{descriptor}", os.W_OK):
        return None
    length = min(length, status.st_size - offset)
    if length <= 0:
        return 0
    answer = _cachestat(descriptor, offset, length)
    return _mincore(descriptor, offset, length) if answer is None else answer


def cachestat(descriptor: int, size: int) -> tuple[int, int] | None:
    """(bytes in the cache, bytes asked about) by the system call of that name; None where the kernel lacks it."""
    return _summed(_cachestat, descriptor, size)


def mincore(descriptor: int, size: int) -> tuple[int, int] | None:
    """(bytes in the cache, bytes asked about) by mapping stretches of the file, which reads nothing."""
    return _summed(_mincore, descriptor, size)


def _summed(ask: Callable[[int, int, int], int | None], descriptor: int, size: int) -> tuple[int, int] | None:
    cached = total = 0
    for start, length in _stretches(size):
        answer = ask(descriptor, start, length)
        if answer is None:
            return None
        cached += answer
        total += length
    return cached, total


def _cachestat(descriptor: int, start: int, length: int) -> int | None:
    span, stat = _Range(start, length), _Cachestat()
    code = _libc().syscall(
        ctypes.c_long(_CACHESTAT), ctypes.c_uint(descriptor), ctypes.byref(span), ctypes.byref(stat), ctypes.c_uint(0)
    )
    if code != 0:
        number = ctypes.get_errno()
        # ENOSYS: an older kernel; EPERM: a sandbox; EOPNOTSUPP: huge pages. mincore may know.
        if number in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF):
            return None
        raise OSError(number, os.strerror(number), f"cachestat of file descriptor {descriptor}")
    return min(int(stat.cached) * mmap.PAGESIZE, length)


def _mincore(descriptor: int, start: int, length: int) -> int | None:
    # A mapping begins at a page; what lies before `start` in it is asked about too.
    begin = start - start % mmap.ALLOCATIONGRANULARITY
    mapped = length + start - begin
    with mmap.mmap(descriptor, mapped, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE, offset=begin) as view:
        pages = (ctypes.c_ubyte * -(-mapped // mmap.PAGESIZE))()
        # A writable private mapping, since ctypes takes the address of nothing else; nothing is written.
        address = ctypes.c_char.from_buffer(view)
        code = _libc().mincore(ctypes.byref(address), ctypes.c_size_t(mapped), pages)
        del address
    return min(sum(page & 1 for page in pages) * mmap.PAGESIZE, length) if code == 0 else None


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _stretches(size: int) -> Iterator[tuple[int, int]]:
    """(offset, length) of what is asked of a file of `size` bytes: all of a small one."""
    spread = max(size // WINDOWS, WINDOW)
    for start in range(0, size, spread):
        start -= start % mmap.ALLOCATIONGRANULARITY
        yield start, min(WINDOW, size - start)
