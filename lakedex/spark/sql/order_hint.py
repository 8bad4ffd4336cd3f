"""The hint `/*+ ORDER BY idx_day */` of INSERT ... SELECT: how the new rows are to be laid out.

Spark's lexer knows the hint by its tokens, and its parser takes each word for a hint of its own:

    UnresolvedHint ORDER -> UnresolvedHint BY -> UnresolvedHint idx_day -> the query

An unknown hint is nothing to Spark but a warning, so these are taken out of the query. Only the
SELECT whose rows are written is looked at, not what it reads from.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from lakedex.config.write_option_names import BULK_SORT_COLUMNS, WRITE_SORT_COLUMNS
from lakedex.errors import InvalidInput
from lakedex.spark.sql.plans import Node, Plans, kind, listed, name_parts

_HINT: Final = "UnresolvedHint"
_WORDS: Final = ("ORDER", "BY")
_ABOVE_A_SELECT: Final = (
    "UnresolvedWith",
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "Sort",
    "RepartitionByExpression",
    "WithWindowDefinition",
)
"""What stands above the hints of a SELECT: its ORDER BY, its LIMIT and their like."""


def take_order_hint(plans: Plans, query: Node) -> tuple[dict[str, str], Node]:
    """The write options that the hint of a query stands for, and the query without it."""
    names, rest = _taken(plans, query)
    if not names:
        return {}, query
    listed_names = ",".join(names)
    return {WRITE_SORT_COLUMNS.name: listed_names, BULK_SORT_COLUMNS.name: listed_names}, rest


def _taken(plans: Plans, query: Node) -> tuple[list[str], Node]:
    if kind(query) in _ABOVE_A_SELECT:
        names, child = _taken(plans, query.child())
        return names, plans.with_child(query, child) if names else query
    hints: list[Node] = []
    below = query
    while kind(below) == _HINT:
        hints.append(below)
        below = below.child()
    pairs = list(pairwise(str(hint.name()).upper() for hint in hints))
    if _WORDS not in pairs:
        return [], query
    at = pairs.index(_WORDS)
    names, end = _names(hints, at + 2)
    for hint in reversed(hints[:at] + hints[end:]):
        below = plans.with_child(hint, below)
    return names, below


def _names(hints: list[Node], start: int) -> tuple[list[str], int]:
    """The names after the two words, and the place of the first hint that is another one."""
    inside = listed(hints[start - 1].parameters())
    if inside:
        return [_name(each) for each in inside], start
    end = start
    while end < len(hints) and not listed(hints[end].parameters()):
        end += 1
    if end == start:
        raise InvalidInput("the hint ORDER BY names nothing to lay rows out by")
    return [str(hint.name()) for hint in hints[start:end]], end


def _name(expression: Node) -> str:
    parts = name_parts(expression)
    if len(parts) != 1:
        raise InvalidInput(
            f"the hint ORDER BY names columns and expression indexes, not {expression.sql()}"
        )
    return parts[0]
