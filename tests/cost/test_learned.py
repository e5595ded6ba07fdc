"""What a run learns of its storage: facts where it was the bottleneck, nothing where it was not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cost.learned import LATEST, Observation, learn, observe
from headrace.values.cost import Storage

SPEEDS = st.floats(50, 500_000)
BANDWIDTHS = st.floats(1e6, 8e9)


def epoch(truth, *, operations, nbytes, depth=8.0, waited=1.0):
    """An epoch on a storage with known figures, which was waited for all the time."""
    busy = truth.seconds(operations, nbytes)
    return Observation(operations, nbytes, busy, depth * busy, waited * busy, busy)


def many(truth):
    """An epoch of so many small reads that their number is the limit."""
    return epoch(truth, operations=truth.iops * 10, nbytes=truth.bandwidth)


def large(truth):
    """An epoch of so large reads that their bytes are the limit."""
    return epoch(truth, operations=max(truth.iops, 32), nbytes=truth.bandwidth * 50)


@given(SPEEDS, BANDWIDTHS, SPEEDS, BANDWIDTHS)
def test_two_epochs_of_different_kind_tell_both_figures(iops, bandwidth, wrong_iops, wrong_bandwidth):
    """Where what was thought was higher: each epoch shows one limit, and that the other can do at least so much."""
    truth = Storage(iops, bandwidth)
    prior = Storage(max(iops, wrong_iops), max(bandwidth, wrong_bandwidth))
    found = learn(prior, [many(truth), large(truth)])
    for o in (many(truth), large(truth)):
        assert found.seconds(o.operations, o.nbytes) == pytest.approx(o.busy, rel=0.06)


@given(SPEEDS, BANDWIDTHS, SPEEDS, BANDWIDTHS)
def test_what_a_storage_has_done_it_can_do(iops, bandwidth, wrong_iops, wrong_bandwidth):
    """No figure is lower than what was seen, and none above what was thought unless it was seen."""
    truth, prior = Storage(iops, bandwidth), Storage(wrong_iops, wrong_bandwidth)
    seen = [many(truth), large(truth)]
    found = learn(prior, seen)
    shown = max(o.operations / o.busy for o in seen), max(o.nbytes / o.busy for o in seen)
    assert found.iops >= shown[0] * 0.999 and found.bandwidth >= shown[1] * 0.999
    assert found.iops <= max(shown[0], prior.iops) and found.bandwidth <= max(shown[1], prior.bandwidth)


@given(SPEEDS, BANDWIDTHS)
def test_a_storage_that_is_as_thought_teaches_nothing(iops, bandwidth):
    """The same value comes back, so that no plan is weighed again."""
    truth = Storage(iops, bandwidth, source="measured")
    assert learn(truth, [many(truth), large(truth)]) is truth


SLOW = Storage(150, 150e6, name="a disk", source="assumed")
FAST = Storage(50_000, 2e9)


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [epoch(FAST, operations=500_000, nbytes=1e9, depth=1.0)],
        [epoch(FAST, operations=500_000, nbytes=1e9, waited=0.01)],
        [epoch(FAST, operations=20, nbytes=1e9)],
        [epoch(FAST, operations=500, nbytes=1e6)],
        [Observation(0, 0, 0, 0, 0, 0)],
    ],
    ids=["none", "one read at a time", "the loop was slower", "few reads", "no time", "nothing"],
)
def test_an_epoch_that_did_not_wait_for_storage_says_nothing(seen):
    """It was the loop, or the plan, that set the pace."""
    assert learn(SLOW, seen) is SLOW


def test_what_was_learned_says_so():
    """Beside the name, which stays."""
    found = learn(SLOW, [many(FAST)])
    assert found.iops == pytest.approx(50_000) and found.name == "a disk"
    assert found.source == "learned over 1 epoch, assumed before"


def test_old_epochs_are_forgotten():
    """A storage that was fast last week may be slow today."""
    found = learn(FAST, [many(FAST), *[many(SLOW)] * LATEST])
    seen = many(SLOW)
    assert found.seconds(seen.operations, seen.nbytes) == pytest.approx(seen.busy)


def test_files_that_are_no_longer_cached_are_found_out():
    """A copy is not a hundred times slower than a copy; what is only a little slower stays cached."""
    cached = Storage(2_000_000, 8e9, cached=True)
    assert learn(cached, [many(Storage(900_000, 4e9))]) is cached
    assert not learn(cached, [many(SLOW)]).cached


def test_counters_become_an_observation():
    """By their names in the engine."""
    o = observe({"operations": 100, "bytes": 4096, "busy_seconds": 2.0, "read_seconds": 8.0}, waited=1.0, seconds=4.0)
    assert o == Observation(100, 4096, 2.0, 8.0, 1.0, 4.0)
    assert o.depth == 4.0 and o.bound_by_storage
    assert observe({}, waited=0.0, seconds=0.0).depth == 0.0
