"""What did the user probably mean by a name that does not exist?"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from headrace.errors import FieldError, InputError


def missing_name(name: str, *, known: Sequence[str], where: str) -> FieldError:
    """The error for a field that is not there, with the names that come close."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or difflib.get_close_matches(
        name.rpartition("/")[2], known, n=3, cutoff=0.4
    )
    listed = ", ".join(repr(k) for k in known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    hint = f"did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
    return FieldError(f"{where} has no field {name!r}: {hint}it has {listed or 'none'}")


def field_names(fields: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str] | None:
    """The user's `fields` as {delivered name: stored name}; None where all are meant."""
    if fields is None:
        return None
    if isinstance(fields, str):
        fields = [fields]
    wanted = dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}
    if not wanted:
        raise InputError("fields= is empty: name at least one field, or leave it out for all")
    if not isinstance(fields, Mapping) and len(wanted) < len(fields):
        raise FieldError(f"fields= names a field twice: {list(fields)!r}; name each once")
    for new, stored in wanted.items():
        if not isinstance(new, str) or not isinstance(stored, str):
            raise InputError(f"fields= maps names to names, not {new!r} to {stored!r}")
    return wanted
