"""Which random numbers belong to (seed, epoch, purpose)?

The three are hashed together, never added: seed 0 in epoch 1 and seed 1 in epoch 0 have nothing in common. The bytes
below are part of what a saved run means: changing them changes every shuffle.
"""

from __future__ import annotations

import hashlib
import operator
from typing import SupportsIndex

from headrace.errors import InputError


def derive_key(*, seed: int, epoch: int, purpose: str) -> bytes:
    """16 bytes that are independent for different arguments; the seed may be any whole number."""
    text = f"{purpose}/{seed}/{epoch}"
    return hashlib.blake2b(text.encode("ascii"), digest_size=16, person=b"headrace order 1").digest()


def derive_below(n: int, *, seed: int, epoch: int, purpose: str) -> int:
    """A uniform number of 0..n-1 (its bias, n / 2^128, is beyond measurement)."""
    return int.from_bytes(derive_key(seed=seed, epoch=epoch, purpose=purpose), "little") % n


def as_seed(seed: SupportsIndex) -> int:
    """The seed as a plain int."""
    try:
        return operator.index(seed)
    except TypeError:
        raise InputError(f"seed={seed!r}: expected a whole number, found {type(seed).__name__}") from None
