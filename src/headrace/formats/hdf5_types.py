"""Which NumPy dtype has exactly the bytes of an HDF5 type?

h5py converts while it reads; extents are delivered as they lie on storage. So a type is taken only if a NumPy dtype
describes its bytes completely; others (numbers of odd precision, space-padded strings) are refused by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import UnsupportedError
from headrace.formats.hdf5_file import import_h5py

Dtype = np.dtype[Any]


def no_fixed_dtype(kind: Any) -> str | None:
    """Why values of an HDF5 type have no fixed size, or None where they have."""
    h5t = import_h5py().h5t
    code = kind.get_class()
    if code == h5t.VLEN or (code == h5t.STRING and kind.is_variable_str()):
        return "has values of variable length"
    if code == h5t.REFERENCE:
        return "holds references into the file"
    if code == h5t.ARRAY:
        return no_fixed_dtype(kind.get_super())
    if code == h5t.COMPOUND:
        members = (no_fixed_dtype(kind.get_member_type(i)) for i in range(kind.get_nmembers()))
        return next((m for m in members if m is not None), None)
    return None


def stored_dtype(kind: Any, *, where: str) -> tuple[Dtype, tuple[int, ...]]:
    """The dtype of one element's bytes, and the shape of an element that is an array itself."""
    reason = no_fixed_dtype(kind)
    if reason is not None:
        raise UnsupportedError(f"{where} {reason}: store it with a fixed size, or leave it out with fields=")
    dtype = _dtype(kind, where)
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        return base, inner
    return dtype, ()


def _dtype(kind: Any, where: str) -> Dtype:
    h5t = import_h5py().h5t
    code = kind.get_class()
    if code == h5t.COMPOUND:
        return _compound(kind, where)
    if code == h5t.ARRAY:
        return np.dtype((_dtype(kind.get_super(), where), kind.get_array_dims()))
    if code == h5t.STRING:
        if kind.get_strpad() == h5t.STR_SPACEPAD:
            raise _odd(where, "strings padded with spaces (as Fortran writes them)")
        return np.dtype(f"S{kind.get_size()}")
    if code in (h5t.OPAQUE, getattr(h5t, "COMPLEX", h5t.OPAQUE)):
        return _checked(_plain(kind, where), kind, where)
    if code == h5t.BITFIELD and kind.get_precision() == 8 * kind.get_size():
        return _checked(_plain(kind, where), kind, where)
    if code == h5t.ENUM:
        base: Dtype = _dtype(kind.get_super(), where)
        return np.dtype(bool) if _plain(kind, where).kind == "b" else base
    dtype = _plain(kind, where)
    if not h5t.py_create(dtype).equal(kind):
        raise _odd(where, f"numbers of a kind that NumPy lacks ({kind.get_size()} bytes each, not plain {dtype})")
    return dtype


def _plain(kind: Any, where: str) -> Dtype:
    """The dtype that h5py names, without its metadata."""
    try:
        dtype: Dtype = kind.dtype
    except TypeError as error:
        raise _odd(where, f"values of a type that NumPy lacks ({error})") from error
    plain: Dtype = np.dtype(dtype.str)
    return plain


def _compound(kind: Any, where: str) -> Dtype:
    """A structured dtype with the file's own offsets; a pair (r, i) of equal floats is a complex number."""
    count = kind.get_nmembers()
    names = [kind.get_member_name(i).decode() for i in range(count)]
    formats = [_dtype(kind.get_member_type(i), where) for i in range(count)]
    offsets = [kind.get_member_offset(i) for i in range(count)]
    size = kind.get_size()
    first = formats[0]
    if names == ["r", "i"] and first == formats[1] and first.kind == "f" and kind.dtype.kind == "c":
        if offsets != [0, first.itemsize] or size != 2 * first.itemsize:
            raise _odd(where, "complex numbers with bytes between their halves")
        return np.dtype(f"{first.byteorder.replace('=', '')}c{size}")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def _checked(dtype: Dtype, kind: Any, where: str) -> Dtype:
    if dtype.itemsize != kind.get_size():
        raise _odd(where, f"values of {kind.get_size()} bytes that h5py takes for {dtype} of {dtype.itemsize}")
    return dtype


def _odd(where: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{where} holds {what}: rewrite it with a NumPy dtype, or leave it out with fields=")
