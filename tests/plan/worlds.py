"""Random runs for the properties of plans."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from headrace.order import make_order
from headrace.values.cost import Cost, Storage
from headrace.values.layout import Layout
from headrace.values.run import Run, Steps
from plan.interpreter import boxed_layout, fixed_layout, ragged_layout

STORAGES = (Storage(1500, 150e6), Storage(150, 150e6), Storage(39_000, 2e9), Storage(1e6, 5e9))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Small datasets of every shape that the planner knows."""
    n = draw(st.integers(1, 300))
    kind = draw(st.sampled_from(["fixed", "fixed", "fixed", "ragged", "boxed"]))
    if kind == "boxed":
        return boxed_layout(n)
    if kind == "ragged":
        seed, most = draw(st.integers(0, 99)), draw(st.sampled_from([40, 900, 5000]))
        sizes = np.random.default_rng(seed).integers(0, most, n)
        return ragged_layout(
            np.maximum(sizes, 1) if draw(st.booleans()) else sizes, label=draw(st.sampled_from([0, 3]))
        )
    sizes = tuple(draw(st.lists(st.integers(1, 50), min_size=1, max_size=3)))
    return fixed_layout(n, sizes, files=draw(st.integers(1, 4)), padding=draw(st.integers(0, 70)))


KINDS = ("exact", "exact", "echo", "group", "window", "sequential", "given", "repeats")


def orders(draw: st.DrawFn, n: int):
    """An order over n samples."""
    kind = draw(st.sampled_from(KINDS))
    seed = draw(st.integers(0, 2**40))
    if kind == "echo":
        return make_order("echo", n=n, seed=seed, carry=draw(st.integers(0, n)), restart=draw(st.integers(1, 4)))
    if kind in ("group", "window"):
        return make_order(kind, n=n, seed=seed, size=draw(st.integers(1, n)))
    if kind == "given":
        return make_order(np.random.default_rng(seed).permutation(n), n=n, seed=seed)
    if kind == "repeats":
        return make_order(np.random.default_rng(seed).integers(0, n, max(1, n // 2 + 3)), n=n, seed=seed)
    return make_order(kind, n=n, seed=seed)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A run over a small dataset, with memory from little to plenty."""
    layout = draw(layouts())
    order = orders(draw, layout.n)
    batch = draw(st.integers(1, max(1, order.length)))
    drop_last = draw(st.booleans()) and order.length >= batch
    steps = Steps(order.length, batch, drop_last, draw(st.integers(1, 4)))
    largest = batch * max(sum(int(p.segments.nbytes.max()) for p in layout.parts), 1)
    memory = int(draw(st.floats(4, 60)) * largest) + draw(st.sampled_from([200_000, 1_200_000, 5_000_000]))
    return Run(layout, order, steps, memory, Cost(draw(st.sampled_from(STORAGES))))
