"""Finding a column, or a field inside struct columns, by the path that was written."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.tree import Column, Expr, Unknown


def resolve_column(column: Column, schema: pa.Schema, *, case_sensitive: bool) -> Expr:
    """The column under its true name, with its type.

    A column that a translator already typed otherwise than the schema is `Unknown`: its meaning
    was settled for another type.

    Raises:
        InvalidInput: No column has that name, or several do.

    Example:
        >>> resolve_column(Column(("ID",)), pa.schema([("id", pa.int64())]), case_sensitive=False)
        Column(path=('id',), type=DataType(int64))
    """
    fields: Sequence[pa.Field] = list(schema)
    path: list[str] = []
    kind: pa.DataType = pa.null()
    for depth, name in enumerate(column.path):
        field = _find(column, name, fields, case_sensitive=case_sensitive)
        path.append(field.name)
        kind = field.type
        last = depth == len(column.path) - 1
        if not last and not pa.types.is_struct(kind):
            raise InvalidInput(f"{column.name}: {'.'.join(path)} is {kind}, which has no fields")
        fields = [] if last else [kind.field(index) for index in range(kind.num_fields)]
    if not path:
        raise InvalidInput("a column needs a name")
    if column.type is not None and column.type != kind:
        return Unknown(f"{column.name} was taken for {column.type} but is {kind}")
    return Column(tuple(path), kind)


def _find(
    column: Column, name: str, fields: Sequence[pa.Field], *, case_sensitive: bool
) -> pa.Field:
    if case_sensitive:
        found = [field for field in fields if field.name == name]
    else:
        found = [field for field in fields if field.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(field.name for field in found)
        raise InvalidInput(f"{column.name[:200]} is ambiguous; it can be any of {names}")
    by_lower = {field.name.lower(): field.name for field in fields}
    near = [by_lower[match] for match in get_close_matches(name.lower(), by_lower)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise InvalidInput(f"there is no column {column.name[:200]}{hint}")
