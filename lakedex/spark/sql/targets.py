"""What UPDATE and MERGE assign to: columns of the target, and fields of its structs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from lakedex.spark.sql.context import Context, Statement
from lakedex.spark.sql.default_values import default_of, is_default
from lakedex.spark.sql.plans import Node, kind, listed, name_parts

Fields = dict[str, "Column | Fields"]
"""The new values of some fields of a struct, by name."""


@dataclass(frozen=True)
class Target:
    """The table that a statement assigns to."""

    table: Node
    """As the statement has it, with its alias."""
    columns: StructType
    defaults: Mapping[str, str]
    """The columns that have a default, each with its expression."""
    record_key: tuple[str, ...] = ()
    """The columns by which a record is known, none where every row has a key of its own."""
    identity: tuple[str, ...] = ()
    """Texts that tell rows apart, in the order of the meta columns; only a MERGE needs them."""

    def default(self, name: str) -> Column:
        """What DEFAULT means for a column."""
        return default_of(self.defaults, name).cast(self.columns[name].dataType)


def target_names(table: Node) -> tuple[str, ...]:
    """What may stand before a column of the target: its alias, or the parts of its name."""
    if kind(table) == "SubqueryAlias":
        return (str(table.identifier().name()),)
    return name_parts(table)


def assigned_values(
    context: Context,
    statement: Statement,
    assignments: Node,
    target: Target,
    old: Callable[[str], Column] | None = None,
) -> dict[str, Column]:
    """The new values that a list of assignments gives to columns.

    Args:
        context: The session.
        statement: The statement that they stand in.
        assignments: Spark's form of them.
        target: The table of the statement.
        old: Gives the value that a column has before; None where there is none, as for new rows.

    Raises:
        InvalidDefinition: The table has no such column or field, or one is assigned twice.
    """
    values: Fields = {}
    columns, names = target.columns, target_names(target.table)
    for each in listed(assignments):
        path = _path(statement, each.key(), columns, names)
        if old is None and len(path) > 1:
            raise statement.wrong(
                each.key(), f"{'.'.join(path)} is a field: a new row needs the struct {path[0]},"
            )
        inner = values
        for part in path[:-1]:
            found = inner.setdefault(part, {})
            if not isinstance(found, dict):
                raise statement.wrong(each.key(), f"{'.'.join(path)} is assigned twice,")
            inner = found
        if path[-1] in inner:
            raise statement.wrong(each.key(), f"{'.'.join(path)} is assigned twice,")
        if is_default(each.value()) and len(path) == 1:
            inner[path[-1]] = target.default(path[-1])
        else:
            inner[path[-1]] = context.plans.column(each.value())
    return {
        name: value
        if not isinstance(value, dict) or old is None
        else _rebuilt(old(name), columns[name].dataType, value)
        for name, value in values.items()
    }


def _rebuilt(whole: Column, kind_of: StructType, fields: Fields) -> Column:
    """A struct with some fields anew; of a null one all other fields are null."""
    members = []
    for field in kind_of:
        value = fields.get(field.name)
        if value is None:
            value = whole.getField(field.name)
        elif isinstance(value, dict):
            value = _rebuilt(whole.getField(field.name), field.dataType, value)
        members.append(value.alias(field.name))
    return fn.struct(*members)


def _path(
    statement: Statement, key: Node, columns: StructType, names: tuple[str, ...]
) -> list[str]:
    """The column of the target that an assignment is to, and the field in it."""
    parts = [str(part) for part in listed(key.nameParts())]
    before = [name.lower() for name in names]
    for cut in range(len(parts) - 1, 0, -1):
        if [part.lower() for part in parts[:cut]] == before[-cut:] and cut <= len(before):
            parts = parts[cut:]
            break
    path: list[str] = []
    within = columns
    for part in parts:
        known = within.names if isinstance(within, StructType) else []
        found = next((name for name in known if name.lower() == part.lower()), None)
        if found is None:
            what = "the table" if not path else ".".join(path)
            noun = "column" if not path else "field"
            shown = ", ".join(known) or "none"
            raise statement.wrong(key, f"{what} has no {noun} {part!r}, only {shown},")
        path.append(found)
        within = within[found].dataType
    return path
