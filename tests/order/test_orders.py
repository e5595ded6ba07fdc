"""Does every order visit every sample, can it be asked anywhere, and does each kind keep what it promises?"""

from __future__ import annotations

import numpy as np
import order_reference as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import InputError, UnsupportedError
from headrace.native import kernels
from headrace.order import EchoOrder, ExactOrder, GroupOrder, SequentialOrder, WindowOrder, make_order
from headrace.order.keys import derive_key


@st.composite
def orders(draw, max_n=2000):
    """Any order that has no table."""
    n = draw(st.integers(1, max_n))
    seed = draw(st.integers(-(2**70), 2**70))
    size = draw(st.integers(1, n + 3))
    return draw(
        st.sampled_from(
            [
                SequentialOrder(n),
                ExactOrder(n, seed),
                EchoOrder(n, seed, carry=draw(st.integers(0, n)), restart=draw(st.integers(1, 9))),
                GroupOrder(n, seed, size=size, within=draw(st.booleans())),
                WindowOrder(n, seed, size=size),
            ]
        )
    )


def assert_bijection_with_inverse(order, epoch):
    everything = np.arange(order.n)
    ids = order.ids(epoch, 0, order.n)
    assert (np.bincount(ids, minlength=order.n) == 1).all(), order
    assert (order.positions(epoch, ids) == everything).all(), order


def test_the_exact_order_is_a_bijection_for_every_n_up_to_5000():
    """With an inverse that undoes it."""
    for n in range(1, 5001):
        assert_bijection_with_inverse(ExactOrder(n, seed=n % 7), epoch=n % 5)


