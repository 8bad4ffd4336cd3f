"""The types in which values are compared and computed, by Spark 3.5's rules without ANSI mode.

A string that is compared with another type takes that type (DOUBLE for a decimal). Numbers take
the wider type, where FLOAT is wider than BIGINT, and two decimals take a decimal that holds both. A
date compared with a timestamp becomes a timestamp. In an IN list a string makes all members
strings.

In arithmetic, integers take the wider type, except that the result of `/` is always a DOUBLE or a
decimal; strings become DOUBLE; decimals keep their own types, and the result holds every digit up
to 38 digits, dropping digits after the point first, but never below six.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import reduce
from itertools import groupby

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.schema.hudi_types import type_name

MAX_PRECISION = 38
_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_UNITS = ["s", "ms", "us", "ns"]
_LEAST_SCALE = 6
_BITWISE = frozenset("&|^~")


class Family(Enum):
    """The families of types that the rules distinguish."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    OTHER = "other"


def family(arrow_type: pa.DataType) -> Family:
    """The family of an Arrow type.

    Example:
        >>> family(pa.large_string()), family(pa.timestamp("ms"))
        (<Family.STRING: 'string'>, <Family.TIMESTAMP_NTZ: 'timestamp_ntz'>)
    """
    if pa.types.is_timestamp(arrow_type):
        return Family.TIMESTAMP_NTZ if arrow_type.tz is None else Family.TIMESTAMP
    return next((found for test, found in _TESTS if test(arrow_type)), Family.OTHER)


def comparison_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which `left` and `right` are compared.

    If both sides are of one family but stored differently (string and large_string), it is the
    left type.

    Raises:
        InvalidInput: Spark cannot compare them either.

    Example:
        >>> comparison_type(pa.int32(), pa.decimal128(3, 1)).precision
        11
    """
    if left == right:
        return left
    if Family.STRING in (family(left), family(right)):
        found = _with_string(left, right)
    else:
        found = _without_string(left, right)
    if found is None:
        raise InvalidInput(
            f"{type_name(left)} and {type_name(right)} cannot be compared; CAST one of them"
        )
    return found


def membership_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """The type in which `types[0] IN (types[1:])` is decided.

    Example:
        >>> membership_type([pa.int32(), pa.string()])
        DataType(string)
    """
    # Long lists mostly have one type, which needs to be considered only once.
    return reduce(_list_type, [kind for kind, _ in groupby(types)])


def decimal_of(arrow_type: pa.DataType) -> pa.DataType:
    """The decimal type that holds all values of an integer or decimal type."""
    if family(arrow_type) is Family.INTEGER:
        return pa.decimal128(_INTEGER_DIGITS[arrow_type.bit_width], 0)
    return arrow_type


_TESTS = [
    (pa.types.is_null, Family.NULL),
    (pa.types.is_boolean, Family.BOOLEAN),
    (pa.types.is_signed_integer, Family.INTEGER),
    (lambda kind: kind in (pa.float32(), pa.float64()), Family.FLOAT),
    (pa.types.is_decimal, Family.DECIMAL),
    (pa.types.is_string, Family.STRING),
    (pa.types.is_large_string, Family.STRING),
    (pa.types.is_binary, Family.BINARY),
    (pa.types.is_large_binary, Family.BINARY),
    (pa.types.is_fixed_size_binary, Family.BINARY),
    (pa.types.is_date32, Family.DATE),
]
_NUMBERS = {Family.INTEGER, Family.FLOAT, Family.DECIMAL}
_TIMES = {Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ}


def _with_string(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    other = right if family(left) is Family.STRING else left
    match family(other):
        case Family.STRING:
            return left
        case Family.NULL:
            return left if family(left) is Family.STRING else right
        case Family.DECIMAL:
            return pa.float64()
        case Family.OTHER:
            return None
        case Family.TIMESTAMP | Family.TIMESTAMP_NTZ:
            # A string has microseconds, which a coarser column must not cut off.
            return _time_type(other, pa.date32())
        case _:
            return other


def _without_string(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    families = {family(left), family(right)}
    if Family.OTHER in families:
        return None
    if Family.NULL in families:
        return left if family(right) is Family.NULL else right
    if families <= _NUMBERS:
        return _number_type(left, right)
    if families <= _TIMES:
        return _time_type(left, right)
    return left if len(families) == 1 else None


def _number_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    families = {family(left), family(right)}
    if families == {Family.INTEGER}:
        return max(left, right, key=_INTEGERS.index)
    if Family.FLOAT in families:
        narrow = Family.DECIMAL not in families and pa.float64() not in (left, right)
        return pa.float32() if narrow else pa.float64()
    one, other = decimal_of(left), decimal_of(right)
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    if digits <= MAX_PRECISION:
        return pa.decimal128(digits, scale)
    return pa.decimal256(digits, scale)


def _time_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    stamps = [kind for kind in (left, right) if pa.types.is_timestamp(kind)]
    zone = next((kind.tz for kind in stamps if kind.tz is not None), None)
    unit = max(("us", *(kind.unit for kind in stamps)), key=_UNITS.index)
    return pa.timestamp(unit, zone)


def _list_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    families = {family(left), family(right)}
    if Family.STRING not in families or len(families) == 1 or Family.NULL in families:
        return comparison_type(left, right)
    if families & {Family.BINARY, Family.BOOLEAN, Family.OTHER}:
        raise InvalidInput(
            f"{type_name(left)} and {type_name(right)} do not mix in an IN list; CAST one"
        )
    return left if family(left) is Family.STRING else right


def arithmetic_arguments(name: str, given: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The types to which both sides are cast before the operation.

    Example:
        >>> arithmetic_arguments("/", [pa.int32(), pa.int64()])
        [DataType(double), DataType(double)]
    """
    arity = 1 if name == "~" else 2
    if len(given) != arity:
        raise InvalidInput(f"{name} takes {arity} arguments, not {len(given)}")
    kinds = [_as_number(name, kind) for kind in given]
    families = {family(kind) for kind in kinds}
    if name in _BITWISE and families != {Family.INTEGER}:
        raise InvalidInput(f"{name} takes integers only")
    if len(kinds) == 1:
        return kinds
    if Family.DECIMAL in families and Family.FLOAT not in families:
        return [decimal_of(kind) for kind in kinds]
    if name == "/":
        return [pa.float64(), pa.float64()]
    if name == "div" and families == {Family.INTEGER}:
        return [pa.int64(), pa.int64()]
    return [comparison_type(*kinds)] * 2


