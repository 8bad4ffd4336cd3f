"""Comparison of two constants, as Spark compares: NaN equals NaN and is above all other floats."""

from __future__ import annotations

import math
from typing import Any

from lakedex.expr.tree import Literal, Op


def fold_compare(op: Op, left: Literal, right: Literal) -> bool | None:
    """The truth of a comparison of constants of one type; None is null.

    Example:
        >>> fold_compare(Op.GT, Literal(float("nan")), Literal(1.0))
        True
    """
    if op is Op.EQ_NULL_SAFE and None in (left.value, right.value):
        return left.value is right.value
    if left.value is None or right.value is None:
        return None
    one, other = order_key(left.value), order_key(right.value)
    match op:
        case Op.EQ | Op.EQ_NULL_SAFE:
            return bool(one == other)
        case Op.NE:
            return bool(one != other)
        case Op.LT:
            return bool(one < other)
        case Op.LTE:
            return bool(one <= other)
        case Op.GT:
            return bool(one > other)
        case _:
            return bool(one >= other)


def fold_in(child: Literal, values: tuple[Literal, ...]) -> bool | None:
    """The truth of membership of a constant; None is null."""
    results = [fold_compare(Op.EQ, child, value) for value in values]
    return True if True in results else None if None in results else False


def order_key(value: Any) -> Any:  # noqa: ANN401
    """A key that orders non-null values of one type as Spark does; equal values share one key.

    Example:
        >>> order_key(float("nan")) > order_key(math.inf), order_key("é") > order_key("z")
        (True, True)
    """
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
