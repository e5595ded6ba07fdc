"""In what order? Functions (epoch, position) -> sample id, and their inverses."""

from headrace.order.base import Order
from headrace.order.given import GivenOrder, given_order
from headrace.order.keyed import EchoOrder, ExactOrder, GroupOrder, SequentialOrder, WindowOrder
from headrace.order.make import make_order, order_from_spec

__all__ = [
    "EchoOrder",
    "ExactOrder",
    "GivenOrder",
    "GroupOrder",
    "Order",
    "SequentialOrder",
    "WindowOrder",
    "given_order",
    "make_order",
    "order_from_spec",
]
