"""Conversion of `CAST(x AS wide) op constant` into a comparison of `x`, if that is exact.

Statistics and keys are stored in the type of the raw column, so they cannot be used for a cast of
the column. If the cast preserves order and loses nothing, the constant is converted to the column's
type instead: it is rounded down if it is between two values, or is outside of all of them. A
comparison that can never be true (or never be false) stays null for null rows:
`never(x)` is `x IS NULL AND NULL`, `always(x)` is `x IS NOT NULL OR NULL`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
import pyarrow as pa

from lakedex.expr.coercion import Family, family
from lakedex.expr.literal_cast import local_time, midnight, zone_of
from lakedex.expr.tree import (
    FALSE,
    NULL,
    And,
    Cast,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Op,
    Or,
)

_CONTEXT = Context(prec=1000, Emax=999999, Emin=-999999)
_MARGIN = timedelta(days=3)
_UNIT_STEPS = {"s": 1_000_000, "ms": 1000, "us": 1}


@dataclass(frozen=True, slots=True)
class Floor:
    """The greatest value of a type that is not above a constant.

    `side` is -1 if the constant is below every value of the type, 1 if it is above, else 0.
    """

    value: object = None
    exact: bool = False
    side: int = 0


def never(expr: Expr) -> Expr:
    """False, or null if `expr` is null."""
    return And((IsNull(expr), NULL))


def always(expr: Expr) -> Expr:
    """True, or null if `expr` is null."""
    return Or((IsNotNull(expr), NULL))


def keeps_order(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast loses nothing, preserves order, and is the same in Arrow and in Spark.

    Example:
        >>> keeps_order(pa.int32(), pa.int64()), keeps_order(pa.int64(), pa.int32())
        (True, False)
    """
    if source == target:
        return True
    match family(source), family(target):
        case Family.INTEGER, Family.INTEGER:
            return bool(source.bit_width <= target.bit_width)
        case Family.INTEGER, Family.FLOAT:
            return bool(source.bit_width < (24 if target == pa.float32() else 53))
        case Family.FLOAT, Family.FLOAT:
            return bool(target == pa.float64())
        case Family.STRING, Family.STRING:
            return True
        case Family.DATE, Family.TIMESTAMP_NTZ:
            return True
        case _:
            return False


def unwrap_compare(op: Op, cast: Cast, literal: Literal, source: pa.DataType, zone: str) -> Expr:
    """`cast op literal` without the cast if that is exact, else unchanged.

    Args:
        op: The operator.
        cast: The left side, whose child has the type `source`.
        literal: The right side, of the cast's type.
        source: The type of the cast's child.
        zone: The session's time zone.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> wide = Cast(Column(("a",), pa.int32()), pa.float64())
        >>> unwrap_compare(Op.GT, wide, Literal(2.5, pa.float64()), pa.int32(), "UTC").right.value
        2
    """
    floor = None if literal.value is None else _floor(literal.value, source, cast.type, zone)
    if floor is None:
        return Compare(op, cast, literal)
    child = cast.child
    if floor.exact:
        return Compare(op, child, Literal(floor.value, source))
    if op is Op.EQ_NULL_SAFE:
        return FALSE
    if op in (Op.EQ, Op.NE):
        return never(child) if op is Op.EQ else always(child)
    upward = op in (Op.GT, Op.GTE)
    if floor.side:
        return always(child) if (floor.side < 0) == upward else never(child)
    return Compare(Op.GT if upward else Op.LTE, child, Literal(floor.value, source))


def unwrap_in(child: Cast, values: tuple[Literal, ...], source: pa.DataType, zone: str) -> Expr:
    """`cast IN (values)` without the cast if that is exact, else unchanged."""
    kept: list[Literal] = []
    for literal in values:
        if literal.value is None:
            kept.append(Literal(None, source))
            continue
        floor = _floor(literal.value, source, child.type, zone)
        if floor is None:
            return In(child, values)
        if floor.exact:
            kept.append(Literal(floor.value, source))
    return In(child.child, tuple(kept)) if kept else never(child.child)


def _floor(value: object, source: pa.DataType, target: pa.DataType, zone: str) -> Floor | None:
    find = _FLOORS.get((family(source), family(target)))
    return None if find is None else find(value, source, target, zone)


