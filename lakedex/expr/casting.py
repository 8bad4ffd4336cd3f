"""Spark's CAST without ANSI mode, over whole columns: values that cannot be converted become null.

`cast` converts; `lost_in_cast` marks the values for which the same cast fails in ANSI mode, because
without it the result is a changed number or null.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import (
    MICROS_PER_DAY,
    MICROS_PER_SECOND,
    Datum,
    array_of,
    is_bytes,
    is_text,
    masked,
    numpy_type,
    numpy_values,
    valid_mask,
)
from lakedex.expr.time_patterns import (
    BLANKS,
    cast_to_days,
    cast_to_time,
    iso_date_text,
    iso_timestamp_text,
)
from lakedex.expr.time_zones import (
    LARGEST_SHIFT,
    date_days,
    from_local,
    local_time,
    timestamp_micros,
    to_local,
)

Rule = Callable[[pa.Array, pa.DataType, str], pa.Array]
_WIDEST_DIGITS = 76
_INT64_DIGITS = 19
_TRIM = rf"(?s)\A[{BLANKS}]*(.*?)[{BLANKS}]*\z"
_INTEGER = (
    rf"\A[{BLANKS}]*(?P<sign>[+-]?)"
    rf"(?:0*(?P<whole>\d+)(?:\.\d*)?|(?P<none>\.\d*))[{BLANKS}]*\z"
)
_FLOAT = r"\A\+?(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?\z"
_SPECIAL = {"nan": "nan", "inf": "inf", "infinity": "inf", "+inf": "inf", "+infinity": "inf"}
_NEGATIVE = {"-inf": "-inf", "-infinity": "-inf"}
_DECIMAL = r"\A\+?(?P<number>-?(?:\d+\.?\d*|\.\d+))\z"
_EXPONENT = r"\A[+-]?(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+\z"
_MOST_DIGITS = 19
_TRUE = pa.array(["t", "true", "y", "yes", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "0"])
_INT64 = np.iinfo(np.int64)
_ANY_ZONE = "UTC"
_LAST_SECOND = (np.iinfo(np.int64).max - LARGEST_SHIFT) // MICROS_PER_SECOND


class _Kind(Enum):
    TEXT = "text"
    BYTES = "bytes"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "timestamp"
    OTHER = "other"


def cast(value: Datum, target: pa.DataType, *, time_zone: str = "UTC") -> Datum:
    """Convert to `target` as Spark's CAST does.

    Raises:
        UnsupportedFeature: for a cast that is not implemented exactly.

    Example:
        >>> cast(pa.array([" 12 ", "1.9", "x"]), pa.int32()).to_pylist()
        [12, 1, None]
    """
    if value.type == target:
        return value
    if isinstance(value, pa.Scalar):
        single = pa.array([value.as_py()], value.type)
        return cast(single, target, time_zone=time_zone)[0]
    if pa.types.is_null(value.type):
        return pa.nulls(len(value), target)
    if pa.types.is_dictionary(value.type):
        return cast(value.dictionary_decode(), target, time_zone=time_zone)
    rule = _RULES.get((_kind(value.type), _kind(target)))
    if rule is None:
        raise UnsupportedFeature(f"cast from {value.type} to {target}")
    try:
        return rule(value, target, time_zone)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"cast from {value.type} to {target}: {error}") from error


_TESTS: tuple[tuple[Callable[[pa.DataType], bool], _Kind], ...] = (
    (is_text, _Kind.TEXT),
    (is_bytes, _Kind.BYTES),
    (pa.types.is_boolean, _Kind.BOOLEAN),
    (pa.types.is_integer, _Kind.INTEGER),
    (pa.types.is_floating, _Kind.FLOAT),
    (pa.types.is_decimal, _Kind.DECIMAL),
    (pa.types.is_date, _Kind.DATE),
    (pa.types.is_timestamp, _Kind.TIME),
)


def _kind(kind: pa.DataType) -> _Kind:
    return next((name for test, name in _TESTS if test(kind)), _Kind.OTHER)


def _arrow(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    return value.cast(target)


def boolean_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """1.0 for true, 0.0 for false."""
    return value.cast(pa.int8()).cast(target)


def number_to_boolean(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """False for zero, true for everything else."""
    return array_of(numpy_values(value) != 0, valid_mask(value), target)


def integer_to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The low bits, as in Java.

    Example:
        >>> integer_to_integer(pa.array([300]), pa.int8(), "UTC").to_pylist()
        [44]
    """
    return array_of(numpy_values(value).astype(numpy_type(target)), valid_mask(value), target)