@pytest.mark.parametrize("kind", ["echo", "group", "file order", "window"])
def test_the_other_orders_are_bijections_too(kind):
    """For small n with every size, and for larger ones with sizes that leave tails of all lengths."""
    make = {
        "echo": lambda n, size: EchoOrder(n, 1, carry=size % (n + 1), restart=5),
        "group": lambda n, size: GroupOrder(n, 1, size=size),
        "file order": lambda n, size: GroupOrder(n, 1, size=size, within=False),
        "window": lambda n, size: WindowOrder(n, 1, size=size),
    }[kind]
    for n in range(1, 24):
        for size in range(1, n + 2):
            assert_bijection_with_inverse(make(n, size), epoch=n % 5)
    for n in range(24, 5001, 19):
        assert_bijection_with_inverse(make(n, n * 7919 % n + 1 + n // 11), epoch=n % 5)


@given(
    st.integers(5001, 2**32 - 1),
    st.integers(0, 2**64),
    st.integers(0, 10**6),
    st.sampled_from(["exact", "echo", "group", "window"]),
    st.data(),
)
def test_forward_and_inverse_undo_each_other_for_any_n(n, seed, epoch, kind, data):
    """Sampled, up to the largest n there is."""
    options = {"size": data.draw(st.integers(1, n))} if kind in ("group", "window") else {}
    order = make_order(kind, n=n, seed=seed, **options)
    some = np.unique(np.append(data.draw(st.lists(st.integers(0, n - 1), max_size=40)), [0, n - 1])).astype(np.int64)
    ids = order.at(epoch, some)
    assert ((ids >= 0) & (ids < n)).all()
    assert len(np.unique(ids)) == len(some)
    assert (order.positions(epoch, ids) == some).all()
    assert (order.at(epoch, order.positions(epoch, some)) == some).all()


@given(orders(), st.integers(0, 40), st.data())
def test_a_range_equals_its_positions_one_by_one(order, epoch, data):
    """Whatever the start: blocks of the core have no seams, and resuming is asking at another position."""
    start = data.draw(st.integers(0, order.n))
    stop = data.draw(st.integers(start, order.n))
    ids = order.ids(epoch, start, stop)
    assert ids.dtype == np.int64 and len(ids) == stop - start
    assert (ids == order.ids(epoch, 0, order.n)[start:stop]).all()
    assert (ids == order.at(epoch, np.arange(start, stop))).all()
    for p in range(start, min(stop, start + 3)):
        assert order.at(epoch, [p])[0] == ids[p - start]


@settings(max_examples=40)
@given(st.integers(1, 1200), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16), st.data())
def test_the_core_equals_the_slow_obvious_version(n, key, other, data):
    """Every map of the core, value by value."""
    size = data.draw(st.integers(1, n))
    carry = data.draw(st.integers(1, n - 1)) if n > 1 else 0
    rotation = data.draw(st.integers(0, n - 1))
    slow = reference.Permutation(n, key)
    pairs = [
        (kernels.Permutation(n, key), [slow.forward(p) for p in range(n)]),
        (kernels.Groups(n, size, key, other, True), reference.groups(n, size, key, other, within=True)),
        (kernels.Groups(n, size, key, other, False), reference.groups(n, size, key, other, within=False)),
        (kernels.Windows(n, size, key, rotation), reference.windows(n, size, key, rotation)),
    ]
    if carry:
        pairs.append((kernels.Echo(n, carry, key, other), reference.echo(n, carry, key, other)))
    for fast, expected in pairs:
        found = np.empty(n, np.int64)
        fast.range(0, found)
        assert found.tolist() == expected, fast


@pytest.mark.parametrize("n", [2**20 + 1, 10**9, 2**32 - 1])
def test_the_core_equals_the_slow_obvious_version_for_large_n(n):
    """Where 32-bit arithmetic comes to its end."""
    key = derive_key(seed=5, epoch=0, purpose="test")
    slow, fast = reference.Permutation(n, key), kernels.Permutation(n, key)
    places = np.unique(np.append(np.linspace(0, n - 1, 500).astype(np.int64), [n - 2, n - 1]))
    found = np.empty(len(places), np.int64)
    assert fast.forward(places, found) == -1
    assert found.tolist() == [slow.forward(int(p)) for p in places]


@given(st.integers(1, 500), st.integers(0, 99), st.integers(1, 8), st.integers(0, 20), st.data())
def test_an_echo_begins_with_the_end_of_the_epoch_before(n, seed, restart, epoch, data):
    """The first `carry` ids of an epoch are the last of the one before, unless the chain restarts there."""
    carry = data.draw(st.integers(0, n))
    order = make_order("echo", n=n, seed=seed, carry=carry, restart=restart)
    carried = order.carried(epoch + 1)
    assert carried == (0 if (epoch + 1) % restart == 0 else carry)
    before, after = order.ids(epoch, n - carried, n), order.ids(epoch + 1, 0, carried)
    assert sorted(before) == sorted(after)


def test_what_an_echo_carries_is_reshuffled():
    """It comes in another order than it went."""
    order = make_order("echo", n=1000, seed=0)
    before, after = order.ids(2, 900, 1000), order.ids(3, 0, 100)
    assert sorted(before) == sorted(after)
    assert (before != after).sum() > 80


@given(st.integers(1, 600), st.integers(1, 80), st.integers(0, 9), st.booleans())
def test_a_group_order_shuffles_contiguous_groups(n, size, epoch, within):
    """Every group stands in one piece, the short one included; without `within` it keeps its order inside."""
    ids = make_order("group", n=n, seed=4, size=size, within=within).ids(epoch, 0, n)
    groups = ids // size
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    assert len(starts) == -(-n // size)
    for part in np.split(ids, starts[1:]):
        first = part.min() // size * size
        assert sorted(part) == list(range(first, min(first + size, n)))
        if not within:
            assert (np.diff(part) == 1).all()


def test_the_short_group_takes_any_place():
    """Over 200 seeds, the short last one of six groups stands in every slot."""
    slots = {int(make_order("group", n=53, seed=s, size=10).positions(0, [50])[0]) // 10 for s in range(200)}
    assert slots == set(range(6))


@given(st.integers(1, 600), st.integers(1, 80), st.integers(0, 9))
def test_a_window_order_goes_front_to_back_from_its_rotation(n, size, epoch):
    """Every window of positions holds the next `size` ids, round the end; only the rotation and their order vary."""
    order = make_order("window", n=n, seed=4, size=size)
    ids, rotation = order.ids(epoch, 0, n), order.rotation(epoch)
    for start in range(0, n, size):
        stop = min(start + size, n)
        assert sorted((ids[start:stop] - rotation) % n) == list(range(start, stop))


@given(orders())
def test_an_order_is_a_value(order):
    """Equal, and of equal hash, if and only if it means the same; permutations have n positions and no repeats."""
    twin = type(order)(**vars(order))
    assert twin == order and hash(twin) == hash(order)
    assert type(order)(**{**vars(order), "n": order.n + 1}) != order
    assert order.length == order.n and order.unique


def test_the_default_echo_carries_a_tenth_and_restarts_after_sixteen_epochs():
    """As documented."""
    assert make_order("echo", n=1234, seed=0) == EchoOrder(1234, 0, carry=123, restart=16)


def test_an_order_of_more_samples_than_the_core_can_count_is_refused():
    """2³²-1 is the limit; the sequential order has none."""
    for kind, options in (("exact", {}), ("echo", {}), ("group", {"size": 5}), ("window", {"size": 5})):
        assert make_order(kind, n=2**32 - 1, seed=0, **options).n == 2**32 - 1
        with pytest.raises(UnsupportedError, match=r"n=4,294,967,296 samples.*at most 4,294,967,295"):
            make_order(kind, n=2**32, seed=0, **options)
    assert make_order(False, n=2**40).ids(0, 2**40 - 1, 2**40).tolist() == [2**40 - 1]


@given(orders())
def test_asking_outside_an_epoch_is_an_error(order):
    """It names the value, and what was expected."""
    n = order.n
    for start, stop in ((-1, 0), (0, n + 1), (1, 0), (n + 1, n + 1)):
        with pytest.raises(InputError, match="keep 0 <= start <= stop"):
            order.ids(0, start, stop)
    for bad in (-1, n, 2**40):
        with pytest.raises(InputError, match=rf"position {bad} \(number 1 of 2\) is out of range: expected 0..{n - 1}"):
            order.at(0, [0, bad])
        with pytest.raises(InputError, match=rf"id {bad} \(number 1 of 2\) is out of range"):
            order.positions(0, [0, bad])
    for call in (lambda e: order.ids(e, 0, 0), lambda e: order.at(e, [0]), lambda e: order.positions(e, [0])):
        with pytest.raises(InputError, match="epoch -1: epochs count from 0"):
            call(-1)
    with pytest.raises(InputError, match="whole numbers, found dtype float64"):
        order.at(0, [0.5])
    with pytest.raises(InputError, match="flat array"):
        order.positions(0, [[0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExactOrder(0, 0), "exact order: n=0; there must be at least one"),
        (lambda: SequentialOrder(-1), "sequential order: n=-1"),
        (lambda: EchoOrder(10, 0, carry=11, restart=4), "carry=11 of n=10"),
        (lambda: EchoOrder(10, 0, carry=-1, restart=4), "carry=-1 of n=10"),
        (lambda: EchoOrder(10, 0, carry=1, restart=0), "restart=0"),
        (lambda: GroupOrder(10, 0, size=0), "size=0; a group holds at least one"),
        (lambda: WindowOrder(10, 0, size=-4), "size=-4; a window holds at least one"),
    ],
)
def test_orders_that_cannot_be_are_refused(make, message):
    """By name and value."""
    with pytest.raises(InputError, match=message):
        make()


def test_the_core_refuses_what_would_leave_its_arrays():
    """The binding checks lengths and ranges by itself."""
    core = kernels.Permutation(10, bytes(16))
    with pytest.raises(ValueError, match="leaves 0"):
        core.range(5, np.empty(6, np.int64))
    with pytest.raises(ValueError, match="leaves 0"):
        core.range(11, np.empty(0, np.int64))
    for method in (core.forward, core.inverse):
        with pytest.raises(ValueError, match="differ in length"):
            method(np.zeros(3, np.int64), np.empty(2, np.int64))
        with pytest.raises(TypeError):
            method(np.zeros(3, np.int32), np.empty(3, np.int64))
    with pytest.raises(ValueError, match="16 bytes"):
        kernels.Permutation(10, b"short")
    for impossible in (0, 2**32):
        with pytest.raises(ValueError, match="4,294,967,295"):
            kernels.Permutation(impossible, bytes(16))
