"""Constants of Spark SQL: numbers with suffixes, typed strings, binary.

An integer is INT, BIGINT or DECIMAL, the first of these that holds it; `20.5` is DECIMAL(3,1); a
number with an exponent is DOUBLE; the suffixes are L, S, Y, D, F and BD.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, DecimalException

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidDefinition
from lakedex.expr.literal_cast import parse_date, parse_timestamp, parse_timestamp_ntz
from lakedex.expr.tree import Cast, Expr, Literal

MAX_PRECISION = 38
"""The greatest precision of decimals in Spark and of Arrow's decimal128."""

_WHOLE_TYPES = {"Y": pa.int8(), "S": pa.int16(), "L": pa.int64()}
_EXACT = Context(prec=4096)


def number(text: str, *, negative: bool = False) -> Literal:
    """The literal of a number with its sign.

    Example:
        >>> number("20.5"), number("7L", negative=True).value
        (Literal(value=Decimal('20.5'), type=Decimal128Type(decimal128(3, 1))), -7)
    """
    body, suffix = _split(text)
    signed = f"-{body}" if negative else body
    if suffix in _WHOLE_TYPES:
        return _whole(signed, text, [_WHOLE_TYPES[suffix]])
    if suffix == "BD":
        return decimal_literal(_decimal(signed, text), text)
    if suffix == "F":
        with np.errstate(over="ignore"):
            return Literal(_finite(float(np.float32(float(signed))), text), pa.float32())
    if suffix == "D" or "E" in body:
        return Literal(_finite(float(signed), text), pa.float64())
    if "." in body:
        return decimal_literal(_decimal(signed, text), text)
    return _whole(signed, text, [pa.int32(), pa.int64()])


def decimal_literal(value: Decimal, text: str) -> Literal:
    """A decimal with the narrowest type that holds it, as in Spark."""
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise InvalidDefinition(f"{text} is not a decimal number")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    if precision > MAX_PRECISION:
        raise InvalidDefinition(f"{text} has more than {MAX_PRECISION} digits")
    plain = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return Literal(plain, pa.decimal128(precision, scale))


def typed_string(kind: str, text: str) -> Expr:
    """`DATE '…'`, `TIMESTAMP '…'` or `TIMESTAMP_NTZ '…'`.

    A timestamp without a time zone stays a cast, because binding has the session's time zone.
    """
    if kind == "DATE":
        return Literal(_present(parse_date(text), kind, text), pa.date32())
    if kind == "TIMESTAMP_NTZ":
        return Literal(_present(parse_timestamp_ntz(text), kind, text), pa.timestamp("us"))
    zoned = pa.timestamp("us", "UTC")
    in_utc = _present(parse_timestamp(text, "UTC"), kind, text)
    if in_utc == parse_timestamp(text, "Etc/GMT+7"):
        return Literal(in_utc, zoned)
    return Cast(Literal(text, pa.string()), zoned)


def binary(text: str) -> Literal:
    r"""The bytes of `X'..'`; an odd digit count gets a leading zero, as in Spark.

    Example:
        >>> binary("1ff").value
        b'\x01\xff'
    """
    padded = f"0{text}" if len(text) % 2 else text
    if not all(letter in "0123456789abcdefABCDEF" for letter in padded):
        raise InvalidDefinition(f"X'{text}' contains characters other than hexadecimal digits")
    return Literal(bytes.fromhex(padded), pa.binary())


def _split(text: str) -> tuple[str, str]:
    upper = text.upper()
    for suffix in ("BD", "L", "S", "Y", "D", "F"):
        if upper.endswith(suffix):
            return upper[: -len(suffix)], suffix
    return upper, ""


def _whole(signed: str, text: str, types: list[pa.DataType]) -> Literal:
    if len(signed) > MAX_PRECISION + 1 or not signed.lstrip("-").isdecimal():
        raise InvalidDefinition(f"{text} is not an integer in range")
    value = int(signed)
    for arrow_type in types:
        bound = 1 << (arrow_type.bit_width - 1)
        if -bound <= value < bound:
            return Literal(value, arrow_type)
    if len(types) == 1:
        raise InvalidDefinition(f"{text} is out of the range of its suffix")
    return decimal_literal(Decimal(value), text)


def _decimal(signed: str, text: str) -> Decimal:
    try:
        value = Decimal(signed)
    except DecimalException:
        raise InvalidDefinition(f"{text} is not a decimal number") from None
    if abs(value.adjusted()) > 2 * MAX_PRECISION:
        raise InvalidDefinition(f"{text} has more than {MAX_PRECISION} digits")
    return value


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise InvalidDefinition(f"{text} is out of the range of floating point numbers")
    return value


def _present(value: object, kind: str, text: str) -> object:
    if value is None:
        raise InvalidDefinition(f"'{text}' is not a {kind}")
    return value
