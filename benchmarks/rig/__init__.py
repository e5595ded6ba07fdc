"""How does a command fare where storage is expensive? Runs it, cold, in little memory, on a slow disk."""

from __future__ import annotations

from benchmarks.rig.conditions import REFUSED, Conditions, Refused, Result
from benchmarks.rig.run import run_under

__all__ = ["REFUSED", "Conditions", "Refused", "Result", "run_under"]
