"""DESCRIBE TABLE ... PARTITION: the table knows its partitions, Spark's catalog does not."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.keys.partition_path import DEFAULT_PARTITION
from lakedex.spark.sql.context import Context, Prepared, Statement
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import matching_partitions, shown_partitions
from lakedex.spark.sql.plans import kind, mapped, member, name_parts

_COLUMNS = "col_name string, data_type string, comment string"


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
    values = {
        name: DEFAULT_PARTITION if each is None else str(each) for name, each in given.items()
    }
    return Prepared(partial(_described, context, statement, named, values), is_query=True)


def _described(
    context: Context, statement: Statement, named: NamedTable, values: dict[str, str]
) -> DataFrame:
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
    columns = context.spark.sql(f"DESCRIBE TABLE {named.quoted}")
    if not statement.plan.isExtended():
        return columns
    inside = [each for each in table.snapshot.slices if each.partition == paths[0]]
    size = sum(each.size_bytes for each in inside)
    rows = [
        ("", "", ""),
        ("# Detailed Partition Information", "", ""),
        ("Database", str(named.entry.database()), ""),
        ("Table", str(named.identifier.table()), ""),
        ("Partition Values", f"[{told}]", ""),
        ("Location", f"{table.path.rstrip('/')}/{paths[0]}", ""),
        ("Partition Statistics", f"{size} bytes in {len(inside)} file slices", ""),
    ]
    return columns.unionAll(context.spark.createDataFrame(rows, _COLUMNS))
