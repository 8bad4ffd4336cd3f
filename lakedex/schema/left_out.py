"""Columns of a table that rows leave out: what they would replace becomes null.

In Hudi such rows are refused unless an option says that null is meant, as a column that was
forgotten looks the same as one that was emptied on purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from lakedex.schema.storable import is_list


def columns_left_out(
    table_schema: pa.Schema, incoming: pa.Schema, *, optional: Collection[str] = ()
) -> list[str]:
    """The columns, and fields of structs, that rows of a schema lack, as dotted paths.

    Args:
        table_schema: The table's own columns.
        incoming: Those of the rows.
        optional: Columns that rows need not have.

    Example:
        >>> point = pa.struct([("x", pa.int32()), ("y", pa.int32())])
        >>> table = pa.schema([("id", pa.string()), ("at", point), ("name", pa.string())])
        >>> rows = pa.schema([("id", pa.string()), ("at", pa.struct([("x", pa.int32())]))])
        >>> columns_left_out(table, rows)
        ['at.y', 'name']
    """
    wanted = [field for field in table_schema if field.name not in optional]
    return _lacking(wanted, {field.name: field.type for field in incoming}, "")


def _lacking(stored: Iterable[pa.Field], given: dict[str, pa.DataType], parent: str) -> list[str]:
    found = []
    for field in stored:
        path = f"{parent}{field.name}"
        if field.name in given:
            found += _inside(field.type, given[field.name], path)
        else:
            found.append(path)
    return found


def _inside(stored: pa.DataType, given: pa.DataType, path: str) -> list[str]:
    if pa.types.is_struct(stored) and pa.types.is_struct(given):
        return _lacking(stored, {field.name: field.type for field in given}, f"{path}.")
    if pa.types.is_map(stored) and pa.types.is_map(given):
        return _inside(stored.item_type, given.item_type, f"{path}.value")
    if is_list(stored) and is_list(given):
        return _inside(stored.value_type, given.value_type, f"{path}.element")
    return []
