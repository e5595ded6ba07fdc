"""Does an order that somebody else made become one, and is everything that is none refused by name?"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError, StateError
from headrace.order import make_order


class EpochSampler:
    """A sampler that is a function of its epoch, as torch's DistributedSampler."""

    def __init__(self, n):
        self.n, self.epoch = n, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(np.random.default_rng(self.epoch).permutation(self.n).tolist())


class StreamSampler:
    """A sampler whose every iteration is the next epoch, as torch's RandomSampler."""

    def __init__(self, n):
        self.n, self.generator = n, np.random.default_rng(0)

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(self.generator.permutation(self.n).tolist())


@given(st.integers(1, 60), st.data())
def test_an_array_is_the_order_of_every_epoch(n, data):
    """Forward as it stands; inverse with the first place of each id, -1 for those it lacks."""
    array = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=80))
    order = make_order(array, n=n)
    assert (order.name, order.n, order.length) == ("given", n, len(array))
    assert order.unique == (len(set(array)) == len(array))
    for epoch in (0, 5):
        assert order.ids(epoch, 0, len(array)).tolist() == array
        assert order.at(epoch, range(len(array))[::-1]).tolist() == array[::-1]
        assert order.positions(epoch, range(n)).tolist() == [array.index(i) if i in array else -1 for i in range(n)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint32, np.int64, ">i4"])
def test_any_whole_numbers_will_do(dtype):
    """And what the caller does to the array afterwards is no matter; nor can the order's own be written to."""
    array = np.arange(9, -1, -1).astype(dtype)
    order = make_order(array, n=10)
    array[:] = 0
    order.ids(0, 0, 10)[:] = 0
    assert order.ids(0, 0, 10).tolist() == list(range(9, -1, -1))


def test_arrays_of_equal_content_are_equal_orders():
    """As values; functions are equal only to themselves."""
    one, same, other = make_order([2, 0, 1], n=3), make_order(np.array([2, 0, 1]), n=3), make_order([2, 1, 0], n=3)
    assert one == same and hash(one) == hash(same)
    assert one != other and one != make_order([2, 0, 1], n=4)
    assert make_order(lambda e: [0], n=1) != make_order(lambda e: [0], n=1)
    assert one != "given"


