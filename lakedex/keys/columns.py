"""Finding a column by its name, or a field of a struct by `column.field`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.schema.field_paths import type_at, values_at


def type_of(schema: pa.Schema, name: str, *, role: str) -> pa.DataType:
    """The type of a column or of a field inside one; `role` says what it is for.

    Example:
        >>> schema = pa.schema([("s", pa.struct([("id", pa.int32())]))])
        >>> str(type_of(schema, "s.id", role="record key"))
        'int32'

    Raises:
        InvalidInput: there is no such column.
    """
    found = type_at(name, schema)
    if found is None:
        columns = ", ".join(schema.names[:20])
        raise InvalidInput(f"there is no {role} column {name!r}; the columns are {columns}")
    return found


def values_of(rows: pa.Table, name: str, *, role: str) -> pa.Array:
    """The values of a column, or of a field inside one, as one array.

    Raises:
        InvalidInput: the rows have no such column.
    """
    type_of(rows.schema, name, role=role)
    return _whole(values_at(name, rows))


def with_values(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The rows with other values in a column, or in a field inside one.

    Example:
        >>> rows = pa.table({"s": [{"id": 1, "city": "rio"}, None]})
        >>> with_values(rows, "s.city", pa.array(["oslo", None]))["s"].to_pylist()
        [{'id': 1, 'city': 'oslo'}, None]
    """
    first, *rest = [name] if rows.schema.get_field_index(name) >= 0 else name.split(".")
    at = rows.schema.get_field_index(first)
    changed = _with_child(_whole(rows.column(at)), rest, values) if rest else values
    return rows.set_column(at, rows.schema.field(at), changed)


def _with_child(struct: pa.StructArray, path: list[str], values: pa.Array) -> pa.StructArray:
    children = struct.flatten()
    at = struct.type.get_field_index(path[0])
    children[at] = values if len(path) == 1 else _with_child(children[at], path[1:], values)
    is_there = pc.or_(struct.is_valid(), children[at].is_valid())
    return pa.StructArray.from_arrays(children, fields=list(struct.type), mask=pc.invert(is_there))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    plain = column.combine_chunks()
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain
