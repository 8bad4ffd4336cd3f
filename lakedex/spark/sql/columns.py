"""ALTER TABLE on columns: add, rename, drop, change the type, move and comment.

New columns at the end and wider types need only a commit. Other changes need the history of columns
of Hudi's schema-on-read evolution, which has to be switched on.

Files keep their values, and every later read converts them; a value that does not fit would fail
each of these reads. So before a change of type Spark scans the column once, where that can happen
at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.index.registry import is_named_index
from lakedex.schema.column_changes import (
    ColumnPosition,
    add_column,
    allow_null,
    drop_column,
    move_column,
    rename_column,
    retype_column,
)
from lakedex.schema.conversions import MORE_DIGITS, is_convertible
from lakedex.schema.reconcile import reconcile
from lakedex.spark.schemas import arrow_schema, spark_schema
from lakedex.spark.sql.context import Context, Statement, own_columns
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, listed, member, optional, quoted
from lakedex.spark.table import SparkTable
from lakedex.write import operation as kinds
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.write_schema import StoredSchema

_BY_HISTORY = "hoodie.schema.on.read.enable"
Step = Callable[[pa.Schema], pa.Schema]


@dataclass
class _Changes:
    """What a statement does to the columns."""

    steps: list[Step] = field(default_factory=list)
    needs_history: str = ""
    """The part that needs a history."""
    comments: dict[str, str] = field(default_factory=dict)
    checks: list[Callable[[], None]] = field(default_factory=list)
    """What is to be looked at before anything is changed."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Top-level columns by their new names, with the old ones."""


def change_columns(context: Context, statement: Statement, named: NamedTable) -> None:
    """Run one of the statements about columns."""
    table = context.open(named)
    changes = _UNDERSTOOD[kind(statement.plan)](statement, table)
    if changes.comments and named.entry is None:
        raise UnsupportedFeature("a comment on a column of a table that the catalog does not know")
    if changes.steps:
        _commit(context, table, changes)
    _tell_catalog(context, named, table, changes)
    context.refresh(named)


def _commit(context: Context, table: SparkTable, changes: _Changes) -> None:
    writer = table.writer(context.write_options(table))
    if table.snapshot.history is not None or _is_switched_on(context, table):
        for check in changes.checks:
            check()
        writer.change_columns(partial(_stepped, changes.steps))
        return
    if changes.needs_history:
        raise UnsupportedFeature(
            f"{changes.needs_history} without a history of columns (SET {_BY_HISTORY}=true, for "
            "this and for Hudi's own readers of the table)"
        )
    config = table.snapshot.config
    stored = pa.schema([table.schema.field(name) for name in own_columns(table).names])
    wanted = _stepped(changes.steps, stored)
    key_columns = (*config.record_key_fields, *config.partition_fields)
    reconcile(stored, wanted, key_columns=key_columns)
    rows = ArrowRowSource(wanted.empty_table())
    writer.run(kinds.ALTER_SCHEMA, rows, seen=writer.seen())


def _stepped(steps: list[Step], columns: pa.Schema) -> pa.Schema:
    return reduce(lambda known, step: step(known), steps, columns)


def _is_switched_on(context: Context, table: SparkTable) -> bool:
    setting = context.spark.conf.get(_BY_HISTORY, None) or table.properties.get(
        _BY_HISTORY, "false"
    )
    return str(setting).lower() == "true"


def _added(_statement: Statement, table: SparkTable) -> _Changes:
    changes = _Changes()
    for each in listed(_statement.plan.columnsToAdd()):
        parent = optional(each.path())
        path = [*([] if parent is None else _name(parent)), str(each.colName())]
        if not each.nullable():
            raise InvalidInput(f"column {'.'.join(path)} is new, so that it is null in all rows")
        place = _place(optional(each.position()))
        if place is not None:
            changes.needs_history = "ADD COLUMNS at a place"
        dtype = _arrow_type(each.dataType())
        changes.steps.append(partial(add_column, path=path, dtype=dtype, place=place))
        comment = optional(each.comment())
        if comment is not None and len(path) == 1:
            changes.comments[path[0]] = str(comment)
    _check_added(table, changes)
    return changes


def _check_added(table: SparkTable, changes: _Changes) -> None:
    """Let a name that is taken be refused with the table's name."""
    stored = pa.schema([table.schema.field(name) for name in own_columns(table).names])
    try:
        _stepped(changes.steps, stored)
    except InvalidInput as error:
        raise InvalidInput(f"table {table.name}: {error}") from error


def _renamed(statement: Statement, table: SparkTable) -> _Changes:
    plan = statement.plan
    path, name = _path(statement, plan.column(), table), str(plan.newName())
    _check_free_of_roles(table, path, "renamed")
    changes = _Changes([partial(rename_column, path=path, name=name)], "RENAME COLUMN")
    if len(path) == 1:
        changes.renamed[name] = path[0]
    return changes


def _dropped(statement: Statement, table: SparkTable) -> _Changes:
    plan = statement.plan
    changes = _Changes(needs_history="DROP COLUMN")
    for each in listed(plan.columnsToDrop()):
        if plan.ifExists() and _found(_name(each), table) is None:
            continue
        path = _path(statement, each, table)
        _check_free_of_roles(table, path, "dropped")
        changes.steps.append(partial(drop_column, path=path))
    return changes


def _altered(statement: Statement, table: SparkTable) -> _Changes:
    plan = statement.plan
    changes = _Changes()
    for spec in listed(plan.specs()) if kind(plan) == "AlterColumns" else [plan]:
        path = _path(statement, spec.column(), table)
        if _told(spec, "newDefaultExpression", "setDefaultExpression") is not None:
            raise UnsupportedFeature("a default of a column of a Hudi table")
        _take_nullability(changes, table, path, _told(spec, "newNullability", "nullable"))
        dtype = _told(spec, "newDataType", "dataType")
        if dtype is not None:
            wanted = _arrow_type(dtype)
            _check_key_type(table, path, wanted)
            old = _type_at(table, path)
            if is_convertible(old, wanted):
                _check_free_of_roles(table, path, "converted")
                changes.needs_history = f"ALTER COLUMN ... TYPE of {old} to {wanted}"
                changes.checks.append(partial(check_values, table, path, old, wanted))
            changes.steps.append(partial(retype_column, path=path, dtype=wanted))
        comment = _told(spec, "newComment", "comment")
        if comment is not None:
            if len(path) > 1:
                raise UnsupportedFeature("a comment on a field of a struct")
            changes.comments[path[0]] = str(comment)
        place = _place(_told(spec, "newPosition", "position"))
        if place is not None:
            changes.needs_history = "ALTER COLUMN ... FIRST or AFTER"
            changes.steps.append(partial(move_column, path=path, place=place))
    return changes


def _take_nullability(
    changes: _Changes, table: SparkTable, path: list[str], nullable: Node
) -> None:
    """SET NOT NULL and DROP NOT NULL; nothing where neither is said."""
    if nullable is not None and not nullable:
        raise UnsupportedFeature("ALTER COLUMN ... SET NOT NULL")
    columns = StoredSchema.of(table.snapshot).columns
    # Of fields inside of others it is not kept that they are never null.
    if nullable and len(path) == 1 and not columns.field(path[0]).nullable:
        changes.needs_history = "ALTER COLUMN ... DROP NOT NULL"
        changes.steps.append(partial(allow_null, path=path))


def _told(spec: Node, *names: str) -> Node:
    """A member that has another name in each release of Spark."""
    # One by one: what one release calls so may be something else in another, and fail.
    options = (member(spec, name) for name in names)
    found = next((option for option in options if option is not None), None)
    return None if found is None else optional(found)


def _place(position: Node) -> ColumnPosition | None:
    if position is None:
        return None
    place = position.position()
    return ColumnPosition(str(place.column()) if kind(place) == "After" else None)


def _name(node: Node) -> list[str]:
    return [str(part) for part in listed(node.name())]


def _found(parts: list[str], table: SparkTable) -> list[str] | None:
    """The path of a column in the spelling of the table."""
    path: list[str] = []
    within: pa.DataType = pa.struct([table.schema.field(name) for name in own_columns(table).names])
    for part in parts:
        if pa.types.is_list(within) and part.lower() == "element":
            path, within = [*path, "element"], within.value_type
            continue
        if pa.types.is_map(within) and part.lower() == "value":
            path, within = [*path, "value"], within.item_type
            continue
        fields = list(within) if pa.types.is_struct(within) else []
        known = next((each for each in fields if each.name.lower() == part.lower()), None)
        if known is None:
            return None
        path, within = [*path, known.name], known.type
    return path


def _type_at(table: SparkTable, path: list[str]) -> pa.DataType:
    within: pa.DataType = pa.struct(list(table.schema))
    for part in path:
        if pa.types.is_struct(within):
            within = within.field(part).type
        else:
            within = within.value_type if pa.types.is_list(within) else within.item_type
    return within


def _path(statement: Statement, node: Node, table: SparkTable) -> list[str]:
    parts = _name(node)
    path = _found(parts, table)
    if path is None:
        shown = ", ".join(own_columns(table).names)
        message = f"the table has no column {'.'.join(parts)!r}, only {shown},"
        raise statement.wrong(node, message, word=parts[-1])
    return path