def test_a_function_of_the_epoch_is_called_once_for_each_of_the_latest_epochs():
    """They are kept, also when several threads ask at once."""
    calls = []

    def draw(epoch):
        calls.append(epoch)
        return np.random.default_rng(epoch).permutation(50)

    order = make_order(draw, n=50)
    threads = [threading.Thread(target=order.positions, args=(e % 4, np.arange(50))) for e in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(calls) == [0, 1, 2, 3]
    assert (order.at(3, order.positions(3, np.arange(50))) == np.arange(50)).all()
    for epoch in range(30):
        assert (order.ids(epoch, 0, 50) == draw(epoch)).all()


def test_a_sampler_with_set_epoch_can_be_asked_for_any_epoch():
    """In any sequence, as often as wanted."""
    order = make_order(EpochSampler(40), n=40)
    for epoch in (7, 2, *range(20), 2):
        assert order.ids(epoch, 0, 40).tolist() == np.random.default_rng(epoch).permutation(40).tolist()


def test_a_sampler_without_set_epoch_is_drawn_epoch_by_epoch():
    """Asking for a late epoch draws those before it: resuming sees what the run that never stopped saw."""
    straight, resumed = make_order(StreamSampler(30), n=30), make_order(StreamSampler(30), n=30)
    sequence = [straight.ids(epoch, 0, 30).tolist() for epoch in range(20)]
    assert resumed.ids(12, 0, 30).tolist() == sequence[12]
    assert resumed.ids(13, 0, 30).tolist() == sequence[13]
    with pytest.raises(StateError, match=r"epoch 3 was asked for again.*StreamSampler has no set_epoch"):
        straight.ids(3, 0, 30)


def test_torch_samplers_and_tensors_are_orders():
    """Random ones with a seeded generator, weighted ones with repeats, subsets."""
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    tensor = make_order(torch.tensor([3, 1, 2]), n=5)
    assert tensor.ids(0, 0, 3).tolist() == [3, 1, 2]
    random = make_order(data.RandomSampler(range(50), generator=torch.Generator().manual_seed(1)), n=50)
    assert random.unique and sorted(random.ids(4, 0, 50)) == list(range(50))
    assert random.ids(4, 0, 50).tolist() != random.ids(5, 0, 50).tolist()
    generator = torch.Generator().manual_seed(1)
    weighted = make_order(data.WeightedRandomSampler([1.0] * 50, 70, generator=generator), n=50)
    assert not weighted.unique and weighted.length == 70
    weighted.ids(3, 0, 70)
    distributed = make_order(data.DistributedSampler(range(50), num_replicas=2, rank=1), n=50)
    assert distributed.length == 25 and distributed.unique


def test_a_generator_that_repeats_late_is_found():
    """`unique` was promised by epoch 0; who may repeat says so."""

    def draw(epoch):
        return [0, 1, 2] if epoch < 2 else [0, 1, 1]

    order = make_order(draw, n=3)
    assert order.unique
    with pytest.raises(InputError, match=r"given order \(callable\), epoch 2: id 1 repeats.*unique=False"):
        order.ids(2, 0, 3)
    tolerant = make_order(draw, n=3, unique=False)
    assert not tolerant.unique and tolerant.ids(2, 0, 3).tolist() == [0, 1, 1]
    with pytest.raises(InputError, match="unique=True, but epoch 0 has id 4 more than once"):
        make_order([4, 4], n=100, unique=True)


def test_a_function_that_answers_differently_is_found():
    """An order is a function of the epoch: asked again, it must say the same."""
    generator = np.random.default_rng(0)
    order = make_order(lambda epoch: generator.permutation(20), n=20)
    for epoch in range(1, 12):
        order.ids(epoch, 0, 20)
    with pytest.raises(StateError, match="epoch 0: other ids than when this epoch was asked for before"):
        order.ids(0, 0, 20)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ([0, 1, 5], r"epoch 0: id 5 \(number 2 of 3\) is out of range: expected 0..4"),
        ([0, -1], r"id -1 \(number 1 of 2\) is out of range"),
        ([], "no ids; expected at least one"),
        ([[0, 1]], r"expected a flat array, found shape \(1, 2\)"),
        (np.array([True, False]), "found dtype bool; a mask becomes ids by np.flatnonzero"),
        ([0.0, 1.0], "expected whole numbers, found dtype float64"),
        (lambda epoch: "no", "expected a flat array"),
        (lambda epoch: [7], r"\(callable\), epoch 0: id 7 .* out of range"),
        (12, "shuffle=12: a int is no order"),
        (object(), "is no order; expected a name, an array"),
    ],
)
def test_what_is_no_order_is_refused(given_, message):
    """With the value that is wrong."""
    with pytest.raises(InputError, match=message):
        make_order(given_, n=5)


def test_epochs_of_different_length_are_refused():
    """The number of steps of an epoch is part of the plan."""
    order = make_order(lambda epoch: range(5 - epoch % 2), n=5)
    with pytest.raises(InputError, match="epoch 1: 4 ids, but epoch 0 had 5; every epoch must have the same number"):
        order.at(1, [0])


def test_positions_and_ids_outside_are_refused():
    """Positions are below the length, ids below n."""
    order = make_order([3, 4], n=5)
    with pytest.raises(InputError, match=r"position 2 .* expected 0..1"):
        order.at(0, [2])
    with pytest.raises(InputError, match=r"id 5 .* expected 0..4"):
        order.positions(0, [5])
    with pytest.raises(InputError, match=r"positions 0..3 asked for"):
        order.ids(0, 0, 3)
    with pytest.raises(InputError, match="n=0; there must be at least one sample"):
        make_order([0], n=0)
