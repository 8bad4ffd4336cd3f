"""Expression indexes as pruners: ranges or bloom filters over f(column).

An index over a function of time holds what the function gave in some time zone. Entries of lakedex
say in which. Those of other engines are of the session that wrote them, which no table tells: they
are used where the column's own range, put through the function in the query's zone, gives the very
same bounds; or where the caller says in which zone the index was built.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.carried import carry
from lakedex.expr.leaf_match import is_portable
from lakedex.expr.may_match import may_match
from lakedex.expr.points import points
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.index.answer import NOT_LIVE, Answer, IndexedTable, Mask, Question
from lakedex.index.bloom_filters import filter_seconds, filtered
from lakedex.index.cost import Estimate
from lakedex.index.definitions import IndexDefinition
from lakedex.index.expression.definition import (
    BLOOM_FLAVOUR,
    depends_on_zone,
    expression_text,
    indexed_expression,
)
from lakedex.index.expression.substitute import (
    EXPRESSION_PATH,
    with_expression_as_column,
    with_nulls_of_whole,
)
from lakedex.index.expression.target import PREFIX
from lakedex.index.file_bounds import bounds_seconds, slice_bounds
from lakedex.index.metadata_table.stat_bounds import zone_note

_STATS_PARTITION = "column_stats"
_UNTOLD: frozenset[str | None] = frozenset([None])


class ExpressionIndex:
    """Prunes by predicates on the indexed expression, never by those on its bare column."""

    kind = "expression_index"

    def names(self, table: IndexedTable) -> list[str]:
        """The expression indexes that are defined or live."""
        return table.named_indexes(PREFIX)

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Reading the ranges of the expression, or its filters."""
        found = _indexed(name, question)
        if isinstance(found, str):
            return found
        definition, expression = found
        if definition.index_type == BLOOM_FLAVOUR:
            asked = _filter_values(expression, question)
            if isinstance(asked, str):
                return asked
            return Estimate(filter_seconds(question, name, len(asked)))
        if not _is_asked_for(expression, question):
            return _not_asked_for(expression)
        # Only entries of other engines have the column's own ranges asked too.
        return Estimate(bounds_seconds(question, name, definition.source_fields[0]))

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices whose entries allow the predicate."""
        found = _indexed(name, question)
        if isinstance(found, str):
            return found
        definition, expression = found
        if definition.index_type == BLOOM_FLAVOUR:
            return _by_bloom(name, expression, question)
        return _by_range(name, definition, expression, question)


def _indexed(name: str, question: Question) -> tuple[IndexDefinition, Expr] | str:
    """The definition of a live index, and the expression that it is about."""
    table = question.table
    definition = table.definitions.get(name)
    if definition is None:
        return "it has no definition"
    if not table.is_live(name):
        return NOT_LIVE
    expression = indexed_expression(definition, table.read.schema, table.time_zone)
    return expression if isinstance(expression, str) else (definition, expression)


def _by_bloom(name: str, expression: Expr, question: Question) -> Answer | str:
    values = _filter_values(expression, question)
    if isinstance(values, str):
        return values
    return filtered(question.table, name, question.slices, pa.array(values, pa.string()))


def _filter_values(expression: Expr, question: Question) -> list[str] | str:
    """The values that the expression must have, where filters know such values."""
    predicate = with_expression_as_column(question.predicate, expression)
    asked = points(predicate, EXPRESSION_PATH)
    if asked is None:
        return "the predicate has no = or IN on its expression"
    if depends_on_zone(expression) and not _zone_is_told(question.table):
        return _zone_reason()
    values = [literal.value for literal in asked]
    if not all(isinstance(value, str) and value for value in values):
        return "filters know neither null nor empty nor other values than text"
    if not is_portable(expression) and not all(str(value).isascii() for value in values):
        return "engines do not agree on upper and lower case of all characters"
    return [str(value) for value in values]


def _is_asked_for(expression: Expr, question: Question) -> bool:
    """Whether bounds of the expression would be looked at."""
    used: set[Expr] = set()
    nothing = {expression: _unknown(bound_type(expression), 1)}
    predicate = with_nulls_of_whole(question.predicate, expression)
    may_match(predicate, nothing, 1, time_zone=question.table.time_zone, used=used)
    return bool(used)


def _not_asked_for(expression: Expr) -> str:
    names = ", ".join(column.name for column in columns_of(expression))
    return f"the predicate does not ask for its expression over {names}"


def _by_range(
    name: str, definition: IndexDefinition, expression: Expr, question: Question
) -> Answer | str:
    table = question.table
    source = columns_of(expression)[0]
    count = len(question.slices)
    result_type = bound_type(expression)
    if not _is_asked_for(expression, question):
        return _not_asked_for(expression)
    first, *others = definition.source_fields
    bounds_of = partial(slice_bounds, question, name, first, result_type, others=tuple(others))
    predicate = with_nulls_of_whole(question.predicate, expression)
    match = partial(may_match, predicate, count=count, time_zone=table.time_zone)
    if not depends_on_zone(expression):
        keep = match(bounds={expression: bounds_of()})
    else:
        # What lakedex wrote says in which zone; the rest is believed where the ranges agree.
        noted = bounds_of(notes=_notes_of_zone(table))
        keep = match(bounds={expression: noted})
        if not noted.known.all() and not definition.is_own:
            bounds = bounds_of(notes=_UNTOLD)
            agreed = _agreeing(bounds, expression, source, question)
            if not isinstance(agreed, str):
                keep &= match(bounds={expression: bounds.where(agreed)})
            elif not noted.known.any():
                return agreed
    reason = f"ranges of {expression_text(definition)}"
    return Answer(keep, np.ones(count, dtype=np.bool_), reason)


def _agreeing(
    bounds: ColumnBounds, expression: Expr, source: Column, question: Question
) -> Mask | str:
    """The slices whose bounds are those that the query's own time zone gives."""
    if not question.table.is_live(_STATS_PARTITION) or source.type is None:
        return _zone_reason()
    plain = slice_bounds(question, _STATS_PARTITION, source.name, source.type)
    carried = carry(expression, plain, question.table.time_zone)
    if carried is None:
        return _zone_reason()
    same = pc.and_(
        pc.equal(bounds.minimum, carried.minimum), pc.equal(bounds.maximum, carried.maximum)
    )
    agreed = same.fill_null(pa.scalar(value=False)).to_numpy(zero_copy_only=False)
    if not agreed.any():
        return _zone_reason()
    mask: Mask = agreed.astype(np.bool_)
    return mask


def _zone_is_told(table: IndexedTable) -> bool:
    return table.expression_time_zone == table.time_zone


def _notes_of_zone(table: IndexedTable) -> frozenset[str | None]:
    """What stands beside entries of the query's time zone."""
    own = {zone_note(table.time_zone)}
    return frozenset(own | {None}) if _zone_is_told(table) else frozenset(own)


def _zone_reason() -> str:
    return (
        "the time zone that it was built in is not recorded, or is not that of the query; where it "
        "is not recorded, open the table with expression_time_zone to use it"
    )


def _unknown(data_type: pa.DataType, count: int) -> ColumnBounds:
    nothing = pa.nulls(count, data_type)
    unknown = np.full(count, -1, dtype=np.int64)
    return ColumnBounds(
        data_type, nothing, nothing, unknown, unknown, np.zeros(count, dtype=np.bool_)
    )
