"""Which format is it, and which module reads it?

One line per format. A module is imported when its format is first used, so that no format's library is needed by those
who use another. A module has one function, `open_layout(source, fields, *, suffixes, …options)`.
"""

from __future__ import annotations

import inspect as introspection
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from headrace.errors import FormatError, InputError
from headrace.formats.paths import Source
from headrace.values.layout import Layout


@dataclass(frozen=True)
class Format:
    """One format: its name, its module, the suffixes of its files and the bytes they begin with, if they do."""

    name: str
    module: str
    suffixes: tuple[str, ...]
    magic: bytes = b""
    what: str = ""


FORMATS = (
    Format(
        "hdf5",
        "headrace.formats.hdf5",
        (".h5", ".hdf5", ".hdf", ".he5"),
        b"\x89HDF\r\n\x1a\n",
        "datasets of HDF5 files",
    ),
    Format("npy", "headrace.formats.npy", (".npy",), b"\x93NUMPY", "one array, or a folder of arrays"),
    Format("bin", "headrace.formats.bin", (".bin", ".raw", ".dat"), b"", "fixed records; needs dtype="),
)

SUFFIXES = tuple(s for f in FORMATS for s in f.suffixes)


def find_format(name: str) -> Format:
    """The format of that name."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise FormatError(f"format={name!r} is not known; known formats: {_listed()}")


def detect_format(source: Source, fields: object = None) -> Format:
    """The one format of all files of a source: by suffix, then by the bytes that the first file begins with.

    Where `fields` maps names to patterns of files (`{"x": "x/*.npy"}`), the patterns' suffixes tell.
    """
    if source.root and isinstance(fields, Mapping):
        endings = {os.path.splitext(str(v))[1].lower() for v in fields.values()}
        for known in FORMATS:
            if endings and endings <= set(known.suffixes):
                return known
    paths = source.files(SUFFIXES)
    endings = {os.path.splitext(p)[1].lower() for p in paths}
    by_suffix = {f.name: f for f in FORMATS if endings & set(f.suffixes)}
    if len(by_suffix) > 1:
        raise FormatError(
            f"{paths[0]} and {len(paths) - 1:,} more are of several formats ({', '.join(by_suffix)}): "
            "name one with format=, or a pattern that matches one kind"
        )
    guess = next(iter(by_suffix.values()), None)
    if guess is not None and guess.magic:
        return guess
    head = _begin(paths[0])
    found = next((f for f in FORMATS if f.magic and _has_magic(head, f)), guess)
    if found is None:
        raise FormatError(
            f"{paths[0]} is of no known format (it begins with {head[:8]!r}); known formats: {_listed()}. "
            "If it is one of them, say so with format="
        )
    return found


def _begin(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(1 << 16)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; check its permissions") from error


def _has_magic(head: bytes, format: Format) -> bool:
    """At the start, or behind a user block of 512, 1024, 2048 … bytes, as HDF5 has it."""
    places = [0, *(512 << i for i in range(7))] if format.name == "hdf5" else [0]
    return any(head[p : p + len(format.magic)] == format.magic for p in places)


def open_layout(format: Format, source: Source, fields: object, options: dict[str, object]) -> Layout:
    """The layout that the format's module takes from a source; unknown options are refused by name."""
    reader: Callable[..., Layout] = import_module(format.module).open_layout
    known = option_names(reader)
    for name in options:
        if name not in known:
            listed = ", ".join(f"{k}=" for k in known) or "none"
            raise InputError(f"open has no option {name}= for format {format.name!r}; its options: {listed}")
    return reader(source, fields, suffixes=format.suffixes, **options)


def option_names(reader: Callable[..., Layout]) -> Sequence[str]:
    """The names of a format's options: the keyword arguments of its `open_layout`."""
    parameters = introspection.signature(reader).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "suffixes"]


def _listed() -> str:
    return "; ".join(f"{f.name} ({', '.join(f.suffixes)}: {f.what})" for f in FORMATS) + "; or any map dataset object"
