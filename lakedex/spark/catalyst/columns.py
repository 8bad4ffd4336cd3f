"""Columns of the table, and fields inside its struct columns."""

from __future__ import annotations

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.bind import resolve_column
from lakedex.expr.tree import Column, Expr
from lakedex.spark.catalyst.spark_types import arrow_type, same_meaning
from lakedex.spark.catalyst.terms import NotUnderstood, Surroundings, Term
from lakedex.spark.catalyst.wire import FilterNode

_STRUCT = "struct"


def column(node: FilterNode, _children: list[Term], around: Surroundings) -> Term:
    """A column of the table."""
    return _found((node.name,), node, around)


def struct_field(node: FilterNode, children: list[Term], around: Surroundings) -> Term:
    """A field of a struct column, however deep."""
    parent = children[0].expr
    if not isinstance(parent, Column):
        raise NotUnderstood(f"field {node.name} of something that is no column")
    return _found((*parent.path, node.name), node, around)


def _found(path: tuple[str, ...], node: FilterNode, around: Surroundings) -> Term:
    name = ".".join(path)
    resolved = _resolved(path, around.columns)
    if not isinstance(resolved, Column) or resolved.type is None:
        raise NotUnderstood(f"column {name}, which the table does not have")
    if node.type_name == _STRUCT and pa.types.is_struct(resolved.type):
        return Term(resolved)
    seen = arrow_type(node.type_name)
    if seen is None:
        raise NotUnderstood(f"column of type {node.type_name}")
    if not same_meaning(resolved.type, seen):
        raise NotUnderstood(f"column {name} read as {node.type_name} but stored as {resolved.type}")
    return Term(resolved, seen)


def _resolved(path: tuple[str, ...], columns: pa.Schema) -> Expr | None:
    # A plan has the names as the query wrote them; only without regard to case if need be.
    for case_sensitive in (True, False):
        try:
            return resolve_column(Column(path), columns, case_sensitive=case_sensitive)
        except InvalidInput:
            continue
    return None
