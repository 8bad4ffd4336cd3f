"""Bounds of `f(column)` from the bounds of the column, where `f` keeps order.

If `f` never decreases, then f(min) and f(max) are bounds of f over the file. That fails where an
integer wraps around, where clocks go back, where years have more than four digits in text, and
where a float is NaN; each case is checked and then gives no bounds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.arrays import MICROS_PER_SECOND, array_of, masked, numpy_values, valid_mask
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.casting import cast
from lakedex.expr.evaluate import literal_scalar
from lakedex.expr.functions import Arguments, Order, constants_of, function
from lakedex.expr.ranges import form_of
from lakedex.expr.temporal.zones import LARGEST_SHIFT, fixed_offset
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal

_DAY = 86_400
_FIRST_SECOND = -62_167_219_200 + 2 * _DAY
_LAST_SECOND = 253_402_300_799 - 2 * _DAY
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def operand_of(expr: Expr) -> Expr | None:
    """The only argument of a call or cast that is no constant; None if there are more."""
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
    """The bounds of a call or cast from those of its operand; None when they say nothing."""
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
    # A function of null is null, so all-null files stay so; nothing else is known of nulls.
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
        # An index may cover a function that is not known here; its bounds have a type.
        return None


def order_of(expr: Expr, operand: Expr, zone: str) -> Order | None:
    """How a call or cast keeps the order of its operand; None when it does not."""
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
        # Where clocks go forward, a wall-clock time inside the gap comes after its end.
        return Order() if fixed_offset(zone) is not None else None
    return Order(clock=zoned and target.tz is None)


def _cut_off(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether the bounds may have lost digits that the column has."""
    if pa.types.is_timestamp(stored):
        return _PER_SECOND[stored.unit] < _PER_SECOND[kind.unit]
    return bool(pa.types.is_decimal(stored) and stored.scale < kind.scale)


def moved_outwards(values: pa.Array, order: Order, zone: str, direction: int) -> pa.Array:
    """A bound moved outwards for clocks that go back, null outside the years that sort."""
    per_second = units_per_second(values.type)
    if order.clock and fixed_offset(zone) is None:
        shift = direction * (LARGEST_SHIFT // MICROS_PER_SECOND) * per_second
        numbers = numpy_values(values).astype(np.int64)
        # Far from the ends of the type, or else the sum would wrap.
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
    """How many units of a type of times, or of whole numbers, a second has."""
    return _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else 1


def applied(expr: Expr, values: pa.Array, zone: str) -> pa.Array:
    """What a call or cast gives for values of its operand."""
    if isinstance(expr, Cast):
        return cast(values, expr.type, time_zone=zone)
    arguments = [
        literal_scalar(argument) if isinstance(argument, Literal) else values
        for argument in getattr(expr, "arguments", ())
    ]
    name = getattr(expr, "function", "")
    return function(name).evaluate(Arguments(name, arguments, len(values), zone))
