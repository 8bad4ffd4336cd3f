"""What a question asks of an expression index: by the expression itself, or by its bare column.

The expression in a predicate is computed in the query's time zone, so only entries of that zone
answer. A bare column has no zone: what follows for the expression is worked out in the zone of
the index, and entries of that zone answer whatever the zone of the query is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Expr, columns_of
from lakedex.index.contract import IndexedTable, Question
from lakedex.index.file_bounds import Notes
from lakedex.index.kinds.expression.definition import depends_on_zone
from lakedex.index.kinds.expression.implied import implied
from lakedex.index.kinds.expression.substitute import with_nulls_of_whole, without_failures
from lakedex.index.metadata_table.stat_bounds import zone_note

_ANY_ZONE = "UTC"
_STATS_PARTITION = "column_stats"


@dataclass(frozen=True, slots=True)
class Ask:
    """A predicate on the expression, and the entries that can answer it."""

    predicate: Expr
    zone: str
    notes: Notes
    """What stands beside the bounds of such entries; None for any."""
    by_column: bool = False


def asks_of(name: str, expression: Expr, question: Question) -> list[Ask]:
    """All that is asked of an index of ranges; found out once."""
    place = f"asked of {name}"
    if place not in question.found:
        question.found[place] = _find_asks(name, expression, question)
    found: list[Ask] = question.found[place]
    return found


def _find_asks(name: str, expression: Expr, question: Question) -> list[Ask]:
    table = question.table
    is_zoned = depends_on_zone(expression)
    found = []
    predicate = without_failures(question.predicate, expression)
    direct = with_nulls_of_whole(predicate, expression)
    if _is_asked_for(expression, direct, table.time_zone):
        zone = table.time_zone
        found.append(Ask(direct, zone, _notes(table, zone) if is_zoned else None))
    if not _is_told_by_column(expression, question):
        for zone, predicate in _implied(name, expression, question, is_zoned=is_zoned):
            notes = _notes(table, zone) if is_zoned else None
            found.append(Ask(predicate, zone, notes, by_column=True))
    return found


def implied_in(name: str, expression: Expr, question: Question, zone: str) -> Expr | None:
    """What the question says of the expression by its bare column; found out once.

    Nothing is concluded for functions of functions and of several columns.
    """
    if question.table.definitions[name].is_own:
        return None
    place = f"implied for {name} in {zone}"
    if place not in question.found:
        question.found[place] = implied(question.predicate, expression, zone)
    found: Expr | None = question.found[place]
    return found


def zone_is_told(table: IndexedTable) -> bool:
    """Whether the caller says that indexes of other engines are of the query's zone."""
    return table.expression_time_zone == table.time_zone


def unknown_bounds(data_type: pa.DataType, count: int) -> ColumnBounds:
    """Bounds of files of which nothing is known."""
    nothing = pa.nulls(count, data_type)
    unknown = np.full(count, -1, dtype=np.int64)
    return ColumnBounds(
        data_type, nothing, nothing, unknown, unknown, np.zeros(count, dtype=np.bool_)
    )


def _is_asked_for(expression: Expr, predicate: Expr, zone: str) -> bool:
    """Whether bounds of the expression would be looked at."""
    used: set[Expr] = set()
    nothing = {expression: unknown_bounds(bound_type(expression), 1)}
    may_match(predicate, nothing, 1, time_zone=zone, used=used)
    return bool(used)


def _is_told_by_column(expression: Expr, question: Question) -> bool:
    """Whether the column's own ranges are asked as well, which tell more of the column."""
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
