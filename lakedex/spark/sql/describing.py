"""DESCRIBE and SHOW TABLE EXTENDED of a PARTITION, which the catalog does not know."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.keys.partition_path import DEFAULT_PARTITION
from lakedex.spark.sql.context import Context, Prepared, Statement
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import matching_partitions, shown_partitions
from lakedex.spark.sql.plans import kind, mapped, member, name_parts, optional

_COLUMNS = "col_name string, data_type string, comment string"
_SHOWN = "namespace string, tableName string, isTemporary boolean, information string"


def describe_partition(context: Context, statement: Statement) -> Prepared | None:
    """DESCRIBE ... PARTITION (...); None where Spark does all there is to do."""
    plan = statement.plan
    # Spark 3.5 has one form for tables and partitions, later releases have two.
    is_apart = kind(plan) == "DescribeTablePartition"
    spec = plan.partitionSpec().spec() if is_apart else member(plan, "partitionSpec")
    given = {} if spec is None else mapped(spec)
    relation = plan.table() if is_apart else plan.relation()
    named = context.names.find(name_parts(relation)) if given else None
    if named is None or named.entry is None:
        return None
    return Prepared(partial(_described, context, statement, named, _texts(given)), is_query=True)


def show_partition(context: Context, statement: Statement) -> Prepared | None:
    """SHOW TABLE EXTENDED ... PARTITION (...); None where Spark does all there is to do."""
    plan = statement.plan
    if kind(plan) == "ShowTablePartition":
        spec, parts = plan.partitionSpec(), name_parts(plan.table())
    else:
        # Spark 3.5 has one form with a PARTITION and without, which tells the name apart.
        spec, parts = optional(plan.partitionSpec()), name_parts(plan.namespace())
        parts = (*parts, str(plan.pattern()))
    named = None if spec is None else context.names.find(parts)
    if named is None or named.entry is None:
        return None
    return Prepared(partial(_shown, context, named, _texts(mapped(spec.spec()))), is_query=True)


def _texts(given: dict[str, Any]) -> dict[str, str]:
    return {name: DEFAULT_PARTITION if each is None else str(each) for name, each in given.items()}


def _described(
    context: Context, statement: Statement, named: NamedTable, values: dict[str, str]
) -> DataFrame:
    facts = _facts(context, named, values)
    columns = context.spark.sql(f"DESCRIBE TABLE {named.quoted}")
    if not statement.plan.isExtended():
        return columns
    rows = [
        ("", "", ""),
        ("# Detailed Partition Information", "", ""),
        ("Database", str(named.entry.database()), ""),
        ("Table", str(named.identifier.table()), ""),
        *((what, told, "") for what, told in facts.items()),
    ]
    return columns.unionAll(context.spark.createDataFrame(rows, _COLUMNS))


def _shown(context: Context, named: NamedTable, values: dict[str, str]) -> DataFrame:
    facts = _facts(context, named, values)
    told = "".join(f"{what}: {each}\n" for what, each in facts.items()) + "\n"
    row = (str(named.entry.database()), str(named.identifier.table()), False, told)
    return context.spark.createDataFrame([row], _SHOWN)


def _facts(context: Context, named: NamedTable, values: dict[str, str]) -> dict[str, str]:
    """What is told of a partition.

    Raises:
        InvalidInput: Not every partition column has a value, or there is no such partition.
    """
    table = context.open(named)
    fields = table.snapshot.config.partition_fields
    paths = matching_partitions(table, values, shown_partitions(table))
    if len(values) != len(fields):
        raise InvalidInput(
            f"a partition of table {named.shown} is named by all its columns: {', '.join(fields)}"
        )
    told = ", ".join(f"{name}={value}" for name, value in values.items())
    if not paths:
        raise InvalidInput(f"table {named.shown} has no partition {told}")
    slices = table.snapshot.slices
    inside = slices.where(slices.in_partitions(paths[:1]))
    return {
        "Partition Values": f"[{told}]",
        "Location": f"{table.path.rstrip('/')}/{paths[0]}",
        "Partition Statistics": f"{inside.size_bytes} bytes in {len(inside)} file slices",
    }
