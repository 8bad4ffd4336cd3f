"""Functions that preserve order: bounds and ranges of `f(column)` from those of the column.

If `f` never decreases, then f(min) and f(max) are bounds of f over the file. This does not hold if
an integer wraps around, if clocks go back, if years have more than four digits in text, or if a
float is NaN; each case is checked and gives no bounds.

If `f` increases from `a` to `b`, every row of `a <= x <= b` has `f(a) <= f(x) <= f(b)`. The result
always includes its ends: `x < b` does not imply `f(x) < f(b)`. If clocks go back near an end, the
end is first moved outwards.

`Order` of a function's specification states that it never decreases between two given ends. Two
tables list further properties, one entry for each function; nothing else is assumed:

* *without an end*: over all values from a given one on, or up to it. A function of this list is
  never null and never wraps around, however far away the value is. Formatted times have one
  exception: years from 10000 on begin with a plus sign, which sorts before all digits. Years before
  0 begin with a minus sign, which also sorts before all digits, as it should.
* *within a period*: months increase within one year, hours within one day, and then start again.

Integers do not need the first property: the last value of their type is an end, and if it wraps
around, as seconds do in `from_unixtime`, a range without that end proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.arrays import MICROS_PER_SECOND, array_of, masked, numpy_values, valid_mask
from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds, Form, form_of
from lakedex.expr.casting import cast
from lakedex.expr.evaluate import literal_scalar
from lakedex.expr.functions import Arguments, Order, canonical_name, constants_of, function
from lakedex.expr.time_patterns import parse_pattern
from lakedex.expr.time_zones import LARGEST_SHIFT, clear_of_changes, fixed_offset
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal

_DAY = 86_400
_FIRST_SECOND = -62_167_219_200 + 2 * _DAY
_LAST_SECOND = 253_402_300_799 - 2 * _DAY
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TIMES: Final = frozenset([Form.TIME, Form.ZONED_TIME])
_DAYS: Final = _TIMES | {Form.DATE}
_MOST_DAYS: Final = 10**9
"""The last timestamp is some 10^8 days after 1970, so the sum stays below 2^31."""
_Proof = tuple[frozenset[Form], Callable[[Call], bool]]


def operand_of(expr: Expr) -> Expr | None:
    """The only argument of a call or cast that is not a constant; None if there are more."""
    if isinstance(expr, Cast):
        return expr.child
    if not isinstance(expr, Call):
        return None
    moving = [argument for argument in expr.arguments if not isinstance(argument, Literal)]
    return moving[0] if len(moving) == 1 else None


def type_of(expr: Expr) -> pa.DataType | None:
    """The type of a bound scalar expression, as far as it is known."""
    match expr:
        case Column(_, kind) | Literal(_, kind) | Cast(_, kind):
            return kind
        case Call(name, arguments):
            types = [type_of(argument) for argument in arguments]
            return _call_type(name, types, constants_of(arguments))
        case _:
            return pa.bool_()


def carry(expr: Expr, inner: ColumnBounds, zone: str) -> ColumnBounds | None:
    """The bounds of a call or cast from those of its operand; None if they imply nothing."""
    operand = operand_of(expr)
    try:
        order = None if operand is None else order_of(expr, operand, zone)
        if operand is None or order is None:
            return None
        kind = type_of(operand)
        if kind is None or form_of(kind) is not form_of(inner.type):
            return None
        low, high = inner.minimum.cast(kind), inner.maximum.cast(kind)
        if _cut_off(inner.type, kind):
            return None
        low, high = moved_outwards(low, order, zone, -1), moved_outwards(high, order, zone, 1)
        both = valid_mask(low) & valid_mask(high) & inner.known
        low, high = masked(low, both), masked(high, both)
        minimum, maximum = (applied(expr, values, zone) for values in (low, high))
        rising = pc.fill_null(pc.less_equal(minimum, maximum), fill_value=False)
    except (LakedexError, pa.ArrowException):
        return None
    keep = rising.to_numpy(zero_copy_only=False)
    # A function of null is null, so files that are entirely null stay so; nothing else is known.
    nulls = np.where(inner.all_null, inner.null_count, -1)
    return ColumnBounds(
        minimum.type,
        masked(minimum, keep),
        masked(maximum, keep),
        nulls,
        inner.value_count,
        inner.known,
    )


def _call_type(
    name: str, types: list[pa.DataType | None], constants: list[object]
) -> pa.DataType | None:
    try:
        return None if None in types else function(name).type_of(types, constants)
    except LakedexError:
        # An index may cover a function that is not registered; its bounds have a type.
        return None


def order_of(expr: Expr, operand: Expr, zone: str) -> Order | None:
    """How a call or cast preserves the order of its operand; None if it does not."""
    if isinstance(expr, Cast):
        source = type_of(operand)
        return None if source is None else _cast_order(source, expr.type, zone)
    if not isinstance(expr, Call):
        return None
    types = [type_of(argument) for argument in expr.arguments]
    if None in types:
        return None
    spec = function(expr.function)
    spec.check_arity(len(types))
    return spec.order(types, constants_of(expr.arguments))


def _cast_order(source: pa.DataType, target: pa.DataType, zone: str) -> Order | None:
    if pa.types.is_timestamp(source):
        return _timestamp_order(source, target, zone)
    to_integer = pa.types.is_integer(target)
    to_float = pa.types.is_floating(target)
    if pa.types.is_integer(source):
        wider = to_integer and target.bit_width >= source.bit_width
        keeps = wider or to_float or pa.types.is_decimal(target)
    elif pa.types.is_decimal(source):
        keeps = to_float or pa.types.is_decimal(target)
    elif pa.types.is_date(source):
        keeps = pa.types.is_timestamp(target)
    else:
        keeps = pa.types.is_floating(source) and to_float
    return Order() if keeps else None


def _timestamp_order(source: pa.DataType, target: pa.DataType, zone: str) -> Order | None:
    zoned = source.tz is not None
    if pa.types.is_date(target):
        return Order(clock=zoned)
    if not pa.types.is_timestamp(target):
        return Order() if target == pa.int64() else None
    if not zoned and target.tz is not None:
        # If clocks go forward, a wall-clock time inside the gap comes after its end.
        return Order() if fixed_offset(zone) is not None else None
    return Order(clock=zoned and target.tz is None)


def _cut_off(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether the bounds may lack digits that the column has."""
    if pa.types.is_timestamp(stored):
        return _PER_SECOND[stored.unit] < _PER_SECOND[kind.unit]
    return bool(pa.types.is_decimal(stored) and stored.scale < kind.scale)


