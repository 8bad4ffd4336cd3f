"""DESCRIBE and SHOW TABLE EXTENDED of a PARTITION, which the catalog does not know, and EXPLAIN.

EXPLAIN shows Spark's own text, and below it the files that would be read of our tables and why.
Nothing is run; a statement that changes a table shows the query that would select its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.keys.partition_path import DEFAULT_PARTITION
from lakedex.spark.explaining import files_text
from lakedex.spark.sql.context import Context, Prepared, Statement
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import matching_partitions, shown_partitions
from lakedex.spark.sql.plans import Node, kind, mapped, member, name_parts, optional

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
        # Spark 3.5 has one form with a PARTITION and without; the name distinguishes them.
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
        *((what, text, "") for what, text in facts.items()),
    ]
    return columns.unionAll(context.spark.createDataFrame(rows, _COLUMNS))


def _shown(context: Context, named: NamedTable, values: dict[str, str]) -> DataFrame:
    facts = _facts(context, named, values)
    text = "".join(f"{what}: {each}\n" for what, each in facts.items()) + "\n"
    row = (str(named.entry.database()), str(named.identifier.table()), False, text)
    return context.spark.createDataFrame([row], _SHOWN)


def _facts(context: Context, named: NamedTable, values: dict[str, str]) -> dict[str, str]:
    """The facts about a partition.

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
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    if not paths:
        raise InvalidInput(f"table {named.shown} has no partition {text}")
    slices = table.snapshot.slices
    inside = slices.where(slices.in_partitions(paths[:1]))
    return {
        "Partition Values": f"[{text}]",
        "Location": f"{table.path.rstrip('/')}/{paths[0]}",
        "Partition Statistics": f"{inside.size_bytes} bytes in {len(inside)} file slices",
    }


Understand = Callable[[Node], Prepared | None]


def explain(context: Context, plan: Node, understand: Understand) -> Prepared | None:
    """EXPLAIN of a query or a statement; None where it concerns no table of ours.

    Args:
        context: The session.
        plan: Spark's EXPLAIN.
        understand: Finds out what the statement in it would do.
    """
    inner, mode = context.plans.bound(plan.logicalPlan()), plan.mode()
    own = understand(inner)
    if own is not None:
        return explained(context, own, mode)
    try:
        execution = context.plans.planned(inner)
        scans = context.lake.scans(execution)
    except (PySparkException, Py4JError):
        # Spark reports by itself what is wrong with a query.
        return None
    if not scans:
        return None
    text = f"{str(execution.explainString(mode)).rstrip()}\n\n{files_text(scans)}\n"
    return Prepared(partial(_one_text, context, text), is_query=True)


def explained(context: Context, own: Prepared, mode: Node = None) -> Prepared:
    """EXPLAIN of a statement of ours."""
    return Prepared(partial(_own, context, own, mode), is_query=True)


def _own(context: Context, own: Prepared, mode: Node) -> DataFrame:
    text = f"== Statement ==\n{own.title}\n"
    if own.reads is not None and mode is not None:
        execution = own.reads()._jdf.queryExecution()
        scans = context.lake.scans(execution)
        text += f"\n{str(execution.explainString(mode)).rstrip()}\n"
        text += f"\n{files_text(scans)}\n" if scans else ""
    return _one_text(context, text)


def _one_text(context: Context, text: str) -> DataFrame:
    return context.spark.createDataFrame([(text,)], "plan string")
