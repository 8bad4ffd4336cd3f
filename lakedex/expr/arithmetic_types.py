"""The types of arithmetic, by Spark 3.5's rules without ANSI mode.

Whole numbers meet in the wider type, except that `/` is always a DOUBLE or a decimal; strings
become DOUBLE; decimals keep their own types and the result has room for every digit up to 38,
giving up digits after the point first but never below six.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.coercion import MAX_PRECISION, Family, comparison_type, decimal_of, family
from lakedex.schema.sql_type import type_name

_LEAST_SCALE = 6
_BITWISE = frozenset("&|^~")
_NUMBERS = {Family.INTEGER, Family.FLOAT, Family.DECIMAL}


def arithmetic_arguments(name: str, given: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The types to which both sides are cast before the operation.

    Example:
        >>> arithmetic_arguments("/", [pa.int32(), pa.int64()])
        [DataType(double), DataType(double)]
    """
    if len(given) != (1 if name == "~" else 2):
        raise InvalidInput(f"{name} was given {len(given)} arguments")
    kinds = [_as_number(name, kind) for kind in given]
    families = {family(kind) for kind in kinds}
    if name in _BITWISE and families != {Family.INTEGER}:
        raise InvalidInput(f"{name} takes whole numbers only")
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
