"""Earlier states of tables and tables by their paths, where a query names them."""

from __future__ import annotations

from typing import Any

from lakedex.errors import InvalidInput, LakedexError
from lakedex.expr.sql_lexer import complaint
from lakedex.spark.jvm_contract import HUDI_TIME_TRAVEL, TIME_TRAVEL
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.plans import Node, kind, name_parts, optional
from lakedex.spark.sql.table_functions import constant, table_function
from lakedex.timeline import load_table_config
from lakedex.timeline.instant_time import parse_query_time


def earlier_state(context: Context, node: Node) -> Any:  # noqa: ANN401 - a plan
    """The plan to put in the place of a node; None where it concerns no table of ours."""
    if kind(node) in (TIME_TRAVEL, HUDI_TIME_TRAVEL):
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
    table = context.open(named)
    said = optional(node.timestamp())
    moment = str(optional(node.version())) if said is None else constant(context, said)
    try:
        parse_query_time(moment, load_table_config(table.address.open()).timezone)
    except InvalidInput as error:
        raise _at_its_place(node if said is None else said, error) from error
    rows = table.to_df(as_of=moment)
    return rows.alias(parts[-1])._jdf.queryExecution().analyzed()


def _at_path(context: Context, parts: tuple[str, ...]) -> Any:  # noqa: ANN401
    named = context.names.find(parts)
    if named is None:
        return None
    return context.open(named).to_df().alias(parts[-1])._jdf.queryExecution().analyzed()


def _at_its_place(node: Node, error: InvalidInput) -> LakedexError:
    """The error with the part of the statement that it is about, where Spark knows that."""
    text, at = optional(node.origin().sqlText()), optional(node.origin().startIndex())
    return error if text is None or at is None else complaint(str(text), int(at), str(error))
