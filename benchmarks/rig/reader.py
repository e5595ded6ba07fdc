"""How fast can a process read these files right now? The reader of the bite check, run on its own inside the limits.

Takes a JSON object on standard input: `files` [[path, size], …], `chunk` bytes a read, `threads`, `seconds`, `nbytes`
to stop at, `shuffled`. Every chunk is read at most once, buffered, as most programs read: a second read would be
served by the page cache. Prints reads, bytes and seconds as JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterable, Iterator

MOST_OPEN = 256
MOST_SHUFFLED = 500_000


def chunks(files: list, chunk: int, shuffled: bool) -> Iterable[tuple[str, int]]:
    """(path, offset) of each read."""
    if not shuffled:
        return ((path, at) for path, size in files for at in range(0, size, chunk))
    counts = [-(-size // chunk) for _, size in files]
    drawn = random.sample(range(sum(counts)), min(sum(counts), MOST_SHUFFLED))
    return places_of(drawn, files, counts, chunk)


def places_of(drawn: list[int], files: list, counts: list[int], chunk: int) -> Iterator[tuple[str, int]]:
    """The chunk of each number, counted over all files."""
    for number in drawn:
        at = number
        for (path, _), count in zip(files, counts, strict=True):
            if at < count:
                yield path, at * chunk
                break
            at -= count


def measure(
    *, files: list, chunk: int, threads: int, seconds: float, nbytes: int = 1 << 60, shuffled: bool = False
) -> dict:
    """Read until the time, the bytes or the files end."""
    if shuffled:
        # Few files, so that the reads are of data and not of the inodes of many.
        files = sorted(files, key=lambda file: -file[1])[:MOST_OPEN]
    todo = iter(chunks(files, chunk, shuffled))
    lock = threading.Lock()
    total = {"reads": 0, "nbytes": 0, "handed": 0}
    opened: dict[str, int] = {}
    failures: list[BaseException] = []
    if shuffled:
        for path, _ in files:
            opened[path] = os.open(path, os.O_RDONLY)
            os.posix_fadvise(opened[path], 0, 0, os.POSIX_FADV_RANDOM)

    def work(end: float) -> None:
        while time.monotonic() < end:
            with lock:
                place = next(todo, None) if total["handed"] < nbytes else None
                total["handed"] += chunk
            if place is None:
                return
            got = read_one(opened, *place, chunk)
            with lock:
                total["reads"] += 1
                total["nbytes"] += got

    def guarded(end: float) -> None:
        try:
            work(end)
        except BaseException as error:
            failures.append(error)

    start = time.monotonic()
    crew = [threading.Thread(target=guarded, args=(start + seconds,)) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if failures:
        raise failures[0]
    return {"reads": total["reads"], "nbytes": total["nbytes"], "seconds": time.monotonic() - start}


def read_one(opened: dict[str, int], path: str, offset: int, chunk: int) -> int:
    """One read, through a descriptor that is open already or only for this."""
    if path in opened:
        return len(os.pread(opened[path], chunk, offset))
    fd = os.open(path, os.O_RDONLY)
    try:
        return len(os.pread(fd, chunk, offset))
    finally:
        os.close(fd)


if __name__ == "__main__":
    print(json.dumps(measure(**json.load(sys.stdin))))
