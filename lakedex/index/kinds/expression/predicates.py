"""The predicates on an indexed expression that follow from the predicate of a query.

The query may compare the expression itself, or its bare column. The expression in a predicate is
computed in the query's time zone, so only entries of that zone answer. A bare column has no zone:
what follows for the expression is computed in the zone of the index, and entries of that zone
answer whatever the zone of the query is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.functions import canonical_name
from lakedex.expr.functions.conditions import CAST_FAILS
from lakedex.expr.may_match import expression_key, may_match
from lakedex.expr.tree import (
    FALSE,
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Or,
    all_of,
    any_of,
    children_of,
    columns_of,
)
from lakedex.index.contract import IndexedTable, Question
from lakedex.index.file_bounds import Notes
from lakedex.index.kinds.expression.definition import depends_on_zone
from lakedex.index.kinds.expression.implied import implied
from lakedex.index.metadata_table.stat_values import zone_note

_ANY_ZONE = "UTC"
_STATS_PARTITION = "column_stats"
_MAY_SKIP_NULLS = frozenset(["coalesce", "greatest", "least", "if"])
EXPRESSION_PATH = ("", "expression")
"""A path that no real column can have."""


@dataclass(frozen=True, slots=True)
class ExpressionPredicate:
    """A predicate on the expression, and the entries that can answer it."""

    predicate: Expr
    zone: str
    notes: Notes
    """What stands beside the bounds of such entries; None for any."""
    by_column: bool = False


def expression_predicates(
    name: str, expression: Expr, question: Question
) -> list[ExpressionPredicate]:
    """The predicates that an index of ranges can answer; computed once."""
    key = f"predicates of {name}"
    if key not in question.found:
        question.found[key] = _find_predicates(name, expression, question)
    predicates: list[ExpressionPredicate] = question.found[key]
    return predicates


def _find_predicates(name: str, expression: Expr, question: Question) -> list[ExpressionPredicate]:
    table = question.table
    is_zoned = depends_on_zone(expression)
    predicates = []
    predicate = without_failures(question.predicate, expression)
    direct = with_nulls_of_whole(predicate, expression)
    if _uses_bounds(expression, direct, table.time_zone):
        zone = table.time_zone
        predicates.append(
            ExpressionPredicate(direct, zone, _notes(table, zone) if is_zoned else None)
        )
    if not _has_column_ranges(expression, question):
        for zone, predicate in _implied(name, expression, question, is_zoned=is_zoned):
            notes = _notes(table, zone) if is_zoned else None
            predicates.append(ExpressionPredicate(predicate, zone, notes, by_column=True))
    return predicates


def implied_in(name: str, expression: Expr, question: Question, zone: str) -> Expr | None:
    """What the question says of the expression by its bare column; computed once.

    Nothing is concluded for functions of functions and of several columns.
    """
    if question.table.definitions[name].is_own:
        return None
    key = f"implied for {name} in {zone}"
    if key not in question.found:
        question.found[key] = implied(question.predicate, expression, zone)
    predicate: Expr | None = question.found[key]
    return predicate


def zone_is_given(table: IndexedTable) -> bool:
    """Whether the caller says that indexes of other engines are of the query's zone."""
    return table.expression_time_zone == table.time_zone


def unknown_bounds(data_type: pa.DataType, count: int) -> ColumnBounds:
    """Bounds of files of which nothing is known."""
    nothing = pa.nulls(count, data_type)
    unknown = np.full(count, -1, dtype=np.int64)
    return ColumnBounds(
        data_type, nothing, nothing, unknown, unknown, np.zeros(count, dtype=np.bool_)
    )


def _uses_bounds(expression: Expr, predicate: Expr, zone: str) -> bool:
    """Whether bounds of the expression would be used."""
    used: set[Expr] = set()
    nothing = {expression: unknown_bounds(bound_type(expression), 1)}
    may_match(predicate, nothing, 1, time_zone=zone, used=used)
    return bool(used)


def _has_column_ranges(expression: Expr, question: Question) -> bool:
    """Whether the column's own ranges are read as well, which say more about it."""
    names = {column.name for column in columns_of(expression)}
    if question.located.issuperset(names):
        return True
    definition = question.table.definitions.get(_STATS_PARTITION)
    fields = () if definition is None else definition.source_fields
    return (not fields or names.issubset(fields)) and question.leave_to(_STATS_PARTITION)


