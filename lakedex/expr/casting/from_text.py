"""Casts from text.

Blanks and control characters around the text do not count. Text that is no value of the target,
or that does not fit it, gives null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import UnsupportedFeature
from lakedex.expr.arrays import array_of, masked, numpy_type
from lakedex.expr.casting.from_numbers import decimal_to_decimal
from lakedex.expr.temporal.parsing import BLANKS, cast_to_days, cast_to_time

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


def to_boolean(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """True for t, true, y, yes and 1, false for their opposites, in any case."""
    words = pc.ascii_lower(_trimmed(value))
    true, false = pc.is_in(words, value_set=_TRUE), pc.is_in(words, value_set=_FALSE)
    known = pc.or_(true, false).to_numpy(zero_copy_only=False)
    return masked(true, known)


def to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The whole part; null when it does not fit.

    Example:
        >>> to_integer(pa.array(["-7", ".5", "128", "1e1"]), pa.int8(), "UTC").to_pylist()
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


def to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Decimal notation, NaN and the infinities; hexadecimal notation is refused."""
    text = _trimmed(value)
    if pc.any(pc.match_substring_regex(text, pattern=r"(?i)\A[+-]?0x[0-9a-f.]*p")).as_py():
        raise UnsupportedFeature("cast of hexadecimal floating-point text")
    plain = pc.struct_field(pc.extract_regex(text, pattern=_FLOAT), "number")
    words = {**_SPECIAL, **_NEGATIVE}
    index = pc.index_in(pc.ascii_lower(text), value_set=pa.array(list(words)))
    special = pa.array(list(words.values())).take(index)
    return pc.coalesce(plain, special).cast(target)


def to_decimal(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Rounded half up; null when it does not fit. Exponents are refused."""
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


def to_date(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Dates in ISO form, lenient about leading zeros."""
    days, valid = cast_to_days(value.cast(pa.string()))
    return array_of(days, valid, pa.date32()).cast(target)


def to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Times in ISO form; without an offset they are wall-clock times of the session zone."""
    parsed = cast_to_time(value.cast(pa.string()))
    micros = parsed.local if target.tz is None else parsed.instants(zone)
    return array_of(micros, parsed.valid, pa.timestamp("us", target.tz)).cast(target, safe=False)


def _trimmed(value: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(value.cast(pa.string()), pattern=_TRIM, replacement=r"\1")
