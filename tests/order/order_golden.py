"""Which ids were delivered by the first release? `python tests/order/order_golden.py` writes golden.json anew.

Doing so declares that every saved run of users is void: the orders are part of the format of a state.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from headrace.order import order_from_spec

PATH = Path(__file__).parent / "golden.json"

SPECS = [
    {"kind": "sequential", "n": 10},
    *({"kind": "exact", "n": n, "seed": 0} for n in (1, 2, 3, 10, 1000, 65536, 10**6, 10**9, 2**32 - 1)),
    *({"kind": "exact", "n": 1000, "seed": s} for s in (1, -1, 2**64 + 1)),
    {"kind": "echo", "n": 1000, "seed": 0, "carry": 100, "restart": 16},
    {"kind": "echo", "n": 10**9, "seed": 7, "carry": 10**8, "restart": 3},
    {"kind": "group", "n": 1005, "seed": 0, "size": 64, "within": True},
    {"kind": "group", "n": 1005, "seed": 0, "size": 64, "within": False},
    {"kind": "group", "n": 10**9 + 9, "seed": 3, "size": 1024, "within": True},
    {"kind": "window", "n": 1005, "seed": 0, "size": 64},
    {"kind": "window", "n": 10**9 + 9, "seed": 3, "size": 1024},
]


def golden_of(spec):
    """The first ids of three epochs, and a digest of up to 5,000 ids and positions spread over each."""
    order = order_from_spec(spec)
    places = np.unique(np.linspace(0, order.n - 1, 5000).astype(np.int64))
    epochs = {}
    for epoch in (0, 1, 17):
        both = np.concatenate([order.at(epoch, places), order.positions(epoch, places)]).astype("<i8")
        digest = hashlib.blake2b(both.tobytes(), digest_size=12).hexdigest()
        epochs[str(epoch)] = {"ids": order.ids(epoch, 0, min(order.n, 8)).tolist(), "digest": digest}
    return {"spec": spec, "epochs": epochs}


if __name__ == "__main__":
    entries = ",\n".join(json.dumps(golden_of(spec)) for spec in SPECS)
    PATH.write_text(f"[\n{entries}\n]\n")
