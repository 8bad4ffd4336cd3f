"""Which plain type may become which, and how: Hudi's rules of column type change.

    int     → long, float, double, string, decimal
    long    → float, double, string, decimal
    float   → double (by its text), string, decimal
    double  → string, decimal
    decimal → wider decimal, string
    string  → date, decimal, bytes
    bytes   → string
    date    → string

Timestamps may also become finer, and every type may change its Arrow layout (large_string).
Numbers become text the way Java prints them: 1.0E10, not 1e+10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError, UnsupportedFeature

_UNIT_ORDER = ("s", "ms", "us", "ns")
MORE_DIGITS = 18
"""So many digits behind those of its type a text may have that becomes a decimal."""


class _Family(Enum):
    """What kind of value a type holds, whatever its width or layout."""

    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


def convert_leaf(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """A column of a plain type as `target`; refuses what Hudi would not allow.

    Example:
        >>> convert_leaf(pa.array([1.1], pa.float32()), pa.float64(), "x").to_pylist()
        [1.1]
    """
    old, new = _family(array.type), _family(target)
    step = _STEPS.get((old, new))
    if step is None:
        raise UnsupportedFeature(f"the change of column {path} from {array.type} to {target}")
    try:
        result = step(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        message = f"column {path} does not fit when changed from {array.type} to {target}: {error}"
        raise LakedexError(message) from error
    if result is None:
        raise UnsupportedFeature(f"the change of column {path} from {array.type} to {target}")
    return result


def is_convertible(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a column may get another type into which its values are converted.

    Wider types are not meant; their values stay what they are.

    Example:
        >>> is_convertible(pa.int32(), pa.string()), is_convertible(pa.int32(), pa.int64())
        (True, False)
        >>> is_convertible(pa.string(), pa.date32()), is_convertible(pa.string(), pa.int32())
        (True, False)
    """
    return _family(new) in _RETYPED.get(_family(old), ())


def java_number_text(array: pa.Array) -> pa.Array:
    """Floats as Java prints them: `1.0`, `1.0E10`, `1.5E-7`, `NaN`, `-Infinity`.

    Example:
        >>> java_number_text(pa.array([1.0, 1e10, 1.5e-7, float("nan")])).to_pylist()
        ['1.0', '1.0E10', '1.5E-7', 'NaN']
    """
    size = pc.abs(array)
    plain = pc.or_kleene(
        pc.and_kleene(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(size, 0.0)
    )
    text = array.cast(pa.string())
    dotted = pc.if_else(pc.match_substring(text, "."), text, _join(text, ".0"))
    out = pc.if_else(plain, dotted, _scientific(text))
    out = pc.if_else(pc.is_nan(array), "NaN", out)
    infinite = pc.if_else(pc.greater(array, 0.0), "Infinity", "-Infinity")
    return pc.if_else(pc.is_inf(array), infinite, out)


def _scientific(text: pa.Array) -> pa.Array:
    """Arrow's text of a number (`12345678.5`, `1e+20`, `0.00012`) as Java's `d.dddE±n`."""
    parts = pc.extract_regex(
        text, r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<power>[+-]?\d+))?$"
    )
    sign, whole, part, power = (pc.struct_field(parts, i) for i in range(4))
    power = pc.replace_substring(power, "+", "")
    power = pc.if_else(pc.equal(power, ""), "0", power).cast(pa.int32())
    digits = pc.utf8_ltrim(_join(whole, part), "0")
    # Leading zeros only occur in 0.000ddd, where each one lowers the exponent.
    zeros = pc.subtract(pc.utf8_length(_join(whole, part)), pc.utf8_length(digits))
    lead = pc.subtract(pc.subtract(pc.utf8_length(whole), 1), zeros)
    digits = pc.utf8_rtrim(digits, "0")
    rest = pc.utf8_slice_codeunits(digits, 1)
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    exponent = pc.add(lead, power).cast(pa.string())
    return _join(sign, pc.utf8_slice_codeunits(digits, 0, 1), ".", rest, "E", exponent)


def _join(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def _lossy(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target, safe=False)


def _float_by_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.string()).cast(target)


def _text_of_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    return java_number_text(array).cast(target)


