"""Pure kernels: permutations, residency loops, sorting and coalescing."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray

MAX_PERMUTATION: int = 4294967295

class Permutation:
    """A keyed permutation of 0..n-1."""

    def __init__(self, n: int, key: bytes) -> None: ...
    @property
    def rounds(self) -> int: ...
    @property
    def n(self) -> int: ...
    def range(
        self, start: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")]
    ) -> None:
        """Fill `out` with the values at positions start, start + 1, …"""

    def forward(
        self,
        positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out`; return the index of the first position outside 0..n-1, or -1.
        """

    def inverse(
        self,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out` with the positions; return the index of the first id outside 0..n-1, or -1.
        """

class Groups:
    """Contiguous groups in shuffled order, shuffled or not inside."""

    def __init__(self, n: int, size: int, outer: bytes, inner: bytes, within: bool) -> None: ...
    @property
    def n(self) -> int: ...
    def range(
        self, start: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")]
    ) -> None:
        """Fill `out` with the values at positions start, start + 1, …"""

    def forward(
        self,
        positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out`; return the index of the first position outside 0..n-1, or -1.
        """

    def inverse(
        self,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out` with the positions; return the index of the first id outside 0..n-1, or -1.
        """

class Windows:
    """Consecutive windows, shuffled inside, from a rotation on."""

    def __init__(self, n: int, size: int, key: bytes, rotation: int) -> None: ...
    @property
    def n(self) -> int: ...
    def range(
        self, start: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")]
    ) -> None:
        """Fill `out` with the values at positions start, start + 1, …"""

    def forward(
        self,
        positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out`; return the index of the first position outside 0..n-1, or -1.
        """

    def inverse(
        self,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out` with the positions; return the index of the first id outside 0..n-1, or -1.
        """

class Echo:
    """
    One link of the echo chain: positions to positions of the epoch before.
    """

    def __init__(self, n: int, carry: int, head: bytes, rest: bytes) -> None: ...
    @property
    def n(self) -> int: ...
    def range(
        self, start: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")]
    ) -> None:
        """Fill `out` with the values at positions start, start + 1, …"""

    def forward(
        self,
        positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out`; return the index of the first position outside 0..n-1, or -1.
        """

    def inverse(
        self,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    ) -> int:
        """
        Fill `out` with the positions; return the index of the first id outside 0..n-1, or -1.
        """

class Expander:
    """The mechanical half of the planner, as a fold over positions."""

    def __init__(
        self,
        parts: Sequence[tuple[Any, ...]],
        fields: Sequence[int],
        file_sizes: numpy.typing.NDArray[numpy.int64],
        location: numpy.typing.NDArray[numpy.int64] | None,
        n: int,
        steps: dict[str, int],
        switches: dict[str, Any],
        start_step: int,
    ) -> None: ...
    @property
    def looks_ahead(self) -> bool: ...
    @property
    def fed(self) -> int: ...
    @property
    def needs(self) -> int: ...
    def feed(self, ids: numpy.typing.NDArray[numpy.int64], next: numpy.typing.NDArray[numpy.int64] | None) -> None: ...
    def next(self) -> tuple[Any, ...] | bool | None: ...