def _check_free_of_roles(table: SparkTable, path: list[str], done: str) -> None:
    """Refuse to change a column by which records or indexes go."""
    snapshot = table.snapshot
    config = snapshot.config
    roles = {
        "a record key": config.record_key_fields,
        "an ordering": config.ordering_fields,
        "a partition": config.partition_fields,
    }
    name = ".".join(path)
    for role, names in roles.items():
        if any(each == name or each.startswith(f"{name}.") for each in names):
            raise InvalidInput(
                f"{name} is {role} column of table {table.name} and cannot be {done}"
            )
    for definition in snapshot.definitions.values():
        known = definition.source_fields
        if is_named_index(definition.name) and any(
            each == name or each.startswith(f"{name}.") for each in known
        ):
            raise InvalidInput(
                f"{name} has the index {definition.name} and cannot be {done}; DROP INDEX first"
            )


def _check_key_type(table: SparkTable, path: list[str], dtype: pa.DataType) -> None:
    """Refuse a type under which keys or folders would be spelled otherwise."""
    config = table.snapshot.config
    if ".".join(path) in (*config.record_key_fields, *config.partition_fields):
        old = table.schema.field(path[0]).type
        if old != dtype and (old, dtype) != (pa.int32(), pa.int64()):
            raise InvalidInput(
                f"column {path[0]} is part of keys or partition paths, so its type {old} cannot "
                f"become {dtype}"
            )


def _tell_catalog(
    context: Context, named: NamedTable, table: SparkTable, changes: _Changes
) -> None:
    """What DESCRIBE shows; queries use the schema of the table itself."""
    if named.entry is None:
        return
    before = {each.name: each for each in _catalog_fields(named)}
    comments = {name: each.metadata["comment"] for name, each in before.items() if _has(each)}
    comments |= {new: comments[old] for new, old in changes.renamed.items() if old in comments}
    comments |= changes.comments
    parts = {str(name) for name in listed(named.entry.partitionColumnNames())}
    fields = [
        StructField(each.name, each.dataType, metadata=_metadata(comments.get(each.name)))
        for each in spark_schema(table.schema)
        if each.name not in parts and (each.name in before or each.name not in META_COLUMNS)
    ]
    jvm = context.spark.sparkContext._jvm
    struct = jvm.org.apache.spark.sql.types.DataType.fromJson(StructType(fields).json())
    identifier = named.identifier
    # The session's own catalog lets no column go.
    context.names.catalog.externalCatalog().alterTableDataSchema(
        str(named.entry.database()), str(identifier.table()), struct
    )


def _has(column: StructField) -> bool:
    return "comment" in column.metadata


def _metadata(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {"comment": comment}


def _catalog_fields(named: NamedTable) -> list[StructField]:
    return list(StructType.fromJson(json.loads(named.entry.schema().json())))


def _arrow_type(jvm_type: Node) -> pa.DataType:
    tree = {"name": "x", "type": json.loads(jvm_type.json()), "nullable": True, "metadata": {}}
    return arrow_schema(StructType([StructField.fromJson(tree)])).field("x").type


_UNDERSTOOD: dict[str, Callable[[Statement, SparkTable], _Changes]] = {
    "AddColumns": _added,
    "RenameColumn": _renamed,
    "DropColumns": _dropped,
    "AlterColumn": _altered,
    "AlterColumns": _altered,
}
HANDLED = tuple(_UNDERSTOOD)


_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


def check_values(table: SparkTable, path: list[str], old: pa.DataType, new: pa.DataType) -> None:
    """Refuse a type in which a value of the column has no place.

    Raises:
        InvalidInput: Naming the column and one such value.
        UnsupportedFeature: The column is inside of a list or a map, where Spark cannot look.
    """
    spelled = _spelled(old, new)
    if not spelled:
        return
    within: pa.DataType = pa.struct(list(table.schema))
    for part in path:
        if not pa.types.is_struct(within):
            raise UnsupportedFeature(f"changing {'.'.join(path)} from {old} to {new}")
        within = within.field(part).type
    name = ".".join(map(quoted, path))
    kind = "DATE" if pa.types.is_date(new) else f"DECIMAL({new.precision},{new.scale})"
    fits = f"try_cast({name} AS {kind}) IS NOT NULL"
    if pa.types.is_string(old):
        fits = f"{name} RLIKE '{spelled}' AND {fits}"
    wrong = table.to_df().filter(f"{name} IS NOT NULL AND NOT ({fits})")
    found = wrong.select(fn.expr(f"cast({name} AS STRING)")).first()
    if found is not None:
        raise InvalidInput(
            f"column {'.'.join(path)} of table {table.name} cannot become {new}: {found[0]!r} "
            "has no place in it"
        )


def _spelled(old: pa.DataType, new: pa.DataType) -> str:
    """What texts look like that can be converted; nothing where every value can."""
    if pa.types.is_date(new) and pa.types.is_string(old):
        return _DATE
    if pa.types.is_decimal(new) and not pa.types.is_decimal(old):
        return rf"^[+-]?[0-9]{{1,38}}([.][0-9]{{1,{new.scale + MORE_DIGITS}}})?$"
    return ""
