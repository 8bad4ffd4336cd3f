"""Comparison of Arrow values as Spark SQL compares them.

Arrow compares strings and binary by unsigned bytes, decimals by value and timestamps by instant.
This module adds: NaN equals NaN and is greater than every other float, null-safe equality, and
membership in a list under three-valued logic.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import Datum, is_bytes, is_text
from lakedex.expr.tree import Op

_KERNELS = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LTE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GTE: pc.greater_equal,
}

NEGATED = {
    Op.EQ: Op.NE,
    Op.NE: Op.EQ,
    Op.LT: Op.GTE,
    Op.LTE: Op.GT,
    Op.GT: Op.LTE,
    Op.GTE: Op.LT,
}
"""The operator that is true exactly where the key is false; `<=>` has none."""

FLIPPED = {
    Op.EQ: Op.EQ,
    Op.NE: Op.NE,
    Op.EQ_NULL_SAFE: Op.EQ_NULL_SAFE,
    Op.LT: Op.GT,
    Op.LTE: Op.GTE,
    Op.GT: Op.LT,
    Op.GTE: Op.LTE,
}
"""The operator that means the same with its sides exchanged."""


def compare(op: Op, left: Datum, right: Datum) -> Datum:
    """Compare two values; null if a side is null (never null for `<=>`).

    Example:
        >>> nan = float("nan")
        >>> compare(Op.GT, pa.array([nan, 1.0, None]), pa.scalar(5.0)).to_pylist()
        [True, False, None]
    """
    left, right = _aligned(left, right)
    if op is Op.EQ_NULL_SAFE:
        equal = pc.fill_null(_compare(Op.EQ, left, right), fill_value=False)
        return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    return _compare(op, left, right)


def contains(child: Datum, values: pa.Array) -> Datum:
    """SQL's IN: null for a null child, and for a child without match if the list contains a null.

    Example:
        >>> contains(pa.array([1, 2, None]), pa.array([1, None])).to_pylist()
        [True, None, None]
    """
    if not len(values):
        return _all_false(child)
    if pa.types.is_null(child.type) or values.null_count == len(values):
        nothing = pa.scalar(None, pa.bool_())
        return nothing if isinstance(child, pa.Scalar) else pa.repeat(nothing, len(child))
    child, values = _aligned(child, values)
    if pa.types.is_floating(child.type):
        child, values = _normal_float(child), _normal_float(values)
    found = pc.is_in(child, value_set=values.drop_null(), skip_nulls=True)
    if values.null_count:
        found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_null(child), pa.scalar(None, pa.bool_()), found)


def _all_false(child: Datum) -> Datum:
    return pc.and_(pc.is_null(child), pc.is_valid(child))


def _compare(op: Op, left: Datum, right: Datum) -> Datum:
    if pa.types.is_floating(left.type):
        return _compare_floats(op, left, right)
    try:
        return _KERNELS[op](left, right)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UnsupportedFeature(f"comparison of {left.type} values") from error


def _compare_floats(op: Op, left: Datum, right: Datum) -> Datum:
    if op in (Op.EQ, Op.NE):
        both = pc.and_(pc.is_nan(left), pc.is_nan(right))
        equal = pc.or_(pc.equal(left, right), both)
        return equal if op is Op.EQ else pc.invert(equal)
    if op in (Op.GT, Op.LTE):
        less = _float_less(right, left)
        return less if op is Op.GT else pc.invert(less)
    less = _float_less(left, right)
    return less if op is Op.LT else pc.invert(less)


def _float_less(left: Datum, right: Datum) -> Datum:
    below_nan = pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right))
    return pc.or_(pc.less(left, right), below_nan)


def _normal_float(values: Datum) -> Datum:
    # Hashing distinguishes -0.0 from 0.0 and between NaNs, SQL does not.
    canonical = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), canonical, pc.add(values, pa.scalar(0.0, values.type)))


def _aligned(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Convert both sides to one type; after binding they differ in units and encodings only."""
    if pa.types.is_float16(left.type):
        left = left.cast(pa.float32())
    if left.type == right.type:
        return left, right
    if pa.types.is_null(left.type):
        return left.cast(right.type), right
    kind = _common_type(left.type, right.type)
    try:
        return left.cast(kind), right.cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"cannot compare {left.type} with {right.type}: {error}") from error


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_null(right):
        return left
    if is_text(left) and is_text(right):
        return pa.large_string()
    if is_bytes(left) and is_bytes(right):
        return pa.large_binary()
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        if (left.tz is None) == (right.tz is None):
            units = ["s", "ms", "us", "ns"]
            return pa.timestamp(max(left.unit, right.unit, key=units.index), left.tz)
    elif pa.types.is_decimal(left) and pa.types.is_decimal(right):
        return pa.decimal256(76, max(left.scale, right.scale))
    elif pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    elif pa.types.is_floating(left) and pa.types.is_floating(right):
        return pa.float64()
    raise InvalidInput(f"cannot compare {left} with {right}: bind the expression first")
