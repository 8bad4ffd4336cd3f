"""Earlier states and changes of tables, where a query names them."""

from __future__ import annotations

from typing import Any

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.plans import Node, kind, listed, name_parts, optional

_CHANGES = "hudi_table_changes"
_LATEST = "latest_state"
_TRAVELS = ("RelationTimeTravel", "TimeTravelRelation")
"""What Spark's parser calls it, and Hudi's."""
_LEAST, _MOST = 3, 4


def earlier_state(context: Context, node: Node) -> Any:  # noqa: ANN401 - a plan
    """The plan to put in the place of a node; None where it concerns no table of ours."""
    if kind(node) in _TRAVELS:
        return _travelled(context, node)
    if kind(node) == "UnresolvedRelation":
        return _at_path(context, name_parts(node))
    if [str(part).lower() for part in listed(node.name())] == [_CHANGES]:
        return _changes(context, node)
    return None


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
        moment = _value(context, optional(node.timestamp()))
    rows = context.open(named).to_df(as_of=str(moment))
    return rows.alias(parts[-1])._jdf.queryExecution().analyzed()


def _at_path(context: Context, parts: tuple[str, ...]) -> Any:  # noqa: ANN401
    named = context.names.find(parts)
    if named is None:
        return None
    return context.open(named).to_df().alias(parts[-1])._jdf.queryExecution().analyzed()


def _changes(context: Context, node: Node) -> Any:  # noqa: ANN401
    given = [_value(context, each) for each in listed(node.functionArgs())]
    if given and _is_of_hudi_itself(context, given[0]):
        return None
    if not _LEAST <= len(given) <= _MOST:
        raise InvalidInput(
            f"{_CHANGES} takes a table, '{_LATEST}', a begin and perhaps an end, not "
            f"{len(given)} values"
        )
    if given[1].lower() != _LATEST:
        raise UnsupportedFeature(f"{_CHANGES} with {given[1]!r} (only {_LATEST!r})")
    table = (
        context.lake.table_at(given[0])
        if "/" in given[0]
        else context.open(context.names.named(given[0]))
    )
    rows = table.changes(given[2], given[3] if len(given) == _MOST else None)
    return rows._jdf.queryExecution().analyzed()


def _is_of_hudi_itself(context: Context, table: str) -> bool:
    """Whether it is for Hudi's own bundle to say what changed in a table."""
    if context.names.is_own("hudi"):
        return False
    return "/" in table or context.names.find(context.names.parts(table)) is None


def _value(context: Context, expression: Node) -> str:
    """The value of a constant expression, as text."""
    column = context.plans.column(expression).cast("string")
    value = context.spark.range(1).select(column.alias("value")).first()["value"]
    if value is None:
        raise InvalidInput("a time of a table's past must not be null")
    return str(value)
