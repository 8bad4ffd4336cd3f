"""Catalyst filters as a predicate tree that is true wherever Spark's filters are true.

A query never fails for its filters. A part without a counterpart of exactly the same meaning
becomes unknown, which keeps every file, and the report has the reason. Where Spark would raise an
error instead of giving a value, the files of the rows that raise it are kept too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind_predicate
from lakedex.expr.normal_form import normalise
from lakedex.expr.spark_text import time_zone_of
from lakedex.expr.tree import TRUE, Expr, Unknown, all_of, any_of, children_of
from lakedex.spark.catalyst.columns import cast, column, constant, struct_field
from lakedex.spark.catalyst.functions import FUNCTIONS
from lakedex.spark.catalyst.predicates import CONNECTIVES, PREDICATES
from lakedex.spark.catalyst.terms import (
    FilterNode,
    NotTranslatable,
    Rule,
    Term,
    TranslationContext,
    read_filter_text,
)

_RULES: Mapping[str, Rule] = {
    "AttributeReference": column,
    "GetStructField": struct_field,
    "Literal": constant,
    "Cast": cast,
    **FUNCTIONS,
    **PREDICATES,
    **CONNECTIVES,
}
_JOIN_KEYS = "the keys of a join, which are known when the query runs"
_RUNTIME_FILTERS: Mapping[str, str] = {
    "ScalarSubquery": "a subquery, whose value is known when the query runs",
    "BloomFilterMightContain": "a runtime filter of a join, which names no values",
    "InSubqueryExec": _JOIN_KEYS,
    "DynamicPruningSubquery": _JOIN_KEYS,
}
"""Filters that Spark fills while a query runs; one that is filled in time comes as an `InSet`."""


@dataclass(frozen=True, slots=True)
class TranslatedFilters:
    """What is known of a scan's filters."""

    predicate: Expr | None
    """Bound and in normal form, ready for `lakedex.prune.plan`; None when it says nothing."""
    unknown: tuple[str, ...]
    """Why a part was not understood, once for every such part."""


def translate_filters(
    text: str, columns: pa.Schema, session_zone: str, *, knows_zone: bool = True
) -> TranslatedFilters:
    """The predicate that Spark's filters imply, and what was left out of it.

    Args:
        text: What `lakedex.jvm.FilterText.describe` made of the filters.
        columns: The table's schema.
        session_zone: `spark.sql.session.timeZone`.
        knows_zone: Whether the JVM and lakedex agree on that zone (see `zone_agreement`).

    Example:
        >>> text = ('{"nodes": [{"k": "AttributeReference", "t": "int", "n": "a"},'
        ...         ' {"k": "Literal", "t": "int", "v": "5"},'
        ...         ' {"k": "GreaterThan", "t": "boolean", "c": [0, 1]}], "roots": [2]}')
        >>> translate_filters(text, pa.schema([("a", pa.int32())]), "UTC").predicate.right.value
        5
    """
    try:
        given = read_filter_text(text)
    except ValueError as error:
        return TranslatedFilters(None, (f"filters that cannot be read: {error}",))
    zone = session_zone if knows_zone and time_zone_of(session_zone) is not None else None
    context = TranslationContext(columns, zone, given.legacy_times)
    terms: list[Term] = []
    for node in given.nodes:
        terms.append(_translated(node, [terms[child] for child in node.children], context))
    parts = [
        Unknown(root) if isinstance(root, str) else _settled(terms[root], context)
        for root in given.roots
    ]
    reasons = tuple(reason for part in parts for reason in _reasons(part))
    return _joined(parts, reasons)


def _translated(node: FilterNode, children: list[Term], context: TranslationContext) -> Term:
    if node.kind in _RUNTIME_FILTERS:
        return Term(Unknown(_RUNTIME_FILTERS[node.kind]))
    if node.kind not in CONNECTIVES:
        unknown = next((child for child in children if child.unknown is not None), None)
        if unknown is not None:
            return unknown
    try:
        return _RULES.get(node.kind, _refused)(node, children, context)
    except (NotTranslatable, LakedexError) as problem:
        return Term(Unknown(str(problem)))
    except Exception as problem:  # noqa: BLE001 - a query never fails for its filters
        return Term(Unknown(f"{node.kind}: {type(problem).__name__}"))


def _refused(node: FilterNode, _children: list[Term], _context: TranslationContext) -> Term:
    raise NotTranslatable(f"function {node.kind} {node.name}".strip())


def _settled(term: Term, context: TranslationContext) -> Expr:
    """One conjunct in its normal form; a row for which Spark raises an error satisfies it."""
    if term.unknown is not None:
        return term.unknown
    tree = any_of([term.expr, *term.failures]) if term.failures else term.expr
    try:
        zone = context.zone or "UTC"
        return normalise(bind_predicate(tree, context.columns, time_zone=zone, case_sensitive=True))
    except LakedexError as problem:
        return Unknown(str(problem))
    except Exception as problem:  # noqa: BLE001 - a query never fails for its filters
        return Unknown(f"a filter that cannot be bound: {type(problem).__name__}")


def _joined(parts: Sequence[Expr], reasons: tuple[str, ...]) -> TranslatedFilters:
    kept: list[Expr] = [part for part in parts if not isinstance(part, Unknown)]
    try:
        predicate = normalise(all_of(kept)) if kept else TRUE
    except LakedexError as problem:
        return TranslatedFilters(None, (*reasons, str(problem)))
    return TranslatedFilters(None if predicate == TRUE else predicate, reasons)


def _reasons(part: Expr) -> list[str]:
    found: list[str] = []
    pending: list[Expr] = [part]
    while pending:
        node = pending.pop()
        if isinstance(node, Unknown):
            found.append(node.reason)
        pending.extend(reversed(children_of(node)))
    return found
