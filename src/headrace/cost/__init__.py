"""What does a read cost here, and how much memory is there? Given or assumed values; nothing is decided here."""

from headrace.cost.memory import MemoryLimit, memory_budget, usable_memory
from headrace.cost.page_cache import page_cache_share
from headrace.cost.sizes import format_bytes, parse_bytes
from headrace.cost.storage import assume_storage, on_disks, read_ahead

__all__ = [
    "MemoryLimit",
    "assume_storage",
    "format_bytes",
    "memory_budget",
    "on_disks",
    "page_cache_share",
    "parse_bytes",
    "read_ahead",
    "usable_memory",
]