def _integer_floor(
    value: object, source: pa.DataType, target: pa.DataType, _z: str
) -> Floor | None:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return Floor(side=-1 if value < 0 else 1)
        # Below this bound a float type holds every integer, so no two values become equal.
        digits = 24 if target == pa.float32() else 53
        if source.bit_width > digits and abs(value) >= 1 << digits:
            return None
    elif not _holds_integers(source, target):
        return None
    whole = math.floor(value)
    bound = 1 << (source.bit_width - 1)
    if not -bound <= whole < bound:
        return Floor(side=-1 if whole < 0 else 1)
    return Floor(whole, exact=whole == value)


def _holds_integers(source: pa.DataType, target: pa.DataType) -> bool:
    if family(target) is Family.INTEGER:
        return bool(target.bit_width >= source.bit_width)
    digits = {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width]
    return bool(target.precision - target.scale >= digits)


def _decimal_floor(
    value: object, source: pa.DataType, target: pa.DataType, _z: str
) -> Floor | None:
    widens = (
        target.scale >= source.scale
        and target.precision - target.scale >= source.precision - source.scale
    )
    if not isinstance(value, Decimal) or not widens:
        return None
    step = Decimal(1).scaleb(-source.scale, _CONTEXT)
    rounded = value.quantize(step, ROUND_FLOOR, _CONTEXT)
    if rounded.copy_abs() >= Decimal(1).scaleb(source.precision - source.scale, _CONTEXT):
        return Floor(side=-1 if rounded < 0 else 1)
    return Floor(rounded, exact=rounded == value)


def _float_floor(value: object, source: pa.DataType, target: pa.DataType, _z: str) -> Floor | None:
    if not isinstance(value, float) or (source, target) != (pa.float32(), pa.float64()):
        return None
    if math.isnan(value):
        return Floor(value, exact=True)
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(value)
        below = near if float(near) <= value else np.nextafter(near, np.float32("-inf"))
    return Floor(float(below), exact=float(below) == value)


def _date_floor(value: object, _s: pa.DataType, target: pa.DataType, zone: str) -> Floor | None:
    if not isinstance(value, datetime):
        return None
    if target.tz is None:
        day = value.date()
        return Floor(day, exact=datetime.combine(day, time.min) == value)
    session = zone_of(zone)
    day = local_time(value, session).date()
    if not date.min + _MARGIN < day < date.max - _MARGIN:
        return None
    # Near midnight a change of the clocks can give a date before its day begins, or again after it.
    while midnight(day, session) > value:
        day -= timedelta(days=1)
    while midnight(day + timedelta(days=1), session) <= value:
        day += timedelta(days=1)
    return Floor(day, exact=midnight(day, session) == value)


def _stamp_floor(
    value: object, source: pa.DataType, target: pa.DataType, zone: str
) -> Floor | None:
    step = _UNIT_STEPS.get(source.unit)
    if not isinstance(value, datetime) or step is None:
        return None
    if source.tz is None and target.tz is not None:
        if zone_of(zone) is not UTC:
            return None
        value = value.astimezone(UTC).replace(tzinfo=None)
    elif (source.tz is None) != (target.tz is None) or _UNIT_STEPS.get(target.unit, 1) > step:
        return None
    cut = value.replace(microsecond=value.microsecond // step * step)
    return Floor(cut, exact=cut == value)


def _text_floor(value: object, _s: pa.DataType, _target: pa.DataType, _zone: str) -> Floor | None:
    if not isinstance(value, bytes):
        return None
    try:
        return Floor(value.decode(), exact=True)
    except UnicodeDecodeError:
        return None


_FLOORS: dict[
    tuple[Family, Family], Callable[[object, pa.DataType, pa.DataType, str], Floor | None]
] = {
    (Family.INTEGER, Family.INTEGER): _integer_floor,
    (Family.INTEGER, Family.DECIMAL): _integer_floor,
    (Family.INTEGER, Family.FLOAT): _integer_floor,
    (Family.DECIMAL, Family.DECIMAL): _decimal_floor,
    (Family.FLOAT, Family.FLOAT): _float_floor,
    (Family.DATE, Family.TIMESTAMP): _date_floor,
    (Family.DATE, Family.TIMESTAMP_NTZ): _date_floor,
    (Family.TIMESTAMP, Family.TIMESTAMP): _stamp_floor,
    (Family.TIMESTAMP_NTZ, Family.TIMESTAMP_NTZ): _stamp_floor,
    (Family.TIMESTAMP_NTZ, Family.TIMESTAMP): _stamp_floor,
    (Family.STRING, Family.BINARY): _text_floor,
}
