"""Replaces the rows for which a condition is true, as one commit.

`df.writeTo(t).overwrite(condition)` and `INSERT INTO t REPLACE WHERE condition`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from lakedex.filegroup import partition_layout
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.sql import inserting
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.copies import touched_partitions
from lakedex.spark.sql.inserting import InsertSpec, aligned, prepared_insert, take_order_hint
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import partition_paths
from lakedex.spark.sql.plans import Node, kind, name_parts, relation_under
from lakedex.spark.table import SparkTable
from lakedex.write import operation as kinds


def insert(context: Context, statement: Statement) -> Prepared | None:
    """INSERT, of which REPLACE WHERE is a form on newer Sparks; None if the table is not ours."""
    plan = statement.plan
    criterion = inserting.replace_criterion(plan)
    if criterion is None or kind(criterion) != "InsertReplaceWhere":
        return inserting.insert(context, statement)
    named = context.names.find(name_parts(relation_under(plan.table())))
    if named is None:
        return None
    order, query = take_order_hint(context.plans, plan.query())
    wanted = replace(inserting.wanted_of(plan, order), overwrite=True, dynamic=False)
    return prepared_replace(context, named, statement.scope(query), criterion.cond(), wanted)


def replace_where(context: Context, statement: Statement) -> Prepared | None:
    """INSERT INTO ... REPLACE WHERE on Sparks before that; None where the table is not ours."""
    plan = statement.plan
    named = context.names.find(name_parts(plan.table()))
    if named is None:
        return None
    wanted = InsertSpec(by_name=bool(plan.isByName()), overwrite=True, dynamic=False)
    query = statement.scope(plan.query())
    return prepared_replace(context, named, query, plan.deleteExpr(), wanted)


def prepared_replace(
    context: Context, named: NamedTable, query: Node, condition: Node, wanted: InsertSpec
) -> Prepared:
    """The rows of a query in the place of all for which a condition is true."""
    if kind(condition) == "Literal" and str(condition) == "true":
        return prepared_insert(context, named, query, wanted)
    return Prepared(
        partial(_replace, context, named, query, condition, wanted),
        title=f"{named.shown}: rows of this query take the place of others in one commit",
        reads=partial(context.plans.rows, query),
    )


def _replace(
    context: Context, named: NamedTable, query: Node, condition: Node, wanted: InsertSpec
) -> None:
    table = context.open(named)
    writer = table.writer({**context.write_options(table), **wanted.options})
    seen = writer.seen()
    new = aligned(context, named, table, wanted, query)
    every = table.to_df()
    is_replaced = fn.coalesce(context.plans.column(condition), fn.expr("false"))
    gone, others = every.filter(is_replaced), every.filter(~is_replaced)
    names = [f"`{name}`" for name in own_columns(table).names]
    if not _partitions_tell_values(table):
        rows = others.select(*names).unionByName(new, allowMissingColumns=True)
        writer.run(kinds.INSERT_OVERWRITE_TABLE, DataFrameSource(rows), seen=seen)
    else:
        fields = table.snapshot.config.partition_fields
        touched = _values(gone, fields).union(_values(new, fields)).distinct()
        kept = others.select(*names).join(touched, _same(others, touched, fields), "left_semi")
        rows = kept.unionByName(new, allowMissingColumns=True)
        paths = touched_partitions(table, gone)
        writer.run(kinds.INSERT_OVERWRITE, DataFrameSource(rows), partitions=paths, seen=seen)
    context.refresh(named)


def _partitions_tell_values(table: SparkTable) -> bool:
    """Whether rows of one partition all have the same values of the partition columns."""
    snapshot = table.snapshot
    fields = snapshot.config.partition_fields
    if not fields:
        return False
    types = {name: snapshot.schema.field(name).type for name in fields}
    layout = partition_layout(snapshot.config)
    paths = partition_paths(table)
    return all(each.known for path in paths for each in layout.values(path, types).values())


def _values(rows: DataFrame, fields: tuple[str, ...]) -> DataFrame:
    return rows.select(
        *[fn.col(f"`{name}`").alias(f"__lakedex_{at}") for at, name in enumerate(fields)]
    )


def _same(rows: DataFrame, touched: DataFrame, fields: tuple[str, ...]) -> Column:
    pairs = [
        rows[f"`{name}`"].eqNullSafe(touched[f"__lakedex_{at}"]) for at, name in enumerate(fields)
    ]
    return reduce(lambda left, right: left & right, pairs)
