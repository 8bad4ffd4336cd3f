"""The engine-free expression tree: functions, binding, normal form, evaluation on rows and bounds.

A predicate comes from SQL text (`parse_predicate`), from Arrow (`from_arrow`) or from JSON
(`from_json`), is bound to a schema (`bind_predicate`) and converted into its normal form
(`normalise`). It then filters rows, prunes files by bounds, or provides the values to look up in
an index (`points`, `key_points`).
"""

from __future__ import annotations

from lakedex.expr.arrow_expression import from_arrow
from lakedex.expr.bind import bind, bind_predicate, bound_type, unknown_in
from lakedex.expr.evaluate import evaluate, filter_table
from lakedex.expr.json_form import from_json, to_json
from lakedex.expr.normal_form import normalise
from lakedex.expr.points import key_points, points
from lakedex.expr.sql import parse_expression, parse_predicate
from lakedex.expr.tree import Expr, columns_of

__all__ = [
    "Expr",
    "bind",
    "bind_predicate",
    "bound_type",
    "columns_of",
    "evaluate",
    "filter_table",
    "from_arrow",
    "from_json",
    "key_points",
    "normalise",
    "parse_expression",
    "parse_predicate",
    "points",
    "to_json",
    "unknown_in",
]
