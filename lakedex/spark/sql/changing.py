"""UPDATE and DELETE: the rows are chosen by Spark, and written as one commit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from lakedex.config import TableConfig
from lakedex.errors import UnsupportedFeature
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.sql.assigning import (
    Target,
    assigned_values,
    check_assignable,
    column_defaults,
    moves_rows,
    stored,
    with_moves,
)
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.copies import (
    PARTITION,
    has_copies,
    key_column,
    touched_partitions,
)
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.other_views import check_whole
from lakedex.spark.sql.plans import kind, name_parts, optional, quoted, relation_under
from lakedex.spark.table import SparkTable
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write import operation as kinds

_NEW = "__lakedex_new_"
Run = Callable[[Context, Statement, NamedTable], None]


def update(context: Context, statement: Statement) -> Prepared | None:
    """UPDATE; None where the table is not ours."""
    return _prepared(context, statement, _update, "UPDATE")


def delete(context: Context, statement: Statement) -> Prepared | None:
    """DELETE FROM; None where the table is not ours."""
    return _prepared(context, statement, _delete, "DELETE FROM")


def _prepared(context: Context, statement: Statement, run: Run, verb: str) -> Prepared | None:
    named = context.names.find(name_parts(relation_under(statement.plan.table())))
    if named is None:
        return None
    check_whole(named, verb)
    return Prepared(
        partial(run, context, statement, named),
        title=f"{verb} {named.shown}: the rows of this query are changed by one commit",
        reads=partial(_chosen, context, statement),
    )


def _chosen(context: Context, statement: Statement) -> DataFrame:
    """The rows that an UPDATE or DELETE is about."""
    every = context.plans.rows(statement.plan.table())
    condition = statement.plan.condition()
    if kind(statement.plan) == "UpdateTable":
        condition = optional(condition)
    return every if condition is None else every.filter(context.plans.column(condition))


def _delete(context: Context, statement: Statement, named: NamedTable) -> None:
    plan = statement.plan
    table = context.open(named)
    seen = table.writer().seen()
    condition = context.plans.column(plan.condition())
    every = context.plans.rows(plan.table())
    rows = every.filter(condition)
    if has_copies(table, rows):
        others = every.filter(~fn.coalesce(condition, fn.expr("false")))
        _put_anew(context, table, others, rows, seen)
    else:
        config = table.snapshot.config
        fields = (*config.record_key_fields, *config.partition_fields)
        wanted = {name.partition(".")[0] for name in fields}
        names = [f"`{name}`" for name in own_columns(table).names if name in wanted]
        keys = rows.select(*key_column(table), *names)
        writer = table.writer(context.write_options(table))
        writer.run(kinds.DELETE, DataFrameSource(keys), seen=seen)
    context.refresh(named)


def _put_anew(
    context: Context,
    table: SparkTable,
    rows: DataFrame,
    changed: DataFrame,
    seen: CommittedInstants,
) -> None:
    """Put rows in the place of all that is in the partitions of some changed rows.

    `rows` are those of the whole table. Without meta columns they do not show their partitions, and
    take the place of all.
    """
    names = [f"`{name}`" for name in own_columns(table).names]
    writer = table.writer(context.write_options(table))
    config = table.snapshot.config
    if not config.is_partitioned or not config.populate_meta_fields:
        writer.run(kinds.INSERT_OVERWRITE_TABLE, DataFrameSource(rows.select(*names)), seen=seen)
        return
    partitions = touched_partitions(table, changed)
    kept = rows.filter(fn.col(PARTITION).isin(partitions)).select(*names)
    writer.run(kinds.INSERT_OVERWRITE, DataFrameSource(kept), partitions=partitions, seen=seen)


def _update(context: Context, statement: Statement, named: NamedTable) -> None:
    plan = statement.plan
    table = context.open(named)
    seen = table.writer().seen()
    every = context.plans.rows(plan.table())
    given = optional(plan.condition())
    condition = fn.expr("true") if given is None else context.plans.column(given)
    columns = own_columns(table)
    target = Target(plan.table(), columns, column_defaults(named))
    values = assigned_values(context, statement, plan.assignments(), target, _present)
    check_assigned(table.snapshot.config, values)
    rows = every.filter(condition)
    changed = with_values(context, rows, columns, values)
    new = [f"{quoted(_NEW + name)} AS {quoted(name)}" for name in columns.names]
    writer = table.writer(context.write_options(table))
    if has_copies(table, rows):
        others = every.filter(~fn.coalesce(condition, fn.expr("false")))
        config = table.snapshot.config
        if set(values) & set(config.partition_fields) or not config.populate_meta_fields:
            names_of = [f"`{name}`" for name in columns.names]
            whole = DataFrameSource(others.select(*names_of).unionAll(changed.selectExpr(*new)))
            writer.run(kinds.INSERT_OVERWRITE_TABLE, whole, seen=seen)
        else:
            both = others.select(*[f"`{name}`" for name in columns.names], PARTITION).unionAll(
                changed.selectExpr(*new, PARTITION)
            )
            _put_anew(context, table, both, rows, seen)
    else:
        if moves_rows(table, list(values)):
            keys = {name: fn.col(name) for name in key_column(table)}
            before = keys | {name: _present(name) for name in columns.names}
            after = keys | {name: fn.col(f"`{_NEW}{name}`") for name in columns.names}
            changed = with_moves(changed, table.snapshot.config.partition_fields, before, after)
        else:
            changed = changed.selectExpr(*key_column(table), *new)
        writer.run(kinds.UPSERT, DataFrameSource(changed), seen=seen)
    context.refresh(named)


def _present(name: str) -> Column:
    return fn.col(f"`{name}`")


def with_values(
    context: Context, rows: DataFrame, columns: StructType, values: dict[str, Column]
) -> DataFrame:
    """Rows with the new values of all columns beside the old ones, under names of their own."""
    given_anew = [value.alias(f"{_NEW}{name}") for name, value in values.items()]
    # Texts, as each column that is made here costs dozens of calls into the JVM.
    as_before = [
        f"{quoted(name)} AS {quoted(_NEW + name)}" for name in columns.names if name not in values
    ]
    both = rows.select("*", *given_anew).selectExpr("*", *as_before)
    given = {field.name: field.dataType for field in both.schema}
    for field in columns:
        name = f"{_NEW}{field.name}"
        if given[name] != field.dataType:
            check_assignable(context.plans, given[name], field)
            both = both.withColumn(name, stored(context.plans, fn.col(f"`{name}`"), field.dataType))
    return both


def check_assigned(config: TableConfig, values: dict[str, Column]) -> None:
    """Refuse to give records another key: they would become other records."""
    for name in config.record_key_fields:
        if name in values:
            raise UnsupportedFeature(
                f"assigning to {name}, the table's record key, (DELETE and INSERT instead)"
            )
