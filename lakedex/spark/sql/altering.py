"""ALTER TABLE, TRUNCATE TABLE and SHOW PARTITIONS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from lakedex.config import keys, table_checksum
from lakedex.config.new_layout import LAYOUT_PROPERTIES
from lakedex.config.option_check import check_options, is_own_name, is_write_option
from lakedex.config.restated_options import check_restated
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.keys.partition_path import DEFAULT_PARTITION
from lakedex.services.partition_evolving import change_layout
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.saving import spelled_out
from lakedex.spark.sql import columns
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.inserting import WRITE_OPERATION
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import (
    add_partition,
    forget_partition,
    matching_partitions,
    partition_path,
    partition_paths,
    shown_partition,
    shown_partitions,
)
from lakedex.spark.sql.plans import Node, kind, listed, mapped, member, name_parts, optional
from lakedex.write import operation as kinds

Change = Callable[[Context, Statement, NamedTable], None]
_REFUSED = {
    "ReplaceColumns": "ALTER TABLE ... REPLACE COLUMNS",
    "SetTableLocation": "ALTER TABLE ... SET LOCATION",
    "RenamePartitions": "ALTER TABLE ... RENAME PARTITION",
    "AlterTableClusterBy": "ALTER TABLE ... CLUSTER BY",
    "AlterTableCollation": "ALTER TABLE ... DEFAULT COLLATION",
}


def alter(context: Context, statement: Statement) -> Prepared | None:
    """A change of the table itself; None where the table is not ours."""
    named = context.names.find(_parts(statement.plan))
    if named is None:
        return None
    what = kind(statement.plan)
    if what in _REFUSED:
        return Prepared(partial(_refuse, _REFUSED[what]))
    return Prepared(partial(_CHANGES[what], context, statement, named))


def show_partitions(context: Context, statement: Statement) -> Prepared | None:
    """SHOW PARTITIONS; None where the table is not ours."""
    named = context.names.find(_parts(statement.plan))
    if named is None:
        return None
    return Prepared(partial(_partitions, context, statement, named), is_query=True)


def _parts(plan: Node) -> tuple[str, ...]:
    for name in ("table", "child", "name"):
        node = member(plan, name)
        # The name of some is only a text.
        if isinstance(node, JavaObject) and kind(node).startswith("Unresolved"):
            return name_parts(node)
    return ()


def _refuse(what: str) -> None:
    raise UnsupportedFeature(f"{what} of a Hudi table")


def _partitions(context: Context, statement: Statement, named: NamedTable) -> DataFrame:
    table = context.open(named)
    wanted = optional(statement.plan.pattern())
    paths = shown_partitions(table)
    if wanted is not None:
        paths = matching_partitions(table, _values(wanted), paths)
    shown = [(shown_partition(table, path),) for path in paths]
    return context.spark.createDataFrame(shown, "partition string")


def _values(spec: Node) -> dict[str, str]:
    given = mapped(spec.spec()).items()
    return {name: DEFAULT_PARTITION if each is None else str(each) for name, each in given}


def _set_properties(context: Context, statement: Statement, named: NamedTable) -> None:
    plan, pairs = statement.plan, member(statement.plan, "properties")
    if pairs is None:
        # Scripts for Hudi say write options as SERDEPROPERTIES too; a serde is Spark's to refuse.
        pairs = optional(plan.serdeProperties())
    table = context.open(named)
    given = spelled_out({} if pairs is None else mapped(pairs))
    folders = {name: given.pop(name) for name in LAYOUT_PROPERTIES if name in given}
    check_options(given, may_be_own=True)
    chosen = {
        name: value
        for name, value in given.items()
        if is_write_option(name) or is_own_name(name) or name == WRITE_OPERATION
    }
    fixed = [name for name in given if name not in chosen and name in table.properties]
    if fixed:
        raise InvalidInput(f"{fixed[0]} was settled when table {table.name} was made")
    check_restated(table.snapshot.config, given)
    if folders:
        change_layout(table.address, table.writer().target().patience, folders)
    table.keep_options(chosen)
    if named.entry is not None:
        context.plans.rows(statement.plan)
        context.refresh(named)


def _unset_properties(context: Context, statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    given = spelled_out({str(name): "" for name in listed(statement.plan.propertyKeys())})
    fixed = [name for name in given if name in table.snapshot.config.raw]
    if fixed:
        raise InvalidInput(f"{fixed[0]} was settled when table {table.name} was made")
    table.forget_options(list(given))
    if named.entry is not None:
        context.plans.rows(statement.plan)
        context.refresh(named)


def _rename(context: Context, statement: Statement, named: NamedTable) -> None:
    if named.entry is None:
        raise InvalidInput("a table that is named by its path cannot be renamed")
    context.plans.rows(statement.plan)
    parts = tuple(str(part) for part in listed(statement.plan.newName()))
    if len(parts) == 1:
        parts = (str(named.entry.database()), *parts)
    renamed = context.names.find(parts)
    if renamed is not None:
        table = context.open(renamed)
        name, database = str(renamed.identifier.table()), str(renamed.entry.database())
        checksum = str(table_checksum(name, database))
        table.change_properties(
            {keys.TABLE_NAME: name, keys.DATABASE_NAME: database, keys.TABLE_CHECKSUM: checksum}
        )


def _truncate(context: Context, _statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    empty = context.spark.createDataFrame([], own_columns(table))
    writer = table.writer(context.write_options(table))
    writer.run(kinds.INSERT_OVERWRITE_TABLE, DataFrameSource(empty))
    context.refresh(named)


def _drop_partitions(context: Context, statement: Statement, named: NamedTable) -> None:
    plan = statement.plan
    is_truncate = kind(plan) == "TruncatePartition"
    specs = [plan.partitionSpec()] if is_truncate else listed(plan.parts())
    table = context.open(named)
    known = shown_partitions(table)
    paths: set[str] = set()
    for spec in specs:
        found = matching_partitions(table, _values(spec), known, wildcards=True)
        if not found and not is_truncate and not plan.ifExists():
            raise InvalidInput(f"table {table.name} has no partition with {_values(spec)}")
        paths.update(found)
    filled = sorted(paths.intersection(partition_paths(table)))
    if filled:
        table.delete_partitions(filled)
        context.refresh(named)
    if not is_truncate:
        for path in paths:
            forget_partition(table, path)


def _add_partitions(context: Context, statement: Statement, named: NamedTable) -> None:
    """Partitions without rows yet; none is added if one is wrong."""
    table = context.open(named)
    known, paths = shown_partitions(table), []
    for each in listed(statement.plan.parts()):
        if optional(each.location()) is not None:
            raise UnsupportedFeature("ADD PARTITION with a LOCATION")
        path = partition_path(table, _values(each))
        if path not in known:
            paths.append(path)
        elif not statement.plan.ifNotExists():
            raise InvalidInput(f"table {table.name} has the partition {path} already")
    for path in paths:
        add_partition(table, path)


def _nothing_to_repair(_context: Context, _statement: Statement, _named: NamedTable) -> None:
    """The table itself knows its partitions, so that a catalog cannot miss one."""


def _nothing_to_analyze(_context: Context, _statement: Statement, _named: NamedTable) -> None:
    """Spark learns the live size from the table itself; what a catalog keeps would grow old."""


_CHANGES: dict[str, Change] = {
    **dict.fromkeys(columns.HANDLED, columns.change_columns),
    "UnsetTableProperties": _unset_properties,
    "SetTableProperties": _set_properties,
    "SetTableSerDeProperties": _set_properties,
    "RenameTable": _rename,
    "TruncateTable": _truncate,
    "TruncatePartition": _drop_partitions,
    "DropPartitions": _drop_partitions,
    "AddPartitions": _add_partitions,
    "RepairTable": _nothing_to_repair,
    "RecoverPartitions": _nothing_to_repair,
    "AnalyzeTable": _nothing_to_analyze,
    "AnalyzeColumn": _nothing_to_analyze,
}
HANDLED = (*_CHANGES, *_REFUSED)
