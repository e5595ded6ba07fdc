"""The reader pool, the arena and the batches."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

class EngineTimeout(TimeoutError):
    """A wait did not end in time; the message says what was waited for."""

class EngineClosed(RuntimeError):
    """The engine was cancelled or closed, or is used in a forked child."""

class EngineFailed(RuntimeError):
    """A thread of the engine failed by itself."""

class Buffer:
    """A batch's memory, used again when nobody holds it or a view of it."""

    def view(self, offset: int, nbytes: int) -> NDArray[numpy.uint8]:
        """A writable array over a part of it, without a copy."""
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...

class Ready:
    """A step that is ready."""

    @property
    def step(self) -> int:
        """Its number in the run."""
    @property
    def position(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def buffer(self) -> Buffer: ...
    @property
    def failures(self) -> list[tuple[int, int, str, int, int, int, int]]:
        """(id, part, path, offset, nbytes, errno, got) of each piece not read; errno 0: the file ended."""

class Engine:
    """Carries out spans: reads, copies, and batches in their order."""

    def __init__(
        self,
        *,
        paths: Sequence[str],
        known: Sequence[tuple[int, int]] = ...,
        arena: int,
        boxes: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int], int, Sequence[int]]] = ...,
        threads: int = ...,
        depth: int = ...,
        io: str = ...,
        access: str = ...,
        map_from: int = ...,
        map_after: int = ...,
        align: int = ...,
        batch_bytes: int,
        max_spans: int = ...,
        advice: str = ...,
        drop: bool = ...,
        trace: bool = ...,
        bounce: int = ...,
        bounce_below: int = ...,
        fault: Mapping[str, int | bool] | Sequence[Mapping[str, int | bool]] | None = ...,
    ) -> None: ...
    def submit(
        self,
        index: int,
        after: int,
        reads: NDArray[numpy.void],
        pieces: NDArray[numpy.void],
        copies: NDArray[numpy.void],
        steps: NDArray[numpy.void],
        timeout: float | None = ...,
    ) -> bool:
        """Queue a span; False if there was no room in time."""
    def finish(self) -> None:
        """Say that no span follows."""
    def next(self, timeout: float | None = ...) -> Ready | None:
        """The next step in order, or None after the last."""
    @property
    def ready(self) -> int:
        """Steps that next() would give at once."""

    def waiting(self) -> str:
        """What the next step waits for."""
    def cancel(self) -> None:
        """End every wait; submit() and next() raise EngineClosed."""
    def close(self, timeout: float = ...) -> bool:
        """Cancel and join the threads; False if one is stuck in the kernel and was left behind."""
    def counters(self) -> dict[str, Any]:
        """What was done so far."""
    def trace(self) -> NDArray[numpy.void]:
        """Each operation issued, in order: (file, offset, nbytes); empty without trace=True."""
    def release(self) -> None:
        """Let reads go on that an injected fault holds."""
    @property
    def io(self) -> str:
        """What reads: 'uring' or 'threads', with the reason where it is not what was asked for."""
