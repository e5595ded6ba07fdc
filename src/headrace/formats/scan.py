"""How are 100,000 small files looked at without waiting for each in turn?

Threads, in slices: a call per file would cost more than the look itself where the files are near, and one after the
other would take hours where each look crosses a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS = 16
SLICE = 128


def map_paths(look: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """`look(path)` for every path, in their order; the first failure in that order is raised."""
    if len(paths) <= SLICE:
        return [look(p) for p in paths]

    def look_at_slice(start: int) -> list[T]:
        return [look(p) for p in paths[start : start + SLICE]]

    with ThreadPoolExecutor(THREADS, thread_name_prefix="headrace-scan") as pool:
        found = pool.map(look_at_slice, range(0, len(paths), SLICE))
        return [item for part in found for item in part]
