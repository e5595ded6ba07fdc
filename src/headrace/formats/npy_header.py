"""What does the header of a .npy file say?

The few bytes are parsed here rather than by `numpy.load`, so that one `pread` answers for a file and files with equal
headers (a folder of equal arrays: all of them) are parsed once.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from headrace.errors import FormatError, InputError, UnsupportedError

MAGIC = b"\x93NUMPY"
PROBE = 256


@dataclass(frozen=True)
class Header:
    """An array in a file: its dtype and shape, and the offset of its first byte."""

    stored: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """The size of the array."""
        return prod(self.shape) * self.stored.itemsize


class HeaderReader:
    """Reads headers; remembers those it has parsed by their bytes. Threads may share one: entries are only added."""

    def __init__(self) -> None:
        self._parsed: dict[bytes, Header] = {}

    def read(self, path: str) -> tuple[Header, int, int]:
        """(header, size, mtime_ns) of a file: one open, one stat, one pread."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(
                f"{path} cannot be opened: {error.strerror}; check the path and its permissions"
            ) from error
        try:
            facts = os.fstat(descriptor)
            raw = _read_raw(descriptor, path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}; is it a file?") from error
        finally:
            os.close(descriptor)
        header = self._parsed.get(raw)
        if header is None:
            header = self._parsed[raw] = parse_header(raw, path)
        return header, facts.st_size, facts.st_mtime_ns


def _read_raw(descriptor: int, path: str) -> bytes:
    """The header's bytes, from the magic to the last before the data."""
    raw = os.pread(descriptor, PROBE, 0)
    if raw[:6] != MAGIC:
        raise FormatError(f"{path} is not a .npy file: it begins with {raw[:6]!r}, not {MAGIC!r}; leave it out")
    width = 2 if raw[6:7] == b"\x01" else 4
    end = 8 + width + int.from_bytes(raw[8 : 8 + width], "little")
    if end > len(raw):
        raw += os.pread(descriptor, end - len(raw), len(raw)) if end < 1 << 24 else b""
    if len(raw) < end or len(raw) < 10:
        raise FormatError(f"{path} ends at byte {len(raw):,}, inside its header of {end:,} bytes; copy it again")
    return raw[:end]


def parse_header(raw: bytes, path: str) -> Header:
    """The meaning of a header of version 1, 2 or 3."""
    version = (raw[6], raw[7])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise FormatError(f"{path}: .npy version {version[0]}.{version[1]} is not known; known: 1.0, 2.0, 3.0")
    text = raw[10 if version[0] == 1 else 12 :].decode("utf-8" if version[0] == 3 else "latin1")
    try:
        said = ast.literal_eval(text.strip())
        stored: np.dtype[Any] = npy_format.descr_to_dtype(said["descr"])
        shape, fortran = tuple(said["shape"]), bool(said["fortran_order"])
        if not all(isinstance(d, int) and d >= 0 for d in shape):
            raise ValueError(f"shape {shape!r}")
    except (SyntaxError, ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{path}: the .npy header {text.strip()!r} cannot be understood: {error}") from error
    if stored.hasobject:
        raise UnsupportedError(f"{path} holds Python objects (dtype {stored}): save it with a fixed dtype")
    if fortran and len(shape) > 1:
        raise UnsupportedError(
            f"{path} is in Fortran order (shape {shape}): a sample's bytes lie apart; save np.ascontiguousarray(x)"
        )
    if stored.subdtype is not None:
        base, inner = stored.subdtype
        stored, shape = base, shape + inner
    return Header(stored=stored, shape=shape, offset=len(raw))
