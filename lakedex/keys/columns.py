"""Finding a column by its name, or a field of a struct by `column.field`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput


def type_of(schema: pa.Schema, name: str, *, role: str) -> pa.DataType:
    """The type of a column or of a field inside one; `role` says what it is for.

    Example:
        >>> schema = pa.schema([("s", pa.struct([("id", pa.int32())]))])
        >>> str(type_of(schema, "s.id", role="record key"))
        'int32'

    Raises:
        InvalidInput: there is no such column.
    """
    if schema.get_field_index(name) >= 0:
        return schema.field(name).type
    first, *rest = name.split(".")
    field = _child(schema, first)
    for part in rest:
        inside = field is not None and pa.types.is_struct(field.type)
        field = _child(field.type, part) if field is not None and inside else None
    if field is None or not rest:
        columns = ", ".join(schema.names[:20])
        raise InvalidInput(f"there is no {role} column {name!r}; the columns are {columns}")
    return field.type


def values_of(rows: pa.Table, name: str, *, role: str) -> pa.Array:
    """The values of a column, or of a field inside one, as one array.

    Raises:
        InvalidInput: the rows have no such column.
    """
    type_of(rows.schema, name, role=role)
    if rows.schema.get_field_index(name) >= 0:
        return _whole(rows.column(name))
    first, *rest = name.split(".")
    return pc.struct_field(_whole(rows.column(first)), rest)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    plain = column.combine_chunks()
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain


def _child(parent: pa.Schema | pa.StructType, name: str) -> pa.Field | None:
    at = parent.get_field_index(name)
    return parent.field(at) if at >= 0 else None
