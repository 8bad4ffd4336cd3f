"""CAST of a constant while planning, by the rules of Spark 3.5 without ANSI mode.

Values that cannot be converted become null. Integers wrap around, floats saturate, decimals round
half up. If Spark's result cannot be represented or reproduced, `InvalidInput` names an alternative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr import spark_text
from lakedex.expr.coercion import Family, family
from lakedex.expr.tree import Literal
from lakedex.schema.hudi_types import type_name

_CONTEXT = Context(prec=1000, Emax=999999, Emin=-999999)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def cast_literal(literal: Literal, target: pa.DataType, time_zone: str) -> Literal:
    """The literal in another type.

    Example:
        >>> cast_literal(Literal("5.7", pa.string()), pa.int32(), "UTC").value
        5
    """
    value = literal.value
    if value is None or literal.type == target:
        return Literal(value, target)
    convert = _CONVERTERS.get(family(target))
    if convert is None:
        raise InvalidInput(f"cannot cast a constant to {type_name(target)}")
    result = convert(value, target, time_zone)
    if result is NotImplemented:
        raise InvalidInput(f"cannot cast {value!r} to {type_name(target)}; write it in that type")
    return Literal(result, target)


def typed_literal(literal: Literal) -> Literal:
    """A literal with a type: its own, or the one of its Python value.

    Example:
        >>> typed_literal(Literal(3)).type
        DataType(int32)
    """
    if literal.type is not None:
        return literal
    value = literal.value
    match value:
        case int() if not isinstance(value, bool) and -(2**31) <= value < 2**31:
            return Literal(value, pa.int32())
        case datetime() if value.tzinfo is not None:
            return Literal(value.astimezone(UTC), pa.timestamp("us", "UTC"))
        case datetime():
            return Literal(value, pa.timestamp("us"))
        case None | bool() | int() | float() | Decimal() | str() | bytes() | date():
            try:
                return Literal(value, pa.scalar(value).type)
            except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
                raise InvalidInput(f"{value!r} cannot be compared: {error}") from error
        case _:
            raise InvalidInput(f"{value!r} cannot be used as a constant in a comparison")


def midnight(day: date, zone: tzinfo) -> datetime:
    """The instant at which a day begins in a time zone, in UTC."""
    try:
        return datetime.combine(day, time.min, zone).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{day} is outside the years 1 to 9999 in UTC") from None


def local_time(instant: datetime, zone: tzinfo) -> datetime:
    """The wall-clock time of an instant in a time zone, without the zone."""
    try:
        return instant.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise InvalidInput(f"{instant} is outside the years 1 to 9999") from None


def zone_of(time_zone: str) -> tzinfo:
    """The session's time zone.

    Raises:
        InvalidInput: There is no such time zone.
    """
    zone = spark_text.time_zone_of(time_zone)
    if zone is None:
        raise InvalidInput(f"there is no time zone {time_zone!r}")
    return zone


def _to_integer(value: object, target: pa.DataType, _zone: str) -> object:
    bits = target.bit_width
    match value:
        case str():
            return spark_text.parse_whole(value, bits)
        case float():
            return _saturated(value, bits)
        case bool() | int():
            return _wrapped(int(value), bits)
        case Decimal():
            return _wrapped(int(value.to_integral_value(ROUND_DOWN, _CONTEXT)), bits)
        case datetime() if value.tzinfo is not None:
            micros = (value.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // _MICROSECOND
            return _wrapped(micros // 1_000_000, bits)
        case date():
            return None
        case _:
            return NotImplemented


def _to_float(value: object, target: pa.DataType, _zone: str) -> object:
    match value:
        case str():
            number = spark_text.parse_float(value)
        case bool() | int() | float() | Decimal():
            number = float(value)
        case datetime() | date():
            return NotImplemented
        case _:
            return NotImplemented
    if number is None or target == pa.float64():
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _to_decimal(value: object, target: pa.DataType, _zone: str) -> object:
    try:
        match value:
            case str():
                number = Decimal(value.strip())
            case float():
                number = Decimal(repr(value))
            case bool() | int():
                number = Decimal(int(value))
            case Decimal():
                number = value
            case _:
                return NotImplemented
        if not number.is_finite() or abs(number.adjusted()) > 400:
            return None if not number.is_finite() or number.adjusted() > 0 else Decimal(0)
        step = Decimal(1).scaleb(-target.scale, _CONTEXT)
        rounded = number.quantize(step, ROUND_HALF_UP, _CONTEXT)
    except InvalidOperation:
        return None
    bound = Decimal(1).scaleb(target.precision - target.scale, _CONTEXT)
    return rounded if rounded.copy_abs() < bound else None


def _to_string(value: object, _target: pa.DataType, zone: str) -> object:
    text = spark_text.text_of(value, zone)
    return NotImplemented if text is None else text


def _to_boolean(value: object, _target: pa.DataType, _zone: str) -> object:
    match value:
        case str():
            return spark_text.parse_bool(value)
        case bool() | int() | float() | Decimal():
            return bool(value)
        case _:
            return NotImplemented


def _to_binary(value: object, _target: pa.DataType, _zone: str) -> object:
    match value:
        case str():
            return value.encode()
        case bytes():
            return value
        case _:
            return NotImplemented


def _to_date(value: object, _target: pa.DataType, zone: str) -> object:
    match value:
        case str():
            return spark_text.parse_date(value)
        case datetime():
            return (local_time(value, zone_of(zone)) if value.tzinfo else value).date()
        case date():
            return value
        case _:
            return NotImplemented


def _to_timestamp(value: object, target: pa.DataType, zone: str) -> object:
    match value:
        case str():
            instant = spark_text.parse_timestamp(value, zone)
        case datetime() if value.tzinfo is not None:
            instant = value
        case datetime():
            instant = value.replace(tzinfo=zone_of(zone)).astimezone(UTC)
        case date():
            instant = midnight(value, zone_of(zone))
        case _:
            return NotImplemented
    return None if instant is None else _cut(instant, target)


def _to_timestamp_ntz(value: object, target: pa.DataType, zone: str) -> object:
    match value:
        case str():
            local = spark_text.parse_timestamp_ntz(value)
        case datetime():
            local = local_time(value, zone_of(zone)) if value.tzinfo else value
        case date():
            local = datetime.combine(value, time.min)
        case _:
            return NotImplemented
    return None if local is None else _cut(local, target)


def _cut(stamp: datetime, target: pa.DataType) -> datetime:
    step = {"s": 1_000_000, "ms": 1000}.get(target.unit, 1)
    return stamp.replace(microsecond=stamp.microsecond // step * step)


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _saturated(value: float, bits: int) -> int:
    if math.isnan(value):
        return 0
    # Java narrows a float to INT first, then wraps to the smaller types.
    wide = max(bits, 32)
    low, high = -(1 << (wide - 1)), (1 << (wide - 1)) - 1
    whole = high if value >= high else low if value <= low else int(value)
    return _wrapped(whole, bits)


_CONVERTERS: dict[Family, Callable[[object, pa.DataType, str], object]] = {
    Family.INTEGER: _to_integer,
    Family.FLOAT: _to_float,
    Family.DECIMAL: _to_decimal,
    Family.STRING: _to_string,
    Family.BOOLEAN: _to_boolean,
    Family.BINARY: _to_binary,
    Family.DATE: _to_date,
    Family.TIMESTAMP: _to_timestamp,
    Family.TIMESTAMP_NTZ: _to_timestamp_ntz,
}
