"""Columns, and fields within struct columns, by dotted paths such as `home.city`.

Names of columns that lakedex makes have no dots; a column whose whole name is the path comes first.

Also Arrow columns as one array, and arrays that are rebuilt from the buffers of others.
"""

from __future__ import annotations

import numpy as np
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
    inside: pa.Schema | pa.DataType = schema
    for name in _steps(path, schema):
        is_open = isinstance(inside, pa.Schema) or pa.types.is_struct(inside)
        if not is_open or inside.get_field_index(name) < 0:
            return None
        inside = inside.field(name).type
    return inside


def values_at(path: str, rows: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array:
    """The values of a column or field, chunked as the rows are; null where a struct on the way is.

    Example:
        >>> rows = pa.table({"home": [{"city": "oslo"}, None]})
        >>> values_at("home.city", rows).to_pylist()
        ['oslo', None]
    """
    column, *fields = _steps(path, rows.schema)
    return pc.struct_field(rows[column], fields) if fields else rows[column]


def _steps(path: str, schema: pa.Schema) -> list[str]:
    return [path] if schema.get_field_index(path) >= 0 else path.split(".")


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values of a column in one piece.

    Example:
        >>> flat(pa.chunked_array([[1], [2, 3]])).to_pylist()
        [1, 2, 3]
        >>> flat(pa.array(["a"])).to_pylist(), len(flat(pa.chunked_array([], pa.string())))
        (['a'], 0)
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # as some releases of Arrow leave a few types
        return pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.nulls(0, column.type)
    return whole


def validity_buffer(array: pa.Array) -> pa.Buffer | None:
    """The nulls of an array, slice or not, as a bitmap that starts at its first row."""
    if not array.null_count:
        return None
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(present, bitorder="little"))
