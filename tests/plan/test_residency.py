"""What stays in memory: the bound N - B, who reaches it and who does not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.order import make_order
from headrace.plan import decide, expand
from headrace.plan.model import lru_miss_rate
from headrace.plan.next_use import NEVER, next_uses
from headrace.values.cost import Cost, Storage
from headrace.values.run import Run, Steps
from plan.interpreter import fixed_layout


def reads_per_epoch(order, *, n: int, epochs: int, residency: str, resident: int, batch: int = 1) -> list[int]:
    """Samples read in each epoch."""
    run = Run(fixed_layout(n, (10,)), order, Steps(n, batch, False, epochs), 1 << 30, Cost(Storage(1e6, 1e9)))
    plan = decide(run, read="direct", residency=residency, resident=resident, span=batch)
    counts = [0] * epochs
    for span in expand(plan):
        counts[int(span.steps["step"][0]) // run.steps.per_epoch] += len(span.pieces)
    return counts


def fewest_reads(uses: tuple[int, ...], capacity: int) -> int:
    """Brute force over everything that a cache which may also let a sample pass by can do."""

    @cache
    def least(k: int, kept: frozenset[int]) -> int:
        if k == len(uses):
            return 0
        now = uses[k]
        cost = 0 if now in kept else 1
        after = kept | {now}
        choices = [frozenset(after)] if len(after) <= capacity else [frozenset(after - {x}) for x in after]
        return cost + min(least(k + 1, c) for c in choices)

    return least(0, frozenset())


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 999), st.data())
@settings(max_examples=150)
def test_next_use_is_as_good_as_brute_force(n, epochs, seed, data):
    """No cache of the same size reads less than next-use, over all that a cache could do."""
    capacity = data.draw(st.integers(0, n))
    order = make_order("exact", n=n, seed=seed)
    uses = tuple(int(i) for e in range(epochs) for i in order.ids(e, 0, n))
    found = reads_per_epoch(order, n=n, epochs=epochs, residency="next-use", resident=capacity)
    assert sum(found) == fewest_reads(uses, capacity)


@given(st.integers(1, 400), st.integers(2, 4), st.integers(0, 999), st.floats(0, 1), st.integers(1, 20))
@settings(max_examples=80)
def test_next_use_and_static_reach_the_bound(n, epochs, seed, share, batch):
    """Each epoch after the first reads exactly N - B samples, be the set static or chosen by next use."""
    capacity = int(share * n)
    order = make_order("exact", n=n, seed=seed)
    for residency in ("static", "next-use"):
        found = reads_per_epoch(order, n=n, epochs=epochs, residency=residency, resident=capacity, batch=min(batch, n))
        assert found[0] == n
        assert found[1:] == [n - capacity] * (epochs - 1), residency


def test_lru_misses_what_the_formula_says():
    """An LRU cache for a quarter of the data misses 96.6 % of it; next use misses 75 %."""
    order = make_order("exact", n=20_000, seed=5)
    found = reads_per_epoch(order, n=20_000, epochs=3, residency="lru", resident=5_000, batch=20)
    assert lru_miss_rate(0.25) == pytest.approx(0.966, abs=0.0005)
    assert np.mean(found[1:]) / 20_000 == pytest.approx(lru_miss_rate(0.25), abs=0.004)


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 99), st.booleans(), st.data())
@settings(max_examples=100)
def test_next_uses_are_those_that_one_finds_by_looking(n, epochs, seed, repeats, data):
    """The position of the next use, for permutations and for orders that repeat samples, with drop_last and without."""
    rng = np.random.default_rng(seed)
    order = make_order(rng.integers(0, n, n + 3) if repeats else "exact", n=n, seed=seed)
    batch = data.draw(st.integers(1, order.length))
    steps = Steps(order.length, batch, data.draw(st.booleans()), epochs)
    uses = np.concatenate([order.ids(e, 0, steps.used) for e in range(epochs)])
    epoch = data.draw(st.integers(0, epochs - 1))
    start = data.draw(st.integers(0, steps.used - 1))
    count = data.draw(st.integers(1, steps.used - start))
    found = next_uses(order=order, steps=steps, epoch=epoch, start=start, ids=order.ids(epoch, start, start + count))
    for k in range(count):
        at = epoch * steps.used + start + k
        later = np.flatnonzero(uses[at + 1 :] == uses[at])
        assert found[k] == (at + 1 + later[0] if len(later) else NEVER)
