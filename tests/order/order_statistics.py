"""How likely is this table of counts, if the order is what it says?

Every test of the statistics is two-sided, at the false-alarm rate ALARM: a correct order fails one such test in a
million. The seeds are fixed, so that a result is reproducible; changing the core draws anew.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

ALARM = 1e-6
_LIMIT = NormalDist().inv_cdf(1 - ALARM / 2)


def z_of_chi_square(statistic, freedom):
    """The normal deviate of a chi-square statistic (Wilson and Hilferty's cube root)."""
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def assert_plausible(statistic, freedom):
    """Neither further from the expected counts than chance allows, nor closer."""
    z = z_of_chi_square(statistic, freedom)
    assert abs(z) < _LIMIT, f"chi-square {statistic:.1f} at {freedom} degrees of freedom: z = {z:.1f}"


def assert_uniform(counts):
    """Independent draws fall evenly on the cells."""
    counts = np.asarray(counts, np.float64).ravel()
    expected = counts.sum() / len(counts)
    assert_plausible(float(((counts - expected) ** 2).sum() / expected), len(counts) - 1)


def assert_uniform_permutations(table):
    """`table[p, id]` counts how often the id stood at p over independent permutations: rows and columns sum up alike,
    which leaves (n-1)² degrees of freedom and the factor (n-1)/n."""
    n = len(table)
    expected = table[0].sum() / n
    statistic = float(((table - expected) ** 2).sum() / expected)
    assert_plausible(statistic * (n - 1) / n, (n - 1) ** 2)


def assert_independent(x, y, n, bins=16):
    """Two permutations of 0..n-1, place by place, have nothing to do with each other (contingency of `bins`²)."""
    table = np.bincount(x * bins // n * bins + y * bins // n, minlength=bins * bins).astype(np.float64)
    # Both margins are fixed by the permutations themselves: the counts are hypergeometric, variance n/(n-1) smaller.
    expected = n / bins**2
    assert_plausible(float(((table - expected) ** 2).sum() / expected) * (n - 1) / n, (bins - 1) ** 2)


def position_table(order_of_seed, n, seeds, epoch):
    """How often each id stood at each position of the epoch."""
    table = np.zeros((n, n))
    places = np.arange(n)
    for seed in range(seeds):
        table[places, order_of_seed(seed).ids(epoch, 0, n)] += 1
    return table
