"""How many ids a second do the orders give, on one core?

    python benchmarks/orders.py [samples]

Forward over a range, forward at random positions, inverse at random ids; in millions a second, best of several passes.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from headrace.order import make_order

CHUNK = 1 << 20
KINDS = [
    ("exact", {}),
    ("echo", {}),
    ("group", {"size": 1024}),
    ("group", {"size": 1024, "within": False}),
    ("group", {"size": 16}),
    ("window", {"size": 65536}),
]


def best_rate(call, passes=9):
    """Ids a second, in millions."""
    fastest = float("inf")
    for _ in range(passes):
        start = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - start)
    return CHUNK / fastest / 1e6


def main(n):
    """Print the table."""
    anywhere = np.random.default_rng(0).integers(0, n, CHUNK)
    print(f"n = {n:,}; million ids a second: range, at random positions, inverse")
    for kind, options in KINDS:
        order = make_order(kind, n=n, seed=0, **options)
        epoch = 8  # an echo in the middle of its chain
        rates = (
            best_rate(lambda o=order, e=epoch: o.ids(e, n // 3, n // 3 + CHUNK)),
            best_rate(lambda o=order, e=epoch: o.at(e, anywhere)),
            best_rate(lambda o=order, e=epoch: o.positions(e, anywhere)),
        )
        name = " ".join([kind, *(f"{key}={value}" for key, value in options.items())])
        print(f"{name:30}" + "".join(f"{rate:8.0f}" for rate in rates))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**9)
