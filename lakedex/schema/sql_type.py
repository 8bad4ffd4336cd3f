"""Spark's SQL type names as Arrow types."""

from __future__ import annotations

import pyarrow as pa

TYPE_NAMES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DECIMAL": pa.decimal128(10, 0),
    "DEC": pa.decimal128(10, 0),
    "NUMERIC": pa.decimal128(10, 0),
}
"""The Arrow type of every scalar type name; a decimal without digits is DECIMAL(10,0)."""

CAST_FUNCTIONS = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double"}
    | {"decimal", "date", "timestamp", "string", "binary"}
)
"""Type names that Spark also knows as functions of one argument."""


def type_name(arrow_type: pa.DataType) -> str:
    """The SQL name of an Arrow type, for messages.

    Example:
        >>> type_name(pa.int64()), type_name(pa.decimal128(5, 2))
        ('BIGINT', 'DECIMAL(5,2)')
    """
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_timestamp(arrow_type):
        return "TIMESTAMP_NTZ" if arrow_type.tz is None else "TIMESTAMP"
    if pa.types.is_large_string(arrow_type):
        return "STRING"
    for name, known in TYPE_NAMES.items():
        if known == arrow_type:
            return name
    return str(arrow_type).upper()
