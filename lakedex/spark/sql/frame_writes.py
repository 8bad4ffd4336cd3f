"""Writes that no parser saw: insertInto, saveAsTable, writeTo, mergeInto, scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lakedex.config.option_check import Use
from lakedex.errors import InvalidInput
from lakedex.spark.read_spec import hudi_options
from lakedex.spark.saving import check_folders, run_operation, saved_by, without_meta_columns
from lakedex.spark.sql import changing, creating, inserting, merging
from lakedex.spark.sql.context import Context, Prepared, Statement
from lakedex.spark.sql.inserting import InsertSpec, prepared_insert
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, listed, mapped, name_parts, optional
from lakedex.spark.sql.replacing import prepared_replace

_OPERATION = "hoodie.datasource.write.operation"
_CLUSTERED = "clusteringColumns"
"""Where Spark puts the columns of `DataFrameWriter.clusterBy`."""
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
IngestedRows = Callable[[Context, Node], Prepared | None]
Handler = Callable[[Context, Statement], Prepared | None]


def _as_statement(handler: Handler) -> IngestedRows:
    def take(context: Context, plan: Node) -> Prepared | None:
        # A DataFrame's plan has no text, a statement of a script has that of the script.
        text = optional(plan.origin().sqlText())
        return handler(context, Statement(str(text or ""), plan, lambda query: query))

    return take


def _append(context: Context, plan: Node) -> Prepared | None:
    return _by_name(context, plan, overwrite=False)


def _overwrite_partitions(context: Context, plan: Node) -> Prepared | None:
    return _by_name(context, plan, overwrite=True, dynamic=True)


def _overwrite_where(context: Context, plan: Node) -> Prepared | None:
    named = _named(context, plan)
    if named is None:
        return None
    wanted = _wanted(plan, overwrite=True, dynamic=False)
    return prepared_replace(context, named, plan.query(), plan.deleteExpr(), wanted)


def _by_name(
    context: Context, plan: Node, *, overwrite: bool, dynamic: bool | None = None
) -> Prepared | None:
    named = _named(context, plan)
    if named is None:
        return None
    wanted = _wanted(plan, overwrite=overwrite, dynamic=dynamic)
    return prepared_insert(context, named, plan.query(), wanted)


def _named(context: Context, plan: Node) -> NamedTable | None:
    if kind(plan.table()) != "UnresolvedRelation":
        return None
    return context.names.find(name_parts(plan.table()))


def _wanted(plan: Node, *, overwrite: bool, dynamic: bool | None) -> InsertSpec:
    options = hudi_options(mapped(plan.writeOptions()), Use.WRITE)
    by_name = bool(plan.isByName())
    return InsertSpec(by_name=by_name, overwrite=overwrite, dynamic=dynamic, options=options)


def _save_as_table(context: Context, plan: Node) -> Prepared | None:
    """`df.write.saveAsTable` into a table that is there; a new one is made as ever."""
    query = optional(plan.query())
    described = plan.tableDesc()
    is_own = context.names.is_own(optional(described.provider()))
    if is_own and optional(described.bucketSpec()) is not None:
        raise creating.layout_refusal("bucketBy")
    if is_own and _CLUSTERED in mapped(described.properties()):
        raise creating.layout_refusal("clusterBy")
    identifier = described.identifier()
    database = optional(identifier.database())
    name = (*([] if database is None else [str(database)]), str(identifier.table()))
    if query is None:
        # `spark.catalog.createTable` of Spark 3.5; later releases make the plan of a statement.
        return Prepared(partial(_create, context, plan, name)) if is_own else None
    if str(plan.mode().name()) != "Append":
        return None
    named = context.names.find(name)
    if named is None:
        return None
    if not is_own:
        raise InvalidInput(f'{named.shown} is a Hudi table: df.write.format("hudi").saveAsTable')
    options = mapped(described.storage().properties())
    folders = [str(name) for name in listed(described.partitionColumnNames())]
    return Prepared(partial(_save, context, named, query, options, folders))


def _create(context: Context, plan: Node, name: tuple[str, ...]) -> None:
    creating.run_create(context, plan, name)


def _save(
    context: Context,
    named: NamedTable,
    query: Node,
    given: Mapping[str, str],
    partition_by: Sequence[str],
) -> None:
    """As in `save`, columns are matched by name, and rows are upserted by default."""
    table = context.open(named)
    check_folders(table, partition_by, given)
    own = hudi_options(given, Use.WRITE)
    operation = own.pop(_OPERATION, "upsert").lower()
    options = {**context.write_options(table), **own}
    rows = without_meta_columns(context.plans.rows(query))
    operation, more = saved_by(table, operation, options)
    run_operation(table, operation, rows, {**options, **more})
    context.refresh(named)


WRITES: Mapping[str, IngestedRows] = {
    f"{_LOGICAL}.InsertIntoStatement": _as_statement(inserting.insert),
    f"{_LOGICAL}.AppendData": _append,
    f"{_LOGICAL}.OverwritePartitionsDynamic": _overwrite_partitions,
    f"{_LOGICAL}.OverwriteByExpression": _overwrite_where,
    f"{_LOGICAL}.UpdateTable": _as_statement(changing.update),
    f"{_LOGICAL}.DeleteFromTable": _as_statement(changing.delete),
    f"{_LOGICAL}.MergeIntoTable": _as_statement(merging.merge),
    f"{_LOGICAL}.CreateTable": _as_statement(creating.create),
    f"{_LOGICAL}.CreateTableAsSelect": _as_statement(creating.create_as_select),
    f"{_LOGICAL}.ReplaceTableAsSelect": _as_statement(creating.refuse_replace),
    "org.apache.spark.sql.execution.datasources.CreateTable": _save_as_table,
}
