"""On what was this measured? The facts that a figure means little without; no name of a machine is among them."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import headrace

PACKAGES = ("numpy", "h5py", "torch")


def machine_facts() -> dict[str, Any]:
    """Kernel, processor, memory and versions."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _line("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_nbytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "python": platform.python_version(),
        "headrace": headrace.__version__,
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _line(path: str, key: str) -> str | None:
    """What stands after a key and a colon."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)


def _chosen(path: str) -> str | None:
    """The word in brackets."""
    try:
        return Path(path).read_text().partition("[")[2].partition("]")[0] or None
    except OSError:
        return None
