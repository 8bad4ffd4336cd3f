"""ALTER TABLE, TRUNCATE TABLE and SHOW PARTITIONS."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from lakedex.config import keys, table_checksum
from lakedex.config.option_check import check_option_names, is_write_option
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.schema.reconcile import reconcile
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.schemas import arrow_schema
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.creating import spelled_out
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import matching_partitions, partition_paths
from lakedex.spark.sql.plans import Node, kind, listed, mapped, member, name_parts, optional
from lakedex.spark.table import SparkTable
from lakedex.write import operation as kinds
from lakedex.write.row_source import ArrowRowSource

Change = Callable[[Context, Statement, NamedTable], None]
_REFUSED = {
    "RenameColumn": "ALTER TABLE ... RENAME COLUMN",
    "DropColumns": "ALTER TABLE ... DROP COLUMN",
    "ReplaceColumns": "ALTER TABLE ... REPLACE COLUMNS",
    "UnsetTableProperties": "ALTER TABLE ... UNSET TBLPROPERTIES",
    "SetTableLocation": "ALTER TABLE ... SET LOCATION",
    "AddPartitions": "ALTER TABLE ... ADD PARTITION (partitions come with their rows)",
    "RenamePartitions": "ALTER TABLE ... RENAME PARTITION",
    "RepairTable": "MSCK REPAIR TABLE (the table itself knows its partitions)",
    "RecoverPartitions": "ALTER TABLE ... RECOVER PARTITIONS",
    "OverwriteByExpression": "INSERT ... REPLACE WHERE",
    "ReplaceTable": "REPLACE TABLE",
    "ReplaceTableAsSelect": "REPLACE TABLE AS SELECT",
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
    paths = partition_paths(table)
    if wanted is not None:
        paths = matching_partitions(table, _values(wanted))
    return context.spark.createDataFrame([(path,) for path in paths], "partition string")


def _values(spec: Node) -> dict[str, str]:
    return {name: str(value) for name, value in mapped(spec.spec()).items()}


def _add_columns(context: Context, statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    present = own_columns(table)
    added = []
    for each in listed(statement.plan.columnsToAdd()):
        name = str(each.colName())
        if optional(each.path()) is not None or optional(each.position()) is not None:
            raise UnsupportedFeature(f"adding column {name} inside a struct or at a place")
        if not each.nullable():
            raise InvalidInput(f"column {name} is new, so that it is null in all rows there are")
        if name.lower() in [known.lower() for known in present.names]:
            raise InvalidInput(f"table {table.name} has a column {name!r} already")
        added.append(_field(name, each.dataType()))
    _change_schema(context, named, table, StructType([*present, *added]))


def _alter_columns(context: Context, statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    plan = statement.plan
    specs = listed(plan.specs()) if kind(plan) == "AlterColumns" else [plan]
    fields = {field.name: field for field in own_columns(table)}
    for spec in specs:
        parts = [str(part) for part in listed(spec.column().name())]
        by_case = {name.lower(): name for name in fields}
        name = by_case.get(parts[0].lower())
        if name is None:
            raise statement.wrong(spec.column(), f"the table has no column {'.'.join(parts)!r},")
        new_type = optional(spec.dataType() if kind(plan) == "AlterColumn" else spec.newDataType())
        if len(parts) > 1 or new_type is None:
            raise UnsupportedFeature("ALTER COLUMN other than TYPE of a top-level column")
        fields[name] = _field(name, new_type)
    _change_schema(context, named, table, StructType(list(fields.values())))


def _change_schema(
    context: Context, named: NamedTable, table: SparkTable, wanted: StructType
) -> None:
    """Commit new columns or wider types without a row."""
    schema = arrow_schema(wanted)
    config = table.snapshot.config
    stored = pa.schema([table.schema.field(name) for name in own_columns(table).names])
    merged = reconcile(
        stored, schema, key_columns=(*config.record_key_fields, *config.partition_fields)
    )
    for field in schema:
        if merged.field(field.name).type != field.type:
            old = stored.field(field.name).type
            raise UnsupportedFeature(f"changing column {field.name} from {old} to {field.type}")
    rows = ArrowRowSource(schema.empty_table())
    table.writer(context.write_options()).run(kinds.ALTER_SCHEMA, rows, seen=table.writer().seen())
    if named.entry is not None:
        # What DESCRIBE tells; queries ask the table itself.
        parts = {str(name) for name in listed(named.entry.partitionColumnNames())}
        meta = [field for field in _catalog_fields(named) if field.name in META_COLUMNS]
        data = StructType([*meta, *(field for field in wanted if field.name not in parts)])
        jvm = context.spark.sparkContext._jvm
        struct = jvm.org.apache.spark.sql.types.DataType.fromJson(data.json())
        context.names.catalog.alterTableDataSchema(named.identifier, struct)
    context.refresh(named)


def _catalog_fields(named: NamedTable) -> list[StructField]:
    return list(StructType.fromJson(json.loads(named.entry.schema().json())))


def _field(name: str, jvm_type: Node) -> StructField:
    tree = {"name": name, "type": json.loads(jvm_type.json()), "nullable": True, "metadata": {}}
    return StructField.fromJson(tree)


def _set_properties(context: Context, statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    given = spelled_out(mapped(statement.plan.properties()))
    check_option_names(given)
    fixed = [name for name in given if not is_write_option(name) and name in table.properties]
    if fixed:
        raise InvalidInput(f"{fixed[0]} was settled when table {table.name} was made")
    chosen = {name: value for name, value in given.items() if is_write_option(name)}
    table.keep_options(chosen)
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
    writer = table.writer(context.write_options())
    writer.run(kinds.INSERT_OVERWRITE_TABLE, DataFrameSource(empty))
    context.refresh(named)


def _drop_partitions(context: Context, statement: Statement, named: NamedTable) -> None:
    plan = statement.plan
    is_truncate = kind(plan) == "TruncatePartition"
    specs = [plan.partitionSpec()] if is_truncate else listed(plan.parts())
    table = context.open(named)
    paths: list[str] = []
    for spec in specs:
        found = matching_partitions(table, _values(spec))
        if not found and not is_truncate and not plan.ifExists():
            raise InvalidInput(f"table {table.name} has no partition with {_values(spec)}")
        paths += found
    if paths:
        table.delete_partitions(sorted(set(paths)))
        context.refresh(named)


_CHANGES: dict[str, Change] = {
    "AddColumns": _add_columns,
    "AlterColumn": _alter_columns,
    "AlterColumns": _alter_columns,
    "SetTableProperties": _set_properties,
    "RenameTable": _rename,
    "TruncateTable": _truncate,
    "TruncatePartition": _drop_partitions,
    "DropPartitions": _drop_partitions,
}
HANDLED = (*_CHANGES, *_REFUSED)
