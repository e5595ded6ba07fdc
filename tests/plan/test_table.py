"""The table of what is possible at best: passes over the dataset per epoch, from the planner's own reads.

N = 60,000 samples, four epochs of which the first is not counted, time = max(operations / IOPS, bytes / bandwidth).
"""

from __future__ import annotations

from functools import cache

import pytest

from headrace.order import make_order
from headrace.plan import decide, expand
from headrace.values.cost import Cost, Storage
from headrace.values.plan import Plan
from headrace.values.run import Run, Steps
from plan.interpreter import fixed_layout

N, BATCH, EPOCHS = 60_000, 60, 4
DISK, SLOW, FAST = Storage(1500, 150e6), Storage(150, 150e6), Storage(39_000, 2e9)

# storage, sample, M/N, random, static, sweep alone, best split, its s as a share of M
TABLE = [
    (DISK, 19_200, 0.05, 5.21, 4.95, 2.51, 2.51, 0.0),
    (DISK, 19_200, 0.25, 5.21, 3.91, 1.46, 1.39, 0.25),
    (DISK, 19_200, 0.50, 5.21, 2.60, 1.01, 0.87, 0.5),
    (DISK, 3_072, 0.05, 32.6, 30.9, 5.64, 5.64, 0.0),
    (DISK, 3_072, 0.25, 32.6, 24.4, 1.91, 1.91, 0.0),
    (SLOW, 19_200, 0.05, 52.1, 49.5, 6.68, 6.68, 0.0),
    (SLOW, 19_200, 0.25, 52.1, 39.1, 1.99, 1.99, 0.0),
    (FAST, 19_200, 0.25, 2.67, 2.00, 1.21, 1.13, 0.25),
]


@cache
def run(storage: Storage, size: int) -> Run:
    order = make_order("exact", n=N, seed=0)
    return Run(fixed_layout(N, (size,)), order, Steps(N, BATCH, False, EPOCHS), 8 << 30, Cost(storage))


def passes(plan: Plan, start: int) -> float:
    """What the reads from step `start` on cost, in passes an epoch."""
    operations = nbytes = 0
    for span in expand(plan, start):
        operations += len(span.reads)
        nbytes += span.nbytes
    storage = plan.run.cost.storage
    epochs = EPOCHS - start // plan.run.steps.per_epoch
    return storage.seconds(operations, nbytes) / epochs / (plan.run.layout.nbytes / storage.bandwidth)


def swept(storage: Storage, size: int, memory: float, resident: int) -> float:
    """Sweep with K = 2(M - s) · N / (N - s), the best of the gaps around the planner's own choice.

    Only a share (N - s) / N of the positions is swept, so a round of K positions waits for K/2 · (N - s)/N samples.
    """
    width = int(2 * (memory * N - resident) * N / (N - resident))
    forced = {"read": "sweep", "round": width, "slots": N, "span": width // 8, "lead": BATCH, "ramp": False}
    residency = {"residency": "static", "resident": resident} if resident else {"residency": "none"}
    own = decide(run(storage, size), **forced, **residency).switches.gap // size
    best = 99.0
    for through in {max(0, own - 2), max(0, own - 1), own, own + 1, own + 2}:
        plan = decide(run(storage, size), **forced, **residency, gap=through * size)
        best = min(best, passes(plan, 0 if resident else N // BATCH))
        if resident:  # the region is filled in the first epoch: what that one reads is not counted
            counted = list(expand(plan))
            first = next(k for k, s in enumerate(counted) if s.after >= N // BATCH)
            operations = sum(len(s.reads) for s in counted[first:])
            nbytes = sum(s.nbytes for s in counted[first:])
            best = min(best, storage.seconds(operations, nbytes) / 3 / (N * size / storage.bandwidth))
    return best


@pytest.mark.parametrize(("storage", "size", "memory", "random", "static", "alone", "split", "share"), TABLE)
def test_the_planner_reaches_the_table(storage, size, memory, random, static, alone, split, share):
    """Random, static, sweep alone and the best split cost what the design says, within 3 % (or less than it says)."""
    plain = decide(run(storage, size), read="direct", residency="none", gap=0)
    assert passes(plain, N // BATCH) == pytest.approx(random, rel=0.03)
    kept = decide(run(storage, size), read="direct", residency="static", resident=int(memory * N), gap=0)
    later = [s for s in expand(kept) if len(s.steps) and s.steps["step"][0] >= N // BATCH]
    cost = storage.seconds(sum(len(s.reads) for s in later), sum(s.nbytes for s in later)) / 3
    assert cost / (N * size / storage.bandwidth) == pytest.approx(static, rel=0.03)
    assert swept(storage, size, memory, 0) == pytest.approx(alone, rel=0.03)
    assert swept(storage, size, memory, int(share * memory * N)) <= split * 1.03


@pytest.mark.parametrize("memory", [0.05, 0.25, 0.5])
@pytest.mark.parametrize("storage", [DISK, SLOW, FAST], ids=["disk", "slow", "fast"])
def test_what_decide_estimates_is_what_expand_counts(storage, memory):
    """The closed forms agree with the counts of a steady epoch: bytes and time within 4 %, operations within 6 %."""
    base = run(storage, 19_200)
    plan = decide(Run(base.layout, base.order, base.steps, int(memory * base.layout.nbytes), base.cost))
    per_epoch = plan.run.steps.per_epoch
    middle = [s for s in expand(plan) if per_epoch <= s.after < 3 * per_epoch]
    operations = sum(len(s.reads) for s in middle) / 2
    nbytes = sum(s.nbytes for s in middle) / 2
    steady = plan.chosen.steady
    assert operations == pytest.approx(steady.operations, rel=0.06)
    assert nbytes == pytest.approx(steady.nbytes, rel=0.04)
    copying = steady.seconds - storage.seconds(steady.operations, steady.nbytes)
    assert storage.seconds(operations, nbytes) + copying == pytest.approx(steady.seconds, rel=0.04)
