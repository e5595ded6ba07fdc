"""Which files does the user mean?

A path, a pattern (`*`, `?`, `[…]`, `**`), a brace pattern (`{000..010}`, `{a,b}`), a folder, or a list of these.
Matches of one pattern or folder are sorted by name, character by character: `10.npy` comes before `9.npy`.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.errors import InputError, UnsupportedError

BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Source:
    """What was given to `open`: the items as strings, in their order."""

    items: tuple[str, ...]

    @property
    def root(self) -> str:
        """The folder that names in `fields=` are relative to: the one that was given, or the current one."""
        folders = [i for i in self.items if os.path.isdir(i)]
        return folders[0] if len(self.items) == 1 and folders else ""

    def files(self, suffixes: Sequence[str]) -> list[str]:
        """All files that the items name; of a folder, those that end with one of `suffixes`."""
        found = [path for item in self.items for path in expand_item(item, suffixes)]
        if len(set(found)) < len(found):
            twice = Counter(found).most_common(1)[0][0]
            raise InputError(f"{twice} is named twice: name each file once, or use concat to repeat samples on purpose")
        return found


def make_source(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Source:
    """The user's path or paths as strings."""
    listed = [given] if isinstance(given, str | os.PathLike) else list(given)
    items = []
    for item in listed:
        if not isinstance(item, str | os.PathLike):
            raise InputError(f"a path is a string or a Path, not {type(item).__name__} ({item!r})")
        text = os.path.expanduser(os.fspath(item))
        if re.match(r"[a-z0-9+.-]+://", text):
            raise UnsupportedError(f"{text}: only local files can be opened; mount the store or copy the data first")
        items.append(text)
    if not items:
        raise InputError("no path was given: the list is empty")
    return Source(tuple(items))


def expand_item(item: str, suffixes: Sequence[str]) -> list[str]:
    """The files that one path, pattern or folder names, as absolute paths."""
    if os.path.isdir(item):
        with os.scandir(item) as entries:
            names = sorted(e.name for e in entries if e.name.lower().endswith(tuple(suffixes)) and e.is_file())
        if not names:
            raise InputError(
                f"folder {item} holds no file that ends with {', '.join(suffixes)}; name a pattern instead"
            )
        base = os.path.abspath(item)
        return [f"{base}/{name}" for name in names]
    if os.path.lexists(item):
        _check_regular(item)
        return [os.path.abspath(item)]
    found = [path for pattern in expand_braces(item) for path in _match(pattern)]
    if not found:
        raise _nothing(item)
    return [os.path.abspath(p) for p in found]


def _check_regular(path: str) -> None:
    """Refuse a FIFO, socket or device: opening one may wait for ever, and none has samples at known places."""
    if os.path.exists(path) and not os.path.isfile(path):
        mode = os.stat(path).st_mode
        kinds = (("a FIFO", stat.S_ISFIFO), ("a socket", stat.S_ISSOCK), ("a device", stat.S_ISBLK))
        kind = next((name for name, is_kind in kinds if is_kind(mode)), "a device")
        raise InputError(f"{path} is {kind}, not a file: write its content to a file first, and name that")


def _match(pattern: str) -> list[str]:
    if os.path.isfile(pattern):
        return [pattern]
    if glob.has_magic(pattern):
        return sorted(p for p in glob.glob(pattern, recursive=True) if os.path.isfile(p))
    raise _nothing(pattern)


def expand_braces(pattern: str) -> list[str]:
    """`a{08..10}` is a08, a09, a10; `{x,y}` is x, y; several braces multiply, the first varying slowest."""
    found = BRACES.search(pattern)
    if found is None:
        return [pattern]
    before, inside, after = pattern[: found.start()], found.group(1), pattern[found.end() :]
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", inside)
    if numbers is not None:
        low, high = numbers.groups()
        if int(high) < int(low):
            raise InputError(f"the range {{{inside}}} in {pattern!r} runs backwards: write {{{high}..{low}}}")
        width = len(low) if len(low) == len(high) or low.startswith("0") else 0
        options = [f"{i:0{width}d}" for i in range(int(low), int(high) + 1)]
    else:
        options = inside.split(",")
    return [before + option + rest for option in options for rest in expand_braces(after)]


def _nothing(item: str) -> InputError:
    if glob.has_magic(item):
        return InputError(f"no file matches {item!r} (looked from {os.getcwd()})")
    folder, name = os.path.split(item)
    try:
        close = difflib.get_close_matches(name, os.listdir(folder or "."), n=3)
    except OSError:
        return InputError(f"{item} does not exist: nor does its folder {folder!r}, or it cannot be listed")
    hint = f"did you mean {' or '.join(repr(c) for c in close)}?" if close else "check the path"
    return InputError(f"{item} does not exist (looked from {os.getcwd()}): {hint}")
