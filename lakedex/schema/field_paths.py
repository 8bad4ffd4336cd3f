"""Columns, and fields within struct columns, by dotted paths such as `home.city`.

Names of columns have no dots.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def column_at(path: str) -> str:
    """The column that holds what a path names.

    Example:
        >>> column_at("home.city"), column_at("city")
        ('home', 'city')
    """
    return path.partition(".")[0]


def type_at(path: str, schema: pa.Schema) -> pa.DataType | None:
    """The type of a column or field; None where there is none.

    Example:
        >>> schema = pa.schema([("home", pa.struct([("city", pa.string())]))])
        >>> type_at("home.city", schema)
        DataType(string)
        >>> type_at("home.zip", schema) is None
        True
    """
    column, *fields = path.split(".")
    if column not in schema.names:
        return None
    kind: pa.DataType = schema.field(column).type
    for name in fields:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def values_at(path: str, rows: pa.Table) -> pa.ChunkedArray:
    """The values of a column or field; null where a struct on the way is.

    Example:
        >>> rows = pa.table({"home": [{"city": "oslo"}, None]})
        >>> values_at("home.city", rows).to_pylist()
        ['oslo', None]
    """
    column, *fields = path.split(".")
    return pc.struct_field(rows[column], fields) if fields else rows[column]
