"""What an expression gives over a range of its column, where that is a range again.

With `f` rising from `a` to `b`, every row of `a <= x <= b` has `f(a) <= f(x) <= f(b)`. The ends
of the result belong to it always: `x < b` does not make `f(x) < f(b)`. Where clocks go back
near an end it is moved outwards first (see `carried`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.arrays import MICROS_PER_SECOND
from lakedex.expr.bind import bound_type
from lakedex.expr.carried import (
    applied,
    moved_outwards,
    operand_of,
    order_of,
    units_per_second,
)
from lakedex.expr.functions import Order
from lakedex.expr.monotone import far_years, period_of, rises_without_end
from lakedex.expr.ranges import form_of
from lakedex.expr.temporal.zones import clear_of_changes
from lakedex.expr.tree import Column, Expr


@dataclass(frozen=True, slots=True)
class Interval:
    """The values from `low` to `high`, both among them; None where there is no such end."""

    type: pa.DataType
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    beside: str | None = None
    """Texts that begin so are among the values too."""

    @property
    def is_everything(self) -> bool:
        """Whether it has no end at all."""
        return self.low is None and self.high is None

    def meet(self, other: Interval) -> Interval:
        """The values that are in both; of intervals of a column, which have nothing beside."""
        return replace(
            self,
            low=_inner(self.low, other.low, largest=True),
            high=_inner(self.high, other.high, largest=False),
        )


def image(expr: Expr, interval: Interval, zone: str) -> Interval | None:
    """An interval that holds `expr` wherever its column is in `interval`; None if none is proved.

    Args:
        expr: Bound, of one column.
        interval: Of the type of that column.
        zone: The time zone in which the expression is computed.

    Example:
        >>> from lakedex.expr.tree import Call
        >>> day = Column(("d",), pa.date32())
        >>> first = pa.scalar(0, pa.int32()).cast(pa.date32())
        >>> image(Call("year", (day,)), Interval(pa.date32(), first, first), "UTC").high.as_py()
        1970
        >>> image(Call("month", (day,)), Interval(pa.date32(), first), "UTC")
    """
    if isinstance(expr, Column):
        return interval
    operand = operand_of(expr)
    inner = None if operand is None else image(operand, interval, zone)
    if operand is None or inner is None or inner.is_everything or inner.beside is not None:
        return None
    try:
        return _between(expr, operand, inner, zone) or _one_end(expr, operand, inner, zone)
    except (LakedexError, pa.ArrowException, OverflowError, ValueError):
        return None


def _between(expr: Expr, operand: Expr, inner: Interval, zone: str) -> Interval | None:
    """From both ends; of whole numbers the last value of the type is an end."""
    low = _last(inner.type, "min") if inner.low is None else inner.low
    high = _last(inner.type, "max") if inner.high is None else inner.high
    if low is None or high is None or not pc.less_equal(low, high).as_py():
        return None
    ends = replace(inner, low=low, high=high)
    order = order_of(expr, operand, zone)
    if order is None:
        period = period_of(expr, operand)
        order = None if period is None else order_of(period, operand, zone)
        if period is None or order is None or not _is_one(_ends(period, order, ends, zone)):
            return None
    found = _ends(expr, order, ends, zone)
    # Where whole numbers wrap around, the larger end becomes the smaller one.
    is_whole = found.low is not None and found.high is not None
    return found if is_whole and pc.less_equal(found.low, found.high).as_py() else None


def _is_one(found: Interval) -> bool:
    return found.low is not None and found.low == found.high


def _one_end(expr: Expr, operand: Expr, inner: Interval, zone: str) -> Interval | None:
    """From each end that there is, where a far end would change nothing."""
    order = order_of(expr, operand, zone)
    if order is None or not rises_without_end(expr, form_of(inner.type)):
        return None
    found = _ends(expr, order, inner, zone)
    if found.is_everything or found.low is None or not order.years:
        return None if found.is_everything else found
    return replace(found, beside=far_years(expr))


def _ends(expr: Expr, order: Order, inner: Interval, zone: str) -> Interval:
    """What the expression gives at the ends, moved outwards where clocks go back near them."""
    low, high = (
        None if end is None else _at_end(expr, order, end, zone, direction)
        for end, direction in ((inner.low, 1), (inner.high, -1))
    )
    return Interval(bound_type(expr), low, high)


def _at_end(expr: Expr, order: Order, end: pa.Scalar, zone: str, inwards: int) -> pa.Scalar | None:
    if order.clock:
        if pa.types.is_timestamp(end.type) and end.type.tz is None:
            # Where clocks go forward is not looked for.
            return None
        end, order = _clear_of_changes(end, zone, inwards), replace(order, clock=False)
    result = applied(expr, moved_outwards(_one(end), order, zone, -inwards), zone)[0]
    return result if result.is_valid else None


def _clear_of_changes(end: pa.Scalar, zone: str, inwards: int) -> pa.Scalar:
    """The end moved outwards where clocks go back near it."""
    per_second = units_per_second(end.type)
    count = end.cast(pa.int64()).as_py()
    micros = count * MICROS_PER_SECOND // per_second
    moved = clear_of_changes(micros, zone, inwards) - micros
    # Down for a low end, up for a high one.
    steps = moved * inwards * per_second // MICROS_PER_SECOND * inwards
    return pa.scalar(count + steps, pa.int64()).cast(end.type)


def _one(end: pa.Scalar) -> pa.Array:
    return pa.repeat(end, 1)


def _last(kind: pa.DataType, side: str) -> pa.Scalar | None:
    """The last value of a type of whole numbers."""
    if not pa.types.is_signed_integer(kind):
        return None
    return pa.scalar(int(getattr(np.iinfo(kind.to_pandas_dtype()), side)), kind)


def _inner(one: pa.Scalar | None, other: pa.Scalar | None, *, largest: bool) -> pa.Scalar | None:
    if one is None or other is None:
        return other if one is None else one
    is_first = pc.greater_equal(one, other).as_py() is largest
    return one if is_first else other
