"""Casts that fail in ANSI mode for some values, and give a changed number or null without it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import MICROS_PER_SECOND, numpy_type, numpy_values, valid_mask
from lakedex.expr.casting.from_numbers import decimal_to_decimal, integer_to_decimal
from lakedex.expr.temporal.moments import timestamp_micros
from lakedex.expr.temporal.zones import LARGEST_SHIFT

_ANY_ZONE = "UTC"
_LAST_SECOND = (np.iinfo(np.int64).max - LARGEST_SHIFT) // MICROS_PER_SECOND


def lost_in_cast(value: pa.Array, target: pa.DataType) -> np.ndarray:
    """Where a number or a time is not in the range of the type that it is cast to.

    Nothing is said of texts and of casts that never fail: of these none is lost.

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
        # It stops at the last moment, of which the wall clock may not be known.
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
    """The largest long is no double: 2**63, the next one, is out of range. NaN is in none."""
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


def _times(value: pa.Array, target: pa.DataType) -> np.ndarray:
    return _inside(timestamp_micros(value) // MICROS_PER_SECOND, target)


_WHOLE: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], np.ndarray]], ...
] = (
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_timestamp, _times),
)
