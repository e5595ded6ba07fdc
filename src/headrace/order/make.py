"""Which order did the user ask for?

`shuffle=` takes True, False, a name with options, or an order made elsewhere; a saved plan holds a spec. Both become an
`Order` here and nowhere else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import InputError, StateError
from headrace.order.base import Order
from headrace.order.given import given_order
from headrace.order.keyed import EchoOrder, ExactOrder, GroupOrder, SequentialOrder, WindowOrder
from headrace.order.keys import as_seed

_DEFAULT_RESTART = 16


def make_order(kind: Any = True, *, n: int, seed: int = 0, **options: Any) -> Order:
    """The order that `kind` names.

    True is "exact", False and None are "sequential"; names take options: echo (carry=n//10, restart=16), group (size,
    within=True), window (size). An array, a function epoch -> ids, or a sampler is taken as given (unique=None). An
    Order is returned as it is.
    """
    count = _whole("n", n)
    if isinstance(kind, Order):
        _refuse(options, "an order that is already made", ())
        if kind.n != count:
            raise InputError(f"{kind.name} order of n={kind.n} samples, but there are {count}: make it with n={count}")
        return kind
    if kind is None or isinstance(kind, bool):
        kind = "exact" if kind else "sequential"
    if not isinstance(kind, str):
        _refuse(options, "a given order", ("unique",))
        return given_order(kind, n=count, unique=options.get("unique"))
    if kind not in _KINDS:
        raise InputError(f"shuffle={kind!r}: no such order; expected one of {', '.join(sorted(_KINDS))}")
    build, allowed, required = _KINDS[kind]
    _refuse(options, f"the {kind} order", allowed)
    for key in required:
        if options.get(key) is None:
            raise InputError(f"the {kind} order needs {key}=: how many samples a {kind} holds")
    return build(count, as_seed(seed), options)


def order_from_spec(spec: Mapping[str, Any], *, given: Any = None) -> Order:
    """The order that `spec()` described. A given order is not in its spec: pass it again, and it is compared."""
    fields = dict(spec)
    kind = fields.pop("kind", None)
    if kind == "given":
        return _given_again(spec, given)
    if kind not in _KINDS:
        raise StateError(f"the saved order is of kind {kind!r}, which is none of {', '.join(sorted(_KINDS))}, given")
    try:
        order = make_order(kind, **fields)
    except (InputError, TypeError) as error:
        raise StateError(f"the saved order {dict(spec)!r} cannot be rebuilt: {error}") from error
    if order.spec() != dict(spec):
        raise StateError(f"the saved order {dict(spec)!r} is incomplete: it would become {order.spec()!r}")
    return order


def _given_again(spec: Mapping[str, Any], given: Any) -> Order:
    if given is None:
        raise StateError(
            f"the saved order was given as {spec.get('source')!r} and only its digest was saved "
            f"({spec.get('digest')}): pass the same array, function or sampler again"
        )
    order = given_order(given, n=int(spec["n"]), unique=bool(spec["unique"]))
    if order.spec() != dict(spec):
        raise StateError(f"another order than the saved one: saved {dict(spec)!r}, found {order.spec()!r}")
    return order


def _sequential(n: int, seed: int, options: dict[str, Any]) -> Order:
    return SequentialOrder(n)


def _exact(n: int, seed: int, options: dict[str, Any]) -> Order:
    return ExactOrder(n, seed)


def _echo(n: int, seed: int, options: dict[str, Any]) -> Order:
    carry, restart = options.get("carry"), options.get("restart")
    return EchoOrder(
        n,
        seed,
        carry=n // 10 if carry is None else _whole("carry", carry),
        restart=_DEFAULT_RESTART if restart is None else _whole("restart", restart),
    )


def _group(n: int, seed: int, options: dict[str, Any]) -> Order:
    within = options.get("within", True)
    if not isinstance(within, bool):
        raise InputError(f"group order: within={within!r}; expected True or False")
    return GroupOrder(n, seed, size=_whole("size", options["size"]), within=within)


def _window(n: int, seed: int, options: dict[str, Any]) -> Order:
    return WindowOrder(n, seed, size=_whole("size", options["size"]))


_Build = Callable[[int, int, dict[str, Any]], Order]
_KINDS: dict[str, tuple[_Build, tuple[str, ...], tuple[str, ...]]] = {
    "sequential": (_sequential, (), ()),
    "exact": (_exact, (), ()),
    "echo": (_echo, ("carry", "restart"), ()),
    "group": (_group, ("size", "within"), ("size",)),
    "window": (_window, ("size",), ("size",)),
}


def _refuse(options: Mapping[str, Any], what: str, allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise InputError(f"{what} has no option {', '.join(unknown)}; {takes}")


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InputError(f"{name}={value!r}: expected a whole number, found {type(value).__name__}")
