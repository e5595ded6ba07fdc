"""Does what the user writes become the order that they mean, and does a saved one come back?"""

from __future__ import annotations

import json

import numpy as np
import order_golden
import pytest

from headrace.errors import InputError, StateError
from headrace.order import EchoOrder, ExactOrder, GroupOrder, SequentialOrder, WindowOrder, make_order, order_from_spec

EVERY_KIND = [
    ExactOrder(100, -3),
    SequentialOrder(100),
    EchoOrder(100, 2**80, carry=7, restart=4),
    GroupOrder(100, 5, size=9, within=False),
    WindowOrder(100, 5, size=200),
]


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        (True, {}, ExactOrder(50, 3)),
        ("exact", {}, ExactOrder(50, 3)),
        (False, {}, SequentialOrder(50)),
        (None, {}, SequentialOrder(50)),
        ("sequential", {}, SequentialOrder(50)),
        ("echo", {}, EchoOrder(50, 3, carry=5, restart=16)),
        ("echo", {"carry": 0, "restart": 2}, EchoOrder(50, 3, carry=0, restart=2)),
        ("group", {"size": np.int32(8)}, GroupOrder(50, 3, size=8, within=True)),
        ("group", {"size": 8, "within": False}, GroupOrder(50, 3, size=8, within=False)),
        ("window", {"size": 8}, WindowOrder(50, 3, size=8)),
        (ExactOrder(50, 99), {}, ExactOrder(50, 99)),
    ],
)
def test_what_the_user_writes_is_the_order_they_get(kind, options, expected):
    """NumPy's integers are integers."""
    order = make_order(kind, n=np.int64(50), seed=np.uint8(3), **options)
    assert order == expected
    assert json.loads(json.dumps(order.spec())) == order.spec()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("shuffled", {}, "shuffle='shuffled': no such order; expected one of echo, exact, group, sequential, window"),
        ("exact", {"size": 4}, "the exact order has no option size; it takes none"),
        ("echo", {"carri": 4}, "the echo order has no option carri; it takes carry, restart"),
        ("group", {}, "the group order needs size=: how many samples a group holds"),
        ("window", {"size": None}, "the window order needs size="),
        ("window", {"size": 2.5}, "size=2.5: expected a whole number, found float"),
        ("group", {"size": True}, "size=True: expected a whole number, found bool"),
        ("group", {"size": 4, "within": 1}, "within=1; expected True or False"),
        ([0, 1], {"size": 4}, "a given order has no option size; it takes unique"),
        (ExactOrder(50, 0), {"size": 4}, "an order that is already made has no option size"),
        (ExactOrder(51, 0), {}, "exact order of n=51 samples, but there are 50"),
    ],
)
def test_options_that_do_not_fit_are_refused(kind, options, message):
    """A misspelt option is never ignored."""
    with pytest.raises(InputError, match=message):
        make_order(kind, n=50, seed=0, **options)


def test_a_seed_is_a_whole_number():
    """Nothing else is guessed at."""
    with pytest.raises(InputError, match=r"seed=1.5: expected a whole number, found float"):
        make_order(True, n=5, seed=1.5)
    with pytest.raises(InputError, match="n='5': expected a whole number, found str"):
        make_order(True, n="5", seed=1)


@pytest.mark.parametrize("order", EVERY_KIND, ids=lambda o: o.name)
def test_a_saved_order_comes_back(order):
    """Through JSON, as an equal value with equal ids."""
    again = order_from_spec(json.loads(json.dumps(order.spec())))
    assert again == order and again.spec() == order.spec()
    assert (again.ids(9, 0, 100) == order.ids(9, 0, 100)).all()


@pytest.mark.parametrize("order", EVERY_KIND, ids=lambda o: o.name)
def test_a_damaged_spec_is_refused(order):
    """Missing, additional and impossible entries."""
    spec = order.spec()
    for key in spec:
        with pytest.raises(StateError, match="saved order"):
            order_from_spec({k: v for k, v in spec.items() if k != key})
    for damage in ({"colour": 1}, {"n": 0}, {"n": "many"}, {"kind": "unheard"}):
        with pytest.raises(StateError, match="saved order"):
            order_from_spec({**spec, **damage})


def test_a_given_order_comes_back_with_its_array_only():
    """The spec has its digest: the same array is recognised, another one refused."""
    spec = json.loads(json.dumps(make_order([2, 0, 1], n=3).spec()))
    with pytest.raises(StateError, match=r"only its digest was saved .*pass the same array"):
        order_from_spec(spec)
    assert order_from_spec(spec, given=np.array([2, 0, 1])).ids(0, 0, 3).tolist() == [2, 0, 1]
    with pytest.raises(StateError, match="another order than the saved one"):
        order_from_spec(spec, given=[2, 1, 0])
    with pytest.raises(StateError, match="another order than the saved one"):
        order_from_spec(spec, given=lambda epoch: [2, 0, 1])


def test_the_orders_are_those_of_the_first_release():
    """A state saved by any version means the same samples in every other (golden.json)."""
    golden = json.loads(order_golden.PATH.read_text())
    assert [entry["spec"] for entry in golden] == order_golden.SPECS
    for entry in golden:
        assert order_golden.golden_of(entry["spec"]) == entry
