"""Spark's types, as they are written in a plan, against Arrow's."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakedex.expr.coercion import Family, family

_DECIMAL = "decimal("
_MOST_DIGITS = 38
_PLAIN: Mapping[str, pa.DataType] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(name: str) -> pa.DataType | None:
    """The Arrow type of a Spark type; None for types that predicates are not translated over.

    Strings with a collation, char and varchar, intervals and nested types are among those: a text
    in another collation is neither equal nor ordered as its bytes are.

    Example:
        >>> arrow_type("decimal(10,2)"), arrow_type("string collate UNICODE")
        (Decimal128Type(decimal128(10, 2)), None)
    """
    if not name.startswith(_DECIMAL):
        return _PLAIN.get(name)
    precision, _, scale = name.removeprefix(_DECIMAL).removesuffix(")").partition(",")
    if not precision.isdigit() or not scale.isdigit() or not 0 < int(precision) <= _MOST_DIGITS:
        return None
    return pa.decimal128(int(precision), int(scale))


def same_meaning(stored: pa.DataType, seen: pa.DataType) -> bool:
    """Whether values of a stored type are what Spark sees in a type of its own, unchanged.

    Example:
        >>> same_meaning(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"))
        True
        >>> same_meaning(pa.int32(), pa.int64())
        False
    """
    if stored == seen:
        return True
    kind = family(stored)
    if kind is not family(seen):
        return False
    if kind in (Family.TIMESTAMP, Family.TIMESTAMP_NTZ):
        # Spark would cut off what a nanosecond adds.
        return bool(stored.unit != "ns")
    return kind in (Family.STRING, Family.BINARY)
