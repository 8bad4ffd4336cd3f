"""DEFAULT as a value of a statement, and columns that an INSERT leaves out.

Where the session lets tables of ours have defaults (`spark.sql.defaultColumn.allowedProviders`),
the catalog keeps them; a column without one has null.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as fn

from lakedex.spark.sql.context import Context
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, listed

_CURRENT = "CURRENT_DEFAULT"
_WORD = "DEFAULT"
_NULL = "NULL"


def column_defaults(named: NamedTable) -> dict[str, str]:
    """The expressions that the catalog has as defaults, by the names of the columns."""
    if named.entry is None:
        return {}
    found = {}
    for field in named.entry.schema().fields():
        if field.metadata().contains(_CURRENT):
            found[str(field.name())] = str(field.metadata().getString(_CURRENT))
    return found


def default_of(defaults: Mapping[str, str], name: str) -> Column:
    """The value of a column that rows leave out."""
    return fn.expr(defaults[name]) if name in defaults else fn.lit(None)


def with_default_values(
    context: Context, query: Node, columns: list[str], defaults: dict[str, str]
) -> Node:
    """A list of VALUES with what DEFAULT stands for; another query as it is.

    Args:
        context: The session.
        query: The query of the INSERT.
        columns: The columns that it fills, in order.
        defaults: Their defaults.
    """
    if kind(query) != "UnresolvedInlineTable":
        return query
    # A list of values takes plain expressions only, and Spark 4 wraps those of columns.
    parser = context.spark._jsparkSession.sessionState().sqlParser()
    changed, rows = False, []
    for row in listed(query.rows()):
        values = listed(row)
        for at, value in enumerate(values):
            if is_default(value) and at < len(columns):
                values[at] = parser.parseExpression(defaults.get(columns[at], _NULL))
                changed = True
        rows.append(context.plans.sequence(values))
    if not changed:
        return query
    made = context.plans.sequence(rows)
    return query.copy(query.names(), made)


def is_default(value: Node) -> bool:
    """Whether an expression is the word DEFAULT."""
    if kind(value) != "UnresolvedAttribute":
        return False
    return [str(part).upper() for part in listed(value.nameParts())] == [_WORD]
