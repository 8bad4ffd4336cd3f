"""CAST of a constant while planning, by the rules of Spark 3.5 without ANSI mode.

Values that cannot be converted become null. Integers wrap around, floats saturate, decimals round
half up. If Spark's result cannot be represented or reproduced, `InvalidInput` names an alternative:
for example years outside 1 to 9999, because Python's dates cannot represent them and null would be
wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
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
    zone = time_zone_of(time_zone)
    if zone is None:
        raise InvalidInput(f"there is no time zone {time_zone!r}")
    return zone


def _to_integer(value: object, target: pa.DataType, _zone: str) -> object:
    bits = target.bit_width
    match value:
        case str():
            return parse_whole(value, bits)
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
            number = parse_float(value)
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
    text = text_of(value, zone)
    return NotImplemented if text is None else text


def _to_boolean(value: object, _target: pa.DataType, _zone: str) -> object:
    match value:
        case str():
            return parse_bool(value)
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
            return parse_date(value)
        case datetime():
            return (local_time(value, zone_of(zone)) if value.tzinfo else value).date()
        case date():
            return value
        case _:
            return NotImplemented


def _to_timestamp(value: object, target: pa.DataType, zone: str) -> object:
    match value:
        case str():
            instant = parse_timestamp(value, zone)
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
            local = parse_timestamp_ntz(value)
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


_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T](?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?)?(.*))?)?)?",
    re.DOTALL,
)
_TIME_ONLY = re.compile(r"T?[0-9]{1,2}:[0-9]{1,2}.*", re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2}))?(?::?([0-9]{2}))?")
_WHOLE = re.compile(r"([+-]?)([0-9]+)?(?:\.[0-9]*)?")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_SPECIAL = {"inf": "inf", "infinity": "inf", "nan": "nan"}
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}


def time_zone_of(name: str) -> tzinfo | None:
    """The time zone of an identifier or an offset such as `+05:30`; None if there is none.

    Example:
        >>> time_zone_of("+05:30"), time_zone_of("Nowhere/Land")
        (datetime.timezone(datetime.timedelta(seconds=19800)), None)
    """
    text = name.strip()
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        if hours > 18 or minutes > 59 or seconds > 59:
            return None
        delta = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-delta if offset[1] == "-" else delta)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def parse_whole(text: str, bits: int) -> int | None:
    """Parse a signed integer of `bits` bits; a fraction is truncated, as in Spark.

    Example:
        >>> parse_whole(" 5.7 ", 32), parse_whole("3000000000", 32), parse_whole("x", 32)
        (5, None, None)
    """
    found = _WHOLE.fullmatch(text.strip(_BLANKS))
    if found is None or (found[2] is None and "." not in found[0]):
        return None
    digits = (found[2] or "0").lstrip("0") or "0"
    if len(digits) > 20:
        return None
    value = int(found[1] + digits)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def parse_float(text: str) -> float | None:
    """Parse a double."""
    trimmed = text.strip(_BLANKS)
    found = _FLOAT.fullmatch(trimmed)
    if found is not None:
        return float(found[1])
    sign = "-" if trimmed.startswith("-") else ""
    special = _SPECIAL.get(trimmed.lower().lstrip("+-") if len(trimmed) > 2 else "")
    if special is None or trimmed[1:2] in ("+", "-") or (special == "nan" and trimmed[0] in "+-"):
        return None
    return float(sign + special)


def parse_bool(text: str) -> bool | None:
    """Parse a boolean."""
    word = text.strip(_BLANKS).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_date(text: str) -> date | None:
    """Parse a date; text after the day and a blank or a T is ignored.

    Example:
        >>> parse_date("2024-2-29 noon"), parse_date("2023-02-29")
        (datetime.date(2024, 2, 29), None)
    """
    found = _DATE.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    year, month, day = _year(found, text), int(found[3] or 1), int(found[4] or 1)
    try:
        return date(year, month, day)
    except ValueError:
        return None


def parse_timestamp(text: str, time_zone: str) -> datetime | None:
    """Parse an instant in UTC; text without a time zone is in `time_zone`."""
    parsed = _parse_parts(text)
    if parsed is None:
        return None
    local, zone_text = parsed
    zone = time_zone_of(zone_text or time_zone)
    if zone is None:
        return None
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise _out_of_range(text) from None


def parse_timestamp_ntz(text: str) -> datetime | None:
    """Parse a timestamp without time zone; a time zone in the text is checked and dropped."""
    parsed = _parse_parts(text)
    if parsed is None or (parsed[1] and time_zone_of(parsed[1]) is None):
        return None
    return parsed[0]


def text_of(value: object, time_zone: str) -> str | None:
    """The result of Spark's cast to string; None for types whose text is not portable.

    Example:
        >>> text_of(True, "UTC"), text_of(datetime(2024, 1, 2, 3, 4, 5, 600000), "UTC")
        ('true', '2024-01-02 03:04:05.6')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | Decimal():
            return str(value)
        case datetime():
            zone = time_zone_of(time_zone)
            local = value if value.tzinfo is None else value.astimezone(zone)
            text = f"{local.year:04d}-{local:%m-%d %H:%M:%S}.{local.microsecond:06d}"
            return text.rstrip("0").rstrip(".") if local.microsecond else text[:19]
        case date():
            return value.isoformat()
        case _:
            return None


def _parse_parts(text: str) -> tuple[datetime, str] | None:
    trimmed = text.strip(_BLANKS)
    found = _TIMESTAMP.fullmatch(trimmed)
    if found is None:
        if _TIME_ONLY.fullmatch(trimmed):
            raise InvalidInput(f"'{text}' has a time but no date; write both")
        return None
    zone = (found[9] or "").strip(_BLANKS)
    if zone and found[6] is None:
        return None
    micros = int((found[8] or "").ljust(6, "0")[:6])
    month, day = int(found[3] or 1), int(found[4] or 1)
    hour, minute, second = (int(found[group] or 0) for group in (5, 6, 7))
    try:
        return datetime(_year(found, text), month, day, hour, minute, second, micros), zone
    except ValueError:
        return None


def _year(found: re.Match[str], text: str) -> int:
    year = int(found[1] + found[2])
    if not 1 <= year <= 9999:
        raise _out_of_range(text)
    return year


def _out_of_range(text: str) -> InvalidInput:
    return InvalidInput(f"'{text}' is outside the years 1 to 9999")