def _same_float(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    return _cast(array, target) if target.bit_width >= array.type.bit_width else None


def _same_decimal(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    old: pa.Decimal128Type = array.type
    whole_old, whole_new = old.precision - old.scale, target.precision - target.scale
    return _cast(array, target) if target.scale >= old.scale and whole_new >= whole_old else None


def _decimal_of_whole(array: pa.Array, target: pa.DataType) -> pa.Array:
    """By the values: Arrow would need a type for every value of the old one."""
    exact = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return exact.cast(pa.decimal256(76, target.scale)).cast(target)


def _decimal_of_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    # What rounds to zero anyway may have more digits than any decimal.
    tiny = pc.less(pc.abs(array), 10.0 ** -(target.scale + 1))
    zero = pa.scalar(0.0, array.type)
    return _decimal_of_text(pc.if_else(tiny, zero, array).cast(pa.string()), target)


def _decimal_of_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Half away from zero, as Java's RoundingMode.HALF_UP; a double has 17 digits at most."""
    exact = array.cast(pa.decimal256(76, target.scale + MORE_DIGITS))
    return pc.round(exact, target.scale, round_mode="half_towards_infinity").cast(target)


def _same_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    old: pa.TimestampType = array.type
    if _UNIT_ORDER.index(target.unit) < _UNIT_ORDER.index(old.unit):
        return None
    if (old.tz is None) != (target.tz is None):
        return None
    return _cast(array, target)


def _same_other(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    widening_time = pa.types.is_time(array.type) and pa.types.is_time(target)
    return _cast(array, target) if array.type == target or widening_time else None


def _same_bytes(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    fixed = pa.types.is_fixed_size_binary(target)
    if fixed and array.type != target:
        return None
    return _cast(array, target)


_STEPS: Mapping[tuple[_Family, _Family], Callable[[pa.Array, pa.DataType], pa.Array | None]] = {
    (_Family.INT, _Family.INT): _cast,
    (_Family.INT, _Family.LONG): _cast,
    (_Family.INT, _Family.FLOAT): _lossy,
    (_Family.INT, _Family.DOUBLE): _cast,
    (_Family.INT, _Family.TEXT): _cast,
    (_Family.INT, _Family.DECIMAL): _decimal_of_whole,
    (_Family.LONG, _Family.LONG): _cast,
    (_Family.LONG, _Family.FLOAT): _lossy,
    (_Family.LONG, _Family.DOUBLE): _lossy,
    (_Family.LONG, _Family.TEXT): _cast,
    (_Family.LONG, _Family.DECIMAL): _decimal_of_whole,
    (_Family.FLOAT, _Family.FLOAT): _same_float,
    (_Family.FLOAT, _Family.DOUBLE): _float_by_text,
    (_Family.FLOAT, _Family.TEXT): _text_of_float,
    (_Family.FLOAT, _Family.DECIMAL): _decimal_of_float,
    (_Family.DOUBLE, _Family.DOUBLE): _cast,
    (_Family.DOUBLE, _Family.TEXT): _text_of_float,
    (_Family.DOUBLE, _Family.DECIMAL): _decimal_of_float,
    (_Family.DECIMAL, _Family.DECIMAL): _same_decimal,
    (_Family.DECIMAL, _Family.TEXT): _cast,
    (_Family.TEXT, _Family.TEXT): _cast,
    (_Family.TEXT, _Family.BYTES): _same_bytes,
    (_Family.TEXT, _Family.DATE): _cast,
    (_Family.TEXT, _Family.DECIMAL): _decimal_of_text,
    (_Family.BYTES, _Family.BYTES): _same_bytes,
    (_Family.BYTES, _Family.TEXT): _cast,
    (_Family.DATE, _Family.DATE): _cast,
    (_Family.DATE, _Family.TEXT): _cast,
    (_Family.TIMESTAMP, _Family.TIMESTAMP): _same_timestamp,
    (_Family.OTHER, _Family.OTHER): _same_other,
}

_RETYPED: Mapping[_Family, tuple[_Family, ...]] = {
    **dict.fromkeys(
        (_Family.INT, _Family.LONG, _Family.FLOAT, _Family.DOUBLE), (_Family.TEXT, _Family.DECIMAL)
    ),
    _Family.DECIMAL: (_Family.TEXT,),
    _Family.DATE: (_Family.TEXT,),
    _Family.TEXT: (_Family.DATE, _Family.DECIMAL, _Family.BYTES),
}

_BY_TYPE: Mapping[pa.DataType, _Family] = {
    pa.int8(): _Family.INT,
    pa.int16(): _Family.INT,
    pa.int32(): _Family.INT,
    pa.int64(): _Family.LONG,
    pa.float16(): _Family.FLOAT,
    pa.float32(): _Family.FLOAT,
    pa.float64(): _Family.DOUBLE,
    pa.string(): _Family.TEXT,
    pa.large_string(): _Family.TEXT,
    pa.string_view(): _Family.TEXT,
    pa.binary(): _Family.BYTES,
    pa.large_binary(): _Family.BYTES,
    pa.binary_view(): _Family.BYTES,
    pa.date32(): _Family.DATE,
    pa.date64(): _Family.DATE,
}


def _family(dtype: pa.DataType) -> _Family:
    known = _BY_TYPE.get(dtype)
    if known is not None:
        return known
    if pa.types.is_decimal(dtype):
        return _Family.DECIMAL
    if pa.types.is_timestamp(dtype):
        return _Family.TIMESTAMP
    return _Family.BYTES if pa.types.is_fixed_size_binary(dtype) else _Family.OTHER
