"""How is an HDF5 file opened, and what is wrong with it if it cannot be?"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from headrace.errors import FormatError, InputError, MissingDependencyError, TruncatedFileError
from headrace.values.layout import File

STORED_END = re.compile(r"truncated file: eof = \d+, sblock->base_addr = \d+, stored_eof = (\d+)")


def import_h5py() -> Any:
    """h5py, or an error that says how to get it."""
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError("reading HDF5 needs h5py: pip install headrace[hdf5]") from error
    return h5py


@contextmanager
def open_hdf5(path: str) -> Iterator[tuple[Any, File, TruncatedFileError | None]]:
    """The open h5py file, its record, and the error to raise if the file was cut.

    A cut file is opened as if it were whole, with zeros behind its end, so that the bounds check can name the first
    sample that is lost; the error is for cuts that lose no sample.
    """
    try:
        facts = os.stat(path)
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}; check the path and its permissions") from error
    record = File(path=path, size=facts.st_size, mtime_ns=facts.st_mtime_ns)
    try:
        file = _open(path)
    except OSError as error:
        cut = STORED_END.search(str(error))
        if cut is None:
            raise _refusal(path, error) from error
        yield from _yield_cut(record, end=int(cut.group(1)))
        return
    with file:
        try:
            yield file, record, None
        except (OSError, RuntimeError, KeyError) as error:
            raise FormatError(
                f"{path}: HDF5 cannot read its own description: {error}; the file may be damaged"
            ) from error


def _open(path: str) -> Any:
    h5py = import_h5py()
    try:
        return h5py.File(path, "r")
    except OSError as error:
        # Some file systems (read-only mounts, NFS without a lock server) refuse locks: a reader needs none. A lock that
        # somebody else holds is another matter: a writer is at work.
        if "unable to lock file" not in str(error) or error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
            raise
        return h5py.File(path, "r", locking=False)


def _refusal(path: str, error: OSError) -> Exception:
    """What an error of h5py means to somebody who wanted to read."""
    if "signature not found" in str(error):
        return FormatError(f"{path} is not an HDF5 file: it has no HDF5 signature; name its format with format=")
    if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
        return InputError(f"{path} is open for writing in another process: wait until it is closed, then open it")
    if error.errno in (errno.EACCES, errno.EPERM):
        return InputError(f"{path} cannot be opened: {os.strerror(error.errno)}; check its permissions")
    return FormatError(f"{path} cannot be opened as HDF5: {error}; the file may be damaged or still being written")


def _yield_cut(record: File, *, end: int) -> Iterator[tuple[Any, File, TruncatedFileError | None]]:
    lost = TruncatedFileError(
        f"{record.path} ends at byte {record.size:,} but HDF5 wrote {end:,} bytes; the file was cut or is still being "
        "written: copy it again, or leave it out",
        path=record.path,
        offset=record.size,
    )
    with open(record.path, "rb") as stream:
        try:
            with import_h5py().File(_Padded(stream, end), "r") as file:
                yield file, record, lost
        except TruncatedFileError:
            raise
        except Exception as error:
            raise lost from error


class _Padded(io.RawIOBase):
    """A file that was cut, as it would read with zeros up to its former end."""

    def __init__(self, stream: BinaryIO, end: int) -> None:
        super().__init__()
        self._stream = stream
        self._end = end
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        self._stream.seek(self._at)
        data = self._stream.read(len(view))
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self._at += len(view)
        return len(view)
