"""Earlier states of tables and tables by their paths, where a query names them."""

from __future__ import annotations

from typing import Any

from lakedex.spark.sql.context import Context
from lakedex.spark.sql.plans import Node, kind, name_parts, optional
from lakedex.spark.sql.table_functions import constant, table_function

_TRAVELS = ("RelationTimeTravel", "TimeTravelRelation")
"""What Spark's parser calls it, and Hudi's."""


def earlier_state(context: Context, node: Node) -> Any:  # noqa: ANN401 - a plan
    """The plan to put in the place of a node; None where it concerns no table of ours."""
    if kind(node) in _TRAVELS:
        return _travelled(context, node)
    if kind(node) == "UnresolvedRelation":
        return _at_path(context, name_parts(node))
    return table_function(context, node)


def _travelled(context: Context, node: Node) -> Any:  # noqa: ANN401
    relation = node.relation()
    if kind(relation) != "UnresolvedRelation":
        return None
    parts = name_parts(relation)
    named = context.names.find(parts)
    if named is None:
        return None
    moment = optional(node.version())
    if moment is None:
        moment = constant(context, optional(node.timestamp()))
    rows = context.open(named).to_df(as_of=str(moment))
    return rows.alias(parts[-1])._jdf.queryExecution().analyzed()


def _at_path(context: Context, parts: tuple[str, ...]) -> Any:  # noqa: ANN401
    named = context.names.find(parts)
    if named is None:
        return None
    return context.open(named).to_df().alias(parts[-1])._jdf.queryExecution().analyzed()
