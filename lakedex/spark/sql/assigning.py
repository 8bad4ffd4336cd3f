"""The assignments of INSERT, UPDATE and MERGE: columns, struct fields, defaults, store rules.

Types that cannot be stored in a column are refused before anything runs; a value that does not fit,
such as a number that is too large, fails the statement instead of being changed.

Where the session allows defaults for our tables (`spark.sql.defaultColumn.allowedProviders`), the
catalog keeps them; a column without one is null. A row that moves to another partition is written
as the new row, and the old one marked as deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakedex.errors import InvalidInput
from lakedex.spark.sql.context import Context, Statement
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, Plans, kind, listed, name_parts, quoted
from lakedex.spark.table import SparkTable
from lakedex.write.rows import DELETE

_CURRENT = "CURRENT_DEFAULT"
_WORD = "DEFAULT"
_NULL = "NULL"


def column_defaults(named: NamedTable) -> dict[str, str]:
    """The expressions that the catalog has as defaults, by the names of the columns."""
    if named.entry is None:
        return {}
    found = {}
    for field in named.entry.schema().fields():
        if field.metadata().contains(_CURRENT):
            found[str(field.name())] = str(field.metadata().getString(_CURRENT))
    return found


def default_of(defaults: Mapping[str, str], name: str) -> Column:
    """The value of a column that rows leave out."""
    return fn.expr(defaults[name]) if name in defaults else fn.lit(None)


def with_default_values(
    context: Context, query: Node, columns: list[str], defaults: dict[str, str]
) -> Node:
    """A list of VALUES with what DEFAULT stands for; another query as it is.

    Args:
        context: The session.
        query: The query of the INSERT.
        columns: The columns that it fills, in order.
        defaults: Their defaults.
    """
    if kind(query) != "UnresolvedInlineTable":
        return query
    # A list of values takes plain expressions only, and Spark 4 wraps those of columns.
    parser = context.spark._jsparkSession.sessionState().sqlParser()
    changed, rows = False, []
    for row in listed(query.rows()):
        values = listed(row)
        for at, value in enumerate(values):
            if is_default(value) and at < len(columns):
                values[at] = parser.parseExpression(defaults.get(columns[at], _NULL))
                changed = True
        rows.append(context.plans.sequence(values))
    if not changed:
        return query
    made = context.plans.sequence(rows)
    return query.copy(query.names(), made)


def is_default(value: Node) -> bool:
    """Whether an expression is the word DEFAULT."""
    if kind(value) != "UnresolvedAttribute":
        return False
    return [str(part).upper() for part in listed(value.nameParts())] == [_WORD]


def moves_rows(table: SparkTable, assigned: Sequence[str]) -> bool:
    """Whether rows get another partition under an index that does not follow them there."""
    if not set(assigned) & set(table.snapshot.config.partition_fields):
        return False
    return not table.writer().target().options.index_type.is_global


def with_moves(
    rows: DataFrame,
    partition_fields: Sequence[str],
    old: Mapping[str, Column],
    new: Mapping[str, Column],
    *,
    goes: Column | None = None,
    is_update: Column | None = None,
) -> DataFrame:
    """The new values of rows under the names of columns, and old rows where partitions differ.

    Args:
        rows: Rows that have both.
        partition_fields: The columns that say the partition.
        old: The values before, by the names of columns.
        new: The values after.
        goes: Whether a row is to be deleted; by default none is.
        is_update: Whether a row has values before; by default all have.
    """
    never = fn.expr("false")
    is_gone = never if goes is None else goes
    differs = [~old[name].eqNullSafe(new[name]) for name in partition_fields]
    moves = reduce(lambda left, right: left | right, differs) & ~is_gone
    if is_update is not None:
        moves = moves & is_update
    kept = fn.struct(*[value.alias(name) for name, value in new.items()], is_gone.alias(DELETE))
    gone = fn.struct(
        *[value.alias(name) for name, value in old.items()], fn.expr("true").alias(DELETE)
    )
    pairs = fn.when(moves, fn.array(kept, gone)).otherwise(fn.array(kept))
    return rows.select(fn.explode(pairs).alias("row")).select("row.*")


_FROM_TEXT = (NumericType, BooleanType, DateType, TimestampType)
_POLICY = "spark.sql.storeAssignmentPolicy"


def assigned(
    plans: Plans, rows: DataFrame, names: Sequence[str], fields: Sequence[StructField]
) -> DataFrame:
    """Rows with some columns brought to the types and names of a table's columns.

    Args:
        plans: Makes the casts.
        rows: The rows; the wanted columns have names that differ.
        names: The columns of the rows to take, in order.
        fields: The columns of the table that they become.

    Raises:
        InvalidInput: A column's type cannot be stored in the table's column.
    """
    schema = {field.name: field.dataType for field in rows.schema}
    columns = []
    for name, field in zip(names, fields, strict=True):
        given = schema[name]
        column = rows[quoted(name)]
        if given != field.dataType:
            check_storable(plans, given, field)
            column = stored(plans, column, field.dataType)
        columns.append(column.alias(field.name))
    return rows.select(columns)


def check_assignable(plans: Plans, given: DataType, field: StructField) -> None:
    """The same for UPDATE and MERGE, where Hudi also takes text for a plain value."""
    if not (isinstance(given, StringType) and isinstance(field.dataType, _FROM_TEXT)):
        check_storable(plans, given, field)


def check_storable(plans: Plans, given: DataType, field: StructField) -> None:
    """Refuse a type that Spark's own INSERT would refuse for a column."""
    if str(plans.spark.conf.get(_POLICY)).upper() == "LEGACY":
        return
    if not plans.may_store(given, field.dataType):
        raise InvalidInput(
            f"column {field.name} is {field.dataType.simpleString()}, and "
            f"{given.simpleString()} cannot be stored in it; write a CAST"
        )


def stored(plans: Plans, column: Column, target: DataType) -> Column:
    """A column cast to a type; a value that does not fit fails the statement."""
    return plans.strict_cast(column, target)


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
    """Texts that identify rows, in the order of the meta columns; only a MERGE needs them."""

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
    """A struct with some fields replaced; of a null one all other fields are null."""
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