def integer_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The nearest float."""
    return array_of(numpy_values(value).astype(numpy_type(target)), valid_mask(value), target)


def integer_to_decimal(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The same number; null when it has too many digits."""
    wide = value.cast(pa.int64()).cast(pa.decimal256(_INT64_DIGITS + target.scale, target.scale))
    return _fitted(wide, target)


def float_to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Round towards zero, within the bounds; bytes and shorts are converted to int first.

    Example:
        >>> float_to_integer(pa.array([-1.9, 1e300, float("nan")]), pa.int32(), "UTC").to_pylist()
        [-1, 2147483647, 0]
    """
    width = np.int64 if target == pa.int64() else np.int32
    limits = np.iinfo(width)
    numbers = np.nan_to_num(numpy_values(value).astype(np.float64), nan=0.0)
    whole = np.trunc(numbers)
    # The largest long is not a double: values from 2**63 on are out of range.
    above, below = whole >= float(limits.max) + (width is np.int32), whole < float(limits.min)
    inside = np.where(above | below, 0.0, whole).astype(width)
    bounded = np.where(above, limits.max, np.where(below, limits.min, inside)).astype(width)
    return array_of(bounded.astype(numpy_type(target)), valid_mask(value), target)


def float_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The nearest float of the other width."""
    with np.errstate(over="ignore"):
        numbers = numpy_values(value).astype(numpy_type(target))
    return array_of(numbers, valid_mask(value), target)