def arithmetic_result(name: str, arguments: Sequence[pa.DataType]) -> pa.DataType:
    """The type of the result for arguments cast to `arithmetic_arguments`.

    Example:
        >>> arithmetic_result("*", [pa.decimal128(5, 2), pa.decimal128(4, 1)]).precision
        10
    """
    if name == "div":
        return pa.int64()
    if not pa.types.is_decimal(arguments[0]):
        return arguments[0]
    left, right = arguments
    left_whole, right_whole = left.precision - left.scale, right.precision - right.scale
    scale = max(left.scale, right.scale)
    match name:
        case "+" | "-":
            return _decimal(max(left_whole, right_whole) + scale + 1, scale)
        case "*":
            return _decimal(left.precision + right.precision + 1, left.scale + right.scale)
        case "/":
            scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
            return _decimal(left_whole + right.scale + scale, scale)
        case _:
            return _decimal(min(left_whole, right_whole) + scale, scale)


def _as_number(name: str, kind: pa.DataType) -> pa.DataType:
    if family(kind) in _NUMBERS:
        return kind
    if family(kind) in (Family.STRING, Family.NULL):
        return pa.float64()
    raise InvalidInput(f"{name} cannot take {type_name(kind)}")


def _decimal(precision: int, scale: int) -> pa.DataType:
    if precision <= MAX_PRECISION:
        return pa.decimal128(max(precision, 1), scale)
    kept = max(MAX_PRECISION - (precision - scale), min(scale, _LEAST_SCALE))
    return pa.decimal128(MAX_PRECISION, kept)
