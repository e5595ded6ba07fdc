"""What names the identity of a dataset's content?

A digest of the files' base names, sizes and times, of the fields and of where they lie. A derived dataset's fingerprint
is a digest of its parents' and of how it was derived, so that the same steps on the same files give the same name on
every machine that sees them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import numpy as np

from headrace.formats.segments import Selection
from headrace.values.layout import Field, File


def digest(*parts: str | bytes) -> str:
    """32 hex digits that depend on every part and on where one part ends and the next begins."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def layout_fingerprint(*, format: str, fields: Sequence[Field], files: Sequence[File]) -> str:
    """The fingerprint of a layout that was just taken from its files."""
    names = "\n".join(f"{os.path.basename(f.path)} {f.size} {f.mtime_ns}" for f in files)
    return digest(format, names, *(d for f in fields for d in _field_parts(f)))


def _field_parts(field: Field) -> list[str | bytes]:
    out: list[str | bytes] = [f"{field.name} {field.stored!r} {field.shape}"]
    if field.shapes is not None:
        out.append(np.ascontiguousarray(field.shapes).tobytes())
    for part in field.parts:
        s = part.segments
        out.append(repr(part.box))
        out.extend(np.ascontiguousarray(a).tobytes() for a in (s.first, s.file, s.offset, s.stride, s.nbytes))
    return out


def subset_fingerprint(parent: str, selection: Selection) -> str:
    """The fingerprint of a selection of a dataset's samples."""
    chosen = repr(selection) if isinstance(selection, range) else np.ascontiguousarray(selection).tobytes()
    return digest("subset", parent, chosen)
