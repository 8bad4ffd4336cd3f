"""Catalyst filters as a predicate tree that is true wherever Spark's filters are true.

A query never fails for its filters. A part without a counterpart of exactly the same meaning
becomes unknown, which keeps every file, and the report has the reason. Where Spark would raise an
error instead of giving a value, the files of the rows that raise it are kept too. Predicates are
translated here, exactly in three-valued logic; columns and functions in their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind_predicate
from lakedex.expr.coercion import Family, family
from lakedex.expr.literal_cast import time_zone_of
from lakedex.expr.normal_form import normalise
from lakedex.expr.tree import (
    NULL,
    TRUE,
    And,
    Call,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
    Unknown,
    all_of,
    any_of,
    children_of,
)
from lakedex.spark.catalyst.columns import cast, column, constant, literal, struct_field
from lakedex.spark.catalyst.functions import FUNCTIONS
from lakedex.spark.catalyst.terms import (
    FilterNode,
    NotTranslatable,
    Rule,
    Term,
    TranslationContext,
    arrow_type,
    failures_of,
    plain_type,
    read_filter_text,
    same_meaning,
)

_NAN = float("nan")


def _term(expr: Expr, children: list[Term]) -> Term:
    return Term(expr, pa.bool_(), failures_of(children))


def _comparison(op: Op) -> Rule:
    def translate(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
        left, right = (plain_type(child, f"comparison {op.value}") for child in children)
        if left != right:
            raise NotTranslatable(f"comparison of {left} and {right}")
        return _term(Compare(op, children[0].expr, children[1].expr), children)

    return translate


def _all(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(all_of([child.expr for child in children]), children)


def _any(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(any_of([child.expr for child in children]), children)


def _not(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(Not(children[0].expr), children)


def _is_null(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    plain_type(children[0], "null test")
    return _term(IsNull(children[0].expr), children)


def _is_not_null(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    plain_type(children[0], "null test")
    return _term(IsNotNull(children[0].expr), children)


def _is_nan(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    kind = plain_type(children[0], "isnan")
    # Of null it is false, not null.
    equal = Compare(Op.EQ_NULL_SAFE, children[0].expr, Literal(_NAN, kind))
    return _term(equal, children)


def _in(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    kinds = {plain_type(child, "IN") for child in children}
    if len(kinds) != 1:
        raise NotTranslatable("IN over several types")
    subject, values = children[0].expr, [child.expr for child in children[1:]]
    constants = tuple(value for value in values if isinstance(value, Literal))
    if len(constants) == len(values):
        return _term(In(subject, constants), children)
    return _term(any_of([Compare(Op.EQ, subject, value) for value in values]), children)


def _in_set(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    kind = plain_type(children[0], "IN")
    if node.unreadable:
        raise NotTranslatable("IN with a value that has no text form")
    values = tuple(literal(text, kind) for text in node.values)
    if family(kind) is Family.FLOAT and any(value.value == 0 for value in values):
        # A hashed set distinguishes -0.0 from 0.0, which no comparison does.
        raise NotTranslatable("IN with a hashed floating-point zero")
    return _term(In(children[0].expr, values), children)


def _like(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    pattern = _constant_text(node, children)
    return _term(Like(children[0].expr, pattern, node.escape), children)


def _starts_with(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(StartsWith(children[0].expr, _constant_text(node, children)), children)


def _constant_text(node: FilterNode, children: list[Term]) -> str:
    subject, pattern = children
    if family(plain_type(subject, node.kind)) is not Family.STRING:
        raise NotTranslatable(f"{node.kind} of {subject.type}")
    value = pattern.expr.value if isinstance(pattern.expr, Literal) else None
    if not isinstance(value, str):
        raise NotTranslatable(f"{node.kind} with a pattern that is no constant")
    return value


def _if(node: FilterNode, children: list[Term], context: TranslationContext) -> Term:
    return _case_when(node, children, context)


def _case_when(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    """CASE over values is a function; over conditions it is AND and OR, through which they show."""
    kind = arrow_type(node.type_name)
    if kind is None:
        raise NotTranslatable(f"{node.kind} that gives {node.type_name}")
    given = list(children)
    otherwise = given.pop().expr if len(given) % 2 else Literal(None, kind)
    branches = [(given[at].expr, given[at + 1]) for at in range(0, len(given), 2)]
    if any(not same_meaning(plain_type(value, node.kind), kind) for _, value in branches):
        raise NotTranslatable(f"{node.kind} over several types")
    choose = _chosen_condition if kind == pa.bool_() else _chosen_value
    expr = reduce(
        lambda rest, branch: choose(branch[0], branch[1].expr, rest),
        reversed(branches),
        NULL if otherwise == Literal(None, pa.bool_()) else otherwise,
    )
    return Term(expr, kind, failures_of(children))


def _chosen_condition(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    holds = Compare(Op.EQ_NULL_SAFE, condition, TRUE)
    return Or((And((holds, value)), And((Not(holds), otherwise))))


def _chosen_value(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    return Call("if", (condition, value, otherwise))


def passed_through(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    """An expression that only says something about its child."""
    return children[0]


CONNECTIVES: Mapping[str, Rule] = {"And": _all, "Or": _any, "Not": _not}
"""The classes that go on over what was not understood."""

PREDICATES: Mapping[str, Rule] = {
    "EqualTo": _comparison(Op.EQ),
    "EqualNullSafe": _comparison(Op.EQ_NULL_SAFE),
    "LessThan": _comparison(Op.LT),
    "LessThanOrEqual": _comparison(Op.LTE),
    "GreaterThan": _comparison(Op.GT),
    "GreaterThanOrEqual": _comparison(Op.GTE),
    "IsNull": _is_null,
    "IsNotNull": _is_not_null,
    "IsNaN": _is_nan,
    "In": _in,
    "InSet": _in_set,
    "Like": _like,
    "StartsWith": _starts_with,
    "If": _if,
    "CaseWhen": _case_when,
    "DynamicPruningExpression": passed_through,
    "KnownNotNull": passed_through,
    "KnownNullable": passed_through,
    "KnownFloatingPointNormalized": passed_through,
    "NormalizeNaNAndZero": passed_through,
}
"""The rule of every other class that gives a condition, or only marks one."""


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