def decimal_to_boolean(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """False for zero."""
    return pc.not_equal(value, pa.scalar(decimal.Decimal(0), value.type))


def decimal_to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Round towards zero, then take the low bits."""
    whole = pc.round(value, ndigits=0, round_mode="towards_zero")
    wide = whole.cast(pa.decimal128(38, 0), safe=False)
    low = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :: 2][: len(wide)]
    return array_of(low.astype(numpy_type(target)), valid_mask(value), target)


def decimal_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The nearest float; the text form is parsed, because Arrow's own cast rounds twice."""
    return value.cast(pa.string()).cast(target)


def decimal_to_decimal(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Rounded half up to the new scale; null when the digits do not fit.

    Example:
        >>> numbers = pa.array([decimal.Decimal("1.25"), decimal.Decimal("99.99")])
        >>> decimal_to_decimal(numbers, pa.decimal128(2, 1), "UTC").to_pylist()
        [Decimal('1.3'), None]
    """
    scale = max(value.type.scale, target.scale)
    wide = value.cast(pa.decimal256(_WIDEST_DIGITS, scale))
    return _fitted(round_half_up(wide, target.scale), target)


def round_half_up(value: pa.Array, digits: int) -> pa.Array:
    """Decimals rounded to `digits` after the point, halves away from zero, in the same type."""
    return pc.round(value, ndigits=digits, round_mode="half_towards_infinity")


def _fitted(wide: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals in a type that may be too narrow: null where they do not fit."""
    common = pa.decimal256(_WIDEST_DIGITS, wide.type.scale)
    limit = decimal.Decimal(10) ** (target.precision - target.scale)
    fits = pc.less(pc.abs(wide.cast(common)), pa.scalar(limit, common))
    kept = masked(wide, pc.fill_null(fits, fill_value=True).to_numpy(zero_copy_only=False))
    return kept.cast(target, safe=False)


def text_to_boolean(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """True for t, true, y, yes and 1, false for their opposites, in any case."""
    words = pc.ascii_lower(_trimmed(value))
    true, false = pc.is_in(words, value_set=_TRUE), pc.is_in(words, value_set=_FALSE)
    known = pc.or_(true, false).to_numpy(zero_copy_only=False)
    return masked(true, known)


def text_to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The whole part; null when it does not fit.

    Example:
        >>> text_to_integer(pa.array(["-7", ".5", "128", "1e1"]), pa.int8(), "UTC").to_pylist()
        [-7, 0, None, None]
    """
    fields = pc.extract_regex(value.cast(pa.string()), pattern=_INTEGER)
    whole = pc.fill_null(pc.struct_field(fields, "whole"), "")
    digits = pc.utf8_length(whole).to_numpy(zero_copy_only=False)
    fits = (digits > 0) & (digits <= _MOST_DIGITS)
    numbers = pc.if_else(pa.array(fits), whole, "0").cast(pa.uint64()).to_numpy()
    negative = pc.fill_null(pc.equal(pc.struct_field(fields, "sign"), "-"), fill_value=False)
    negative = negative.to_numpy(zero_copy_only=False)
    limit = np.uint64(np.iinfo(numpy_type(target)).max)
    valid = pc.is_valid(fields).to_numpy(zero_copy_only=False) & (digits <= _MOST_DIGITS)
    valid &= numbers <= limit + negative.astype(np.uint64)
    # Negation in unsigned arithmetic has the right low bits even for the least value.
    signed = np.where(negative, np.uint64(0) - numbers, numbers).astype(np.int64)
    return array_of(signed.astype(numpy_type(target)), valid, target)


def text_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Decimal notation, NaN and the infinities; hexadecimal notation is rejected."""
    text = _trimmed(value)
    if pc.any(pc.match_substring_regex(text, pattern=r"(?i)\A[+-]?0x[0-9a-f.]*p")).as_py():
        raise UnsupportedFeature("cast of hexadecimal floating-point text")
    plain = pc.struct_field(pc.extract_regex(text, pattern=_FLOAT), "number")
    words = {**_SPECIAL, **_NEGATIVE}
    index = pc.index_in(pc.ascii_lower(text), value_set=pa.array(list(words)))
    special = pa.array(list(words.values())).take(index)
    return pc.coalesce(plain, special).cast(target)


def text_to_decimal(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Rounded half up; null if it does not fit. Exponents are rejected."""
    text = _trimmed(value)
    if pc.any(pc.match_substring_regex(text, pattern=_EXPONENT)).as_py():
        raise UnsupportedFeature("cast of text with an exponent to a decimal")
    plain = pc.struct_field(pc.extract_regex(text, pattern=_DECIMAL), "number")
    longest = pc.max(pc.utf8_length(plain)).as_py() or 0
    if longest > 38:
        raise UnsupportedFeature("cast of text with more than 38 digits to a decimal")
    point = pc.find_substring(plain, pattern=".")
    after = pc.subtract(pc.subtract(pc.utf8_length(plain), point), 1)
    scale = pc.max(pc.if_else(pc.less(point, 0), 0, after)).as_py() or 0
    parsed = plain.cast(pa.decimal256(76, max(scale, target.scale)))
    return decimal_to_decimal(parsed, target, zone)


def text_to_date(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Dates in ISO form, lenient about leading zeros."""
    days, valid = cast_to_days(value.cast(pa.string()))
    return array_of(days, valid, pa.date32()).cast(target)


def text_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Times in ISO form; without an offset they are wall-clock times in the session time zone."""
    parsed = cast_to_time(value.cast(pa.string()))
    micros = parsed.local if target.tz is None else parsed.instants(zone)
    return array_of(micros, parsed.valid, pa.timestamp("us", target.tz)).cast(target, safe=False)


def _trimmed(value: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(value.cast(pa.string()), pattern=_TRIM, replacement=r"\1")


def date_to_text(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """`yyyy-MM-dd`."""
    return iso_date_text(local_time(value, zone)).cast(target)


def timestamp_to_text(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """`yyyy-MM-dd HH:mm:ss` and the fraction without trailing zeros, in the session time zone."""
    return iso_timestamp_text(local_time(value, zone)).cast(target)


def integer_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Seconds since 1970 in UTC; values out of range become the bounds."""
    seconds = numpy_values(value).astype(np.int64)
    limit = _INT64.max // MICROS_PER_SECOND
    inside = np.clip(seconds, -limit, limit) * MICROS_PER_SECOND
    micros = np.where(seconds > limit, _INT64.max, np.where(seconds < -limit, _INT64.min, inside))
    return _times(micros, valid_mask(value), target)


def date_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Midnight, in the session time zone for a zoned target."""
    local = date_days(value) * MICROS_PER_DAY
    micros = local if target.tz is None else from_local(local, zone)
    return _times(micros, valid_mask(value), target)


def timestamp_to_date(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The day on the wall calendar.

    Example:
        >>> times = pa.array([-1], pa.timestamp("us", "UTC"))
        >>> str(timestamp_to_date(times, pa.date32(), "UTC")[0])
        '1969-12-31'
    """
    time = local_time(value, zone)
    return array_of(time.days, time.valid, pa.date32()).cast(target)


def timestamp_to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Whole seconds since 1970, rounded down, then the low bits."""
    seconds = timestamp_micros(value) // MICROS_PER_SECOND
    return array_of(seconds.astype(numpy_type(target)), valid_mask(value), target)


def timestamp_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Convert between zoned and unzoned in the session time zone; finer units are cut off."""
    micros = timestamp_micros(value)
    if value.type.tz is not None and target.tz is None:
        micros = to_local(micros, zone)
    elif value.type.tz is None and target.tz is not None:
        micros = from_local(micros, zone)
    elif value.type.unit == target.unit:
        return value.cast(target)
    return _times(micros, valid_mask(value), target)


def _times(micros: np.ndarray, valid: np.ndarray, target: pa.DataType) -> pa.Array:
    if target.unit in ("us", "ns"):
        return array_of(micros, valid, pa.timestamp("us", target.tz)).cast(target)
    units = {"s": 1_000_000, "ms": 1_000}
    return array_of(micros // units[target.unit], valid, target)


def lost_in_cast(value: pa.Array, target: pa.DataType) -> np.ndarray:
    """Whether a number or a time is outside the range of the type to which it is cast.

    For strings and for casts that never fail the result is false.

    Example:
        >>> lost_in_cast(pa.array([1.9, 3e9, float("nan"), None]), pa.int32()).tolist()
        [False, True, True, False]
    """
    if pa.types.is_integer(target):
        for test, whole in _WHOLE:
            if test(value.type):
                return valid_mask(value) & ~whole(value, target)
    if pa.types.is_decimal(target):
        if pa.types.is_integer(value.type):
            return valid_mask(value) & ~valid_mask(integer_to_decimal(value, target, _ANY_ZONE))
        if pa.types.is_decimal(value.type):
            return valid_mask(value) & ~valid_mask(decimal_to_decimal(value, target, _ANY_ZONE))
    if pa.types.is_timestamp(target) and pa.types.is_integer(value.type):
        # The result is the last instant, whose wall-clock time may not be known.
        return valid_mask(value) & (np.abs(numpy_values(value).astype(np.float64)) >= _LAST_SECOND)
    return np.zeros(len(value), dtype=np.bool_)


def _limits(target: pa.DataType) -> np.iinfo:
    return np.iinfo(numpy_type(target))


def _integers(value: pa.Array, target: pa.DataType) -> np.ndarray:
    return _inside(numpy_values(value), target)


def _inside(numbers: np.ndarray, target: pa.DataType) -> np.ndarray:
    limits = _limits(target)
    found: np.ndarray = (numbers >= limits.min) & (numbers <= limits.max)
    return found


def _floats(value: pa.Array, target: pa.DataType) -> np.ndarray:
    """Whether floats are in range; NaN is not, nor is 2**63, the double above the largest long."""
    limits = _limits(target)
    whole = np.trunc(numpy_values(value).astype(np.float64))
    found: np.ndarray = (whole >= float(limits.min)) & (whole < float(int(limits.max) + 1))
    return found


def _decimals(value: pa.Array, target: pa.DataType) -> np.ndarray:
    limits = _limits(target)
    wide = value.cast(pa.decimal256(76, value.type.scale))
    whole = pc.round(wide, ndigits=0, round_mode="towards_zero")
    low, high = (pa.scalar(Decimal(int(end)), whole.type) for end in (limits.min, limits.max))
    inside = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
    found: np.ndarray = pc.fill_null(inside, fill_value=True).to_numpy(zero_copy_only=False)
    return found


def _lossy_times(value: pa.Array, target: pa.DataType) -> np.ndarray:
    return _inside(timestamp_micros(value) // MICROS_PER_SECOND, target)


_WHOLE: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], np.ndarray]], ...
] = (
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_timestamp, _lossy_times),
)


_RULES: dict[tuple[_Kind, _Kind], Rule] = {
    (_Kind.TEXT, _Kind.TEXT): _arrow,
    (_Kind.TEXT, _Kind.BYTES): _arrow,
    (_Kind.TEXT, _Kind.BOOLEAN): text_to_boolean,
    (_Kind.TEXT, _Kind.INTEGER): text_to_integer,
    (_Kind.TEXT, _Kind.FLOAT): text_to_float,
    (_Kind.TEXT, _Kind.DECIMAL): text_to_decimal,
    (_Kind.TEXT, _Kind.DATE): text_to_date,
    (_Kind.TEXT, _Kind.TIME): text_to_timestamp,
    (_Kind.BYTES, _Kind.BYTES): _arrow,
    (_Kind.BYTES, _Kind.TEXT): _arrow,
    (_Kind.BOOLEAN, _Kind.TEXT): _arrow,
    (_Kind.BOOLEAN, _Kind.INTEGER): _arrow,
    (_Kind.BOOLEAN, _Kind.FLOAT): boolean_to_float,
    (_Kind.INTEGER, _Kind.TEXT): _arrow,
    (_Kind.INTEGER, _Kind.BOOLEAN): number_to_boolean,
    (_Kind.INTEGER, _Kind.INTEGER): integer_to_integer,
    (_Kind.INTEGER, _Kind.FLOAT): integer_to_float,
    (_Kind.INTEGER, _Kind.DECIMAL): integer_to_decimal,
    (_Kind.INTEGER, _Kind.TIME): integer_to_timestamp,
    (_Kind.FLOAT, _Kind.BOOLEAN): number_to_boolean,
    (_Kind.FLOAT, _Kind.INTEGER): float_to_integer,
    (_Kind.FLOAT, _Kind.FLOAT): float_to_float,
    (_Kind.DECIMAL, _Kind.TEXT): _arrow,
    (_Kind.DECIMAL, _Kind.BOOLEAN): decimal_to_boolean,
    (_Kind.DECIMAL, _Kind.INTEGER): decimal_to_integer,
    (_Kind.DECIMAL, _Kind.FLOAT): decimal_to_float,
    (_Kind.DECIMAL, _Kind.DECIMAL): decimal_to_decimal,
    (_Kind.DATE, _Kind.TEXT): date_to_text,
    (_Kind.DATE, _Kind.DATE): _arrow,
    (_Kind.DATE, _Kind.TIME): date_to_timestamp,
    (_Kind.TIME, _Kind.TEXT): timestamp_to_text,
    (_Kind.TIME, _Kind.INTEGER): timestamp_to_integer,
    (_Kind.TIME, _Kind.DATE): timestamp_to_date,
    (_Kind.TIME, _Kind.TIME): timestamp_to_timestamp,
}
