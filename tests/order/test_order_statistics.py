"""Is every epoch a uniform permutation, and are epochs and seeds independent?

The false-alarm rate is in order_statistics.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from order_statistics import (
    assert_independent,
    assert_plausible,
    assert_uniform,
    assert_uniform_permutations,
    position_table,
)

from headrace.order import make_order


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_permutation_of_a_few_samples_is_equally_frequent(n):
    """All n! of them, odd and even ones, over the seeds."""
    draws = 120 * math.factorial(n) + 2000
    weights = n ** np.arange(n)
    codes = [int(make_order(True, n=n, seed=s).ids(1, 0, n) @ weights) for s in range(draws)]
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == math.factorial(n)
    assert_uniform(counts)


@pytest.mark.parametrize(("n", "seeds"), [(7, 6000), (16, 6000), (97, 6000), (500, 3000)])
def test_every_id_is_uniform_over_the_positions(n, seeds):
    """Of an exact order."""
    assert_uniform_permutations(position_table(lambda s: make_order(True, n=n, seed=s), n, seeds, epoch=0))


@pytest.mark.parametrize("n", [10**4 + 1, 10**6, 2**30, 10**9 + 7, 2**32 - 1])
def test_single_ids_of_large_orders_are_uniform_over_the_positions(n):
    """In 64 equal parts, over 8,000 seeds: the first, an inner and the last id, and the ids at such positions."""
    values = np.array([0, n // 3, n - 1])
    orders = [make_order(True, n=n, seed=s) for s in range(8000)]
    for found in (np.array([o.positions(2, values) for o in orders]), np.array([o.at(2, values) for o in orders])):
        for column in found.T:
            assert_uniform(np.bincount(column * 64 // n, minlength=64))


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("distance", [1, 2, 7])
def test_either_of_two_ids_comes_first_equally_often(n, distance):
    """Over 4,000 seeds, for disjoint pairs of ids, whose orders are independent in a uniform permutation."""
    seeds = 4000
    first = np.array([i for i in range(n - distance) if i // distance % 2 == 0])
    before = np.zeros(len(first))
    for seed in range(seeds):
        places = make_order(True, n=n, seed=seed).positions(5, np.arange(n))
        before += places[first] < places[first + distance]
    assert_plausible(float(((before - seeds / 2) ** 2 / (seeds / 4)).sum()), len(first))


@pytest.mark.parametrize("n", [5, 31, 64, 1000])
def test_the_difference_of_neighbours_is_uniform(n):
    """One pair of neighbouring positions, and one of neighbouring ids, a seed: every difference mod n but 0 alike."""
    forward, inverse = [], []
    for seed in range(12_000):
        pair = np.array([seed % (n - 1), seed % (n - 1) + 1])
        order = make_order(True, n=n, seed=seed)
        forward.append(int(np.diff(order.at(3, pair))[0]) % n)
        inverse.append(int(np.diff(order.positions(3, pair))[0]) % n)
    for differences in (forward, inverse):
        counts = np.bincount(differences, minlength=n)
        assert counts[0] == 0
        assert_uniform(counts[1:])


@pytest.mark.parametrize("n", [10**5, 10**6, 2**20])
@pytest.mark.parametrize("distance", [1, 2, 1000])
def test_the_differences_within_one_epoch_are_uniform(n, distance):
    """Of disjoint pairs, in 500 classes; also at the distance that is one row of the network."""
    ids = make_order(True, n=n, seed=11).ids(0, 0, n)
    first = np.arange(n - distance)
    first = first[first // distance % 2 == 0]
    differences = (ids[first + distance] - ids[first]) % n
    assert_uniform(np.bincount(differences * 500 // n, minlength=500))


@pytest.mark.parametrize("distance", [1, 2, 3])
def test_epochs_and_seeds_are_independent(distance):
    """Place by place, and id by id, for epochs and for seeds at several distances."""
    n = 50_000
    for seed in range(4):
        base = make_order(True, n=n, seed=seed)
        for other, epoch in ((base, distance), (make_order(True, n=n, seed=seed + distance), 0)):
            assert_independent(base.ids(0, 0, n), other.ids(epoch, 0, n), n)
            assert_independent(base.positions(0, np.arange(n)), other.positions(epoch, np.arange(n)), n)


def test_no_two_pairs_of_seed_and_epoch_share_an_order():
    """(seed, epoch) is hashed, never added: (0, 1) is not (1, 0), nor (1, 11) (11, 1); seeds may be of any size."""
    seeds = [*range(-12, 24), 2**31, 2**32, 2**63, 2**64, 2**64 + 1, -(2**64)]
    for kind, options in (("exact", {}), ("echo", {"restart": 3}), ("group", {"size": 9}), ("window", {"size": 40})):
        made = {make_order(kind, n=400, seed=s, **options).ids(e, 0, 400).tobytes() for s in seeds for e in range(24)}
        assert len(made) == len(seeds) * 24


@pytest.mark.parametrize("epoch", [0, 1, 4, 7])
@pytest.mark.parametrize(("n", "carry"), [(40, 4), (30, 20), (24, 24)])
def test_every_epoch_of_an_echo_is_uniform(epoch, n, carry):
    """Although it depends on the one before (the chain restarts after 6 epochs)."""
    orders = {s: make_order("echo", n=n, seed=s, carry=carry, restart=6) for s in range(3000)}
    assert_uniform_permutations(position_table(orders.__getitem__, n, len(orders), epoch))


@pytest.mark.parametrize(
    ("kind", "options"),
    [("group", {"size": 8}), ("window", {"size": 8}), ("window", {"size": 7}), ("window", {"size": 48})],
)
def test_ids_of_group_and_window_orders_are_uniform_over_the_positions(kind, options):
    """One id at a time, that is; neighbours stay together. A group's size must divide n for it, a window's need not."""
    n, seeds = 48, 4000
    table = position_table(lambda s: make_order(kind, n=n, seed=s, **options), n, seeds, epoch=2)
    for row in (*table[::5], *table.T[::5]):
        assert_uniform(row)


def test_the_order_inside_differs_from_group_to_group():
    """Each group has a permutation of its own, uniform over the groups of one epoch."""
    n, size = 4 * 20_000, 4
    ids = make_order("group", n=n, seed=2, size=size).ids(0, 0, n).reshape(-1, size)
    inside = (ids - ids.min(axis=1, keepdims=True)) @ size ** np.arange(size)
    _, counts = np.unique(inside, return_counts=True)
    assert len(counts) == 24
    assert_uniform(counts)
    assert_independent(np.argsort(ids.min(axis=1)), np.arange(n // size), n // size)