def moved_outwards(values: pa.Array, order: Order, zone: str, direction: int) -> pa.Array:
    """A bound, moved outwards if clocks go back; null outside the years that sort as text."""
    per_second = units_per_second(values.type)
    if order.clock and fixed_offset(zone) is None:
        shift = direction * (LARGEST_SHIFT // MICROS_PER_SECOND) * per_second
        numbers = numpy_values(values).astype(np.int64)
        # Only values far from the ends of the type, because the sum would wrap.
        safe = np.abs(numbers) < np.iinfo(np.int64).max - abs(shift)
        moved = np.where(safe, numbers + shift, 0)
        values = array_of(moved, valid_mask(values) & safe, values.type)
    if not order.years:
        return values
    seconds = numpy_values(values) // per_second
    if pa.types.is_date(values.type):
        seconds = numpy_values(values).astype(np.int64) * _DAY
    return masked(values, (seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND))


def units_per_second(kind: pa.DataType) -> int:
    """The number of units in a second, for a timestamp type or integers."""
    return _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else 1


def applied(expr: Expr, values: pa.Array, zone: str) -> pa.Array:
    """The result of a call or cast for values of its operand."""
    if isinstance(expr, Cast):
        return cast(values, expr.type, time_zone=zone)
    arguments = [
        literal_scalar(argument) if isinstance(argument, Literal) else values
        for argument in getattr(expr, "arguments", ())
    ]
    name = getattr(expr, "function", "")
    return function(name).evaluate(Arguments(name, arguments, len(values), zone))


def _few_days(call: Call) -> bool:
    days = call.arguments[1]
    return (
        isinstance(days, Literal) and isinstance(days.value, int) and abs(days.value) < _MOST_DAYS
    )


def _always(_call: Call) -> bool:
    return True


def _unit(name: str) -> Literal:
    return Literal(name, pa.string())


_WITHOUT_END: Final[dict[str, _Proof]] = {
    "date": (_DAYS, _always),
    "date_add": (_TIMES, _few_days),
    "date_format": (_DAYS, _always),
    "date_sub": (_TIMES, _few_days),
    "left": (frozenset([Form.TEXT]), _always),
    "substring": (frozenset([Form.TEXT]), _always),
    "to_date": (_DAYS, _always),
    "to_timestamp": (frozenset([Form.ZONED_TIME]), _always),
    "unix_timestamp": (frozenset([Form.ZONED_TIME]), _always),
    "year": (_DAYS, _always),
}
_PERIODS: Final[dict[str, Callable[[Expr], Call]]] = {
    "dayofmonth": lambda operand: Call("trunc", (operand, _unit("month"))),
    "dayofyear": lambda operand: Call("year", (operand,)),
    "hour": lambda operand: Call("to_date", (operand,)),
    "minute": lambda operand: Call("date_trunc", (_unit("hour"), operand)),
    "month": lambda operand: Call("year", (operand,)),
    "quarter": lambda operand: Call("year", (operand,)),
    "second": lambda operand: Call("date_trunc", (_unit("minute"), operand)),
    "weekday": lambda operand: Call("trunc", (operand, _unit("week"))),
}


def rises_without_end(expr: Expr, form: Form | None) -> bool:
    """Whether an expression that preserves order does so up to any value of its operand.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> rises_without_end(Call("year", (Column(("ts",)),)), Form.ZONED_TIME)
        True
        >>> rises_without_end(Call("from_unixtime", (Column(("n",)),)), Form.INTEGER)
        False
    """
    if isinstance(expr, Cast):
        return form in _TIMES and (pa.types.is_date(expr.type) or expr.type == pa.int64())
    if not isinstance(expr, Call):
        return False
    forms, holds = _WITHOUT_END.get(canonical_name(expr.function), (frozenset(), _always))
    return form in forms and holds(expr)


def far_years(expr: Expr) -> str | None:
    """The first character of the years that sort before all others; None if there are none.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> far_years(Call("date_format", (Column(("ts",)), Literal("yyyy-MM"))))
        '+'
    """
    if not isinstance(expr, Call) or canonical_name(expr.function) != "date_format":
        return None
    pattern = expr.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    leading = takewhile(lambda token: isinstance(token, str), parse_pattern(pattern.value))
    return "".join([*map(str, leading), "+"])


def period_of(expr: Expr, operand: Expr) -> Call | None:
    """The period that must be equal at both ends for the expression to increase between them.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> ts = Column(("ts",))
        >>> period_of(Call("month", (ts,)), ts).function
        'year'
    """
    if not isinstance(expr, Call):
        return None
    period = _PERIODS.get(canonical_name(expr.function))
    return None if period is None else period(operand)


@dataclass(frozen=True, slots=True)
class Interval:
    """The values from `low` to `high`, both included; None means no such end."""

    type: pa.DataType
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    beside: str | None = None
    """Strings that start with it are also in the interval."""

    @property
    def is_everything(self) -> bool:
        """Whether it has no ends."""
        return self.low is None and self.high is None

    def meet(self, other: Interval) -> Interval:
        """The intersection of two intervals of a column, whose `beside` is None."""
        return replace(
            self,
            low=_inner(self.low, other.low, largest=True),
            high=_inner(self.high, other.high, largest=False),
        )


def image(expr: Expr, interval: Interval, zone: str) -> Interval | None:
    """An interval that contains `expr` if its column is in `interval`; None if none is proved.

    Args:
        expr: A bound expression of one column.
        interval: An interval of the type of that column.
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
    """The image from both ends; for integers the last value of the type is an end."""
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
    # If integers wrap around, the larger end becomes the smaller one.
    is_whole = found.low is not None and found.high is not None
    return found if is_whole and pc.less_equal(found.low, found.high).as_py() else None


def _is_one(found: Interval) -> bool:
    return found.low is not None and found.low == found.high


def _one_end(expr: Expr, operand: Expr, inner: Interval, zone: str) -> Interval | None:
    """The image from each existing end, if a distant end would not change the result."""
    order = order_of(expr, operand, zone)
    if order is None or not rises_without_end(expr, form_of(inner.type)):
        return None
    found = _ends(expr, order, inner, zone)
    if found.is_everything or found.low is None or not order.years:
        return None if found.is_everything else found
    return replace(found, beside=far_years(expr))


def _ends(expr: Expr, order: Order, inner: Interval, zone: str) -> Interval:
    """The results of the expression at the ends, moved outwards if clocks go back near them."""
    low, high = (
        None if end is None else _at_end(expr, order, end, zone, direction)
        for end, direction in ((inner.low, 1), (inner.high, -1))
    )
    return Interval(bound_type(expr), low, high)


def _at_end(expr: Expr, order: Order, end: pa.Scalar, zone: str, inwards: int) -> pa.Scalar | None:
    if order.clock:
        if pa.types.is_timestamp(end.type) and end.type.tz is None:
            # Forward changes of the clocks are not searched.
            return None
        end, order = _clear_of_changes(end, zone, inwards), replace(order, clock=False)
    result = applied(expr, moved_outwards(_one(end), order, zone, -inwards), zone)[0]
    return result if result.is_valid else None


def _clear_of_changes(end: pa.Scalar, zone: str, inwards: int) -> pa.Scalar:
    """The end, moved outwards if clocks go back near it."""
    per_second = units_per_second(end.type)
    count = end.cast(pa.int64()).as_py()
    micros = count * MICROS_PER_SECOND // per_second
    moved = clear_of_changes(micros, zone, inwards) - micros
    # Round a low end down and a high end up.
    steps = moved * inwards * per_second // MICROS_PER_SECOND * inwards
    return pa.scalar(count + steps, pa.int64()).cast(end.type)


def _one(end: pa.Scalar) -> pa.Array:
    return pa.repeat(end, 1)


def _last(kind: pa.DataType, side: str) -> pa.Scalar | None:
    """The last value of an integer type."""
    if not pa.types.is_signed_integer(kind):
        return None
    return pa.scalar(int(getattr(np.iinfo(kind.to_pandas_dtype()), side)), kind)


def _inner(one: pa.Scalar | None, other: pa.Scalar | None, *, largest: bool) -> pa.Scalar | None:
    if one is None or other is None:
        return other if one is None else one
    is_first = pc.greater_equal(one, other).as_py() is largest
    return one if is_first else other
