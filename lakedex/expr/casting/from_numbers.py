"""Casts from numbers and booleans.

Java's rules: a wider integer is cut to the low bits of a narrower one; a float becomes the
nearest bound when it is out of range and 0 when it is NaN. A decimal that does not fit is null.
"""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import array_of, masked, numpy_type, numpy_values, valid_mask

_WIDEST_DIGITS = 76
_INT64_DIGITS = 19


def boolean_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """1.0 for true, 0.0 for false."""
    return value.cast(pa.int8()).cast(target)


def to_boolean(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
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
    """Towards zero, within the bounds; bytes and shorts go through int.

    Example:
        >>> float_to_integer(pa.array([-1.9, 1e300, float("nan")]), pa.int32(), "UTC").to_pylist()
        [-1, 2147483647, 0]
    """
    width = np.int64 if target == pa.int64() else np.int32
    limits = np.iinfo(width)
    numbers = np.nan_to_num(numpy_values(value).astype(np.float64), nan=0.0)
    whole = np.trunc(numbers)
    # The largest long is no double: from 2**63 on the value is out of range.
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
    """Towards zero, then the low bits."""
    whole = pc.round(value, ndigits=0, round_mode="towards_zero")
    wide = whole.cast(pa.decimal128(38, 0), safe=False)
    low = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :: 2][: len(wide)]
    return array_of(low.astype(numpy_type(target)), valid_mask(value), target)


def decimal_to_float(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The nearest float: the text form is read back, since Arrow's own cast rounds twice."""
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