def _implied(
    name: str, expression: Expr, question: Question, *, is_zoned: bool
) -> Iterator[tuple[str, Expr]]:
    for zone in _zones(name, question.table) if is_zoned else [_ANY_ZONE]:
        predicate = implied_in(name, expression, question, zone)
        if predicate is not None:
            yield zone, predicate


def _zones(name: str, table: IndexedTable) -> list[str]:
    """The zones in which entries may be: that of the index, and what the caller says."""
    own = table.zones().get(name) or table.time_zone
    return list(dict.fromkeys([own, table.expression_time_zone or own]))


def _notes(table: IndexedTable, zone: str) -> Notes:
    """What stands beside entries of a zone; nothing does where the caller says the zone."""
    own: set[str | None] = {zone_note(zone)}
    return frozenset(own | {None}) if table.expression_time_zone == zone else frozenset(own)


def with_expression_as_column(predicate: Expr, expression: Expr) -> Expr:
    """The predicate with `expression` replaced by a column of path `EXPRESSION_PATH`.

    Only what stands directly in comparisons and IN lists under AND and OR is replaced: nothing
    else gives values to look up.
    """
    return _replaced(predicate, expression_key(expression))


def with_nulls_of_whole(predicate: Expr, expression: Expr) -> Expr:
    """The predicate where a part of the expression that is null is an expression that is null.

    Null goes through most functions, so that whatever satisfies the first satisfies the second.
    Spark asks for it: in ANSI mode a row whose text is no date satisfies, by its error, everything.

    Example:
        >>> day = Call("to_date", (Column(("s",)),))
        >>> year = Call("year", (day,))
        >>> with_nulls_of_whole(IsNull(day), year) == IsNull(year)
        True
    """
    parts = {expression_key(part) for part in _passing_nulls_on(expression)}
    return _weakened(predicate, expression, parts) if parts else predicate


def without_failures(predicate: Expr, expression: Expr) -> Expr:
    """The predicate without the doubt whether casts within the expression fail.

    For entries that are only made where none of them does.

    Example:
        >>> import pyarrow as pa
        >>> fare, kind = Column(("fare",), pa.float64()), pa.int32()
        >>> fails = Call(CAST_FAILS, (fare, Literal(None, kind)))
        >>> without_failures(Or((IsNull(fare), fails)), Cast(fare, kind)) == IsNull(fare)
        True
    """
    casts = {expression_key(node) for node in _casts_within(expression)}
    return _without(predicate, casts) if casts else predicate


def _casts_within(expression: Expr) -> list[Cast]:
    found: list[Cast] = []
    pending: list[Expr] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Cast):
            found.append(node)
        pending.extend(children_of(node))
    return found


def _without(node: Expr, casts: set[object]) -> Expr:
    match node:
        case And(children):
            return all_of([_without(child, casts) for child in children])
        case Or(children):
            kept = [_without(child, casts) for child in children]
            return any_of([child for child in kept if child != FALSE] or [FALSE])
        case Call(name, (child, Literal(_, kind))) if name == CAST_FAILS and kind is not None:
            return FALSE if expression_key(Cast(child, kind)) in casts else node
        case _:
            return node


def _passing_nulls_on(expression: Expr) -> list[Expr]:
    """The calls and casts within an expression with which it is null."""
    found: list[Expr] = []
    pending: list[Expr] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and canonical_name(node.function) in _MAY_SKIP_NULLS:
            continue
        inner = [child for child in children_of(node) if isinstance(child, Call | Cast)]
        found += inner
        pending += inner
    return found


def _weakened(node: Expr, expression: Expr, parts: set[object]) -> Expr:
    match node:
        case And(children):
            return And(tuple(_weakened(child, expression, parts) for child in children))
        case Or(children):
            return Or(tuple(_weakened(child, expression, parts) for child in children))
        case IsNull(child) if expression_key(child) in parts:
            return IsNull(expression)
        case _:
            return node


def _replaced(node: Expr, wanted: object) -> Expr:
    match node:
        case And(children):
            return And(tuple(_replaced(child, wanted) for child in children))
        case Or(children):
            return Or(tuple(_replaced(child, wanted) for child in children))
        case Compare(op, left, right) if expression_key(left) == wanted:
            return Compare(op, Column(EXPRESSION_PATH), right)
        case In(child, values) if expression_key(child) == wanted:
            return In(Column(EXPRESSION_PATH), values)
        case _:
            return node
