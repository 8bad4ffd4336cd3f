"""Expression indexes as pruners: ranges or bloom filters over f(column).

An index over a function of time holds what the function gave in some time zone. Entries of lakedex
say in which. Those of other engines are of the session that wrote them, which no table tells: they
are used where the column's own range, put through the function in the query's zone, gives the very
same bounds; or where the caller says in which zone the index was built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import is_text
from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.may_match import is_portable, may_match
from lakedex.expr.monotonic import carry
from lakedex.expr.points import points
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.index.contract import (
    FIELDS_CHANGED,
    NOT_LIVE,
    Answer,
    IndexedTable,
    Mask,
    Question,
    Stage,
    covered_up_to,
)
from lakedex.index.cost import Estimate
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import bounds_seconds, slice_bounds
from lakedex.index.kinds.bloom_filters.lookup import filter_seconds, filtered
from lakedex.index.kinds.expression.asking import Ask, asks_of, implied_in, zone_is_told
from lakedex.index.kinds.expression.definition import (
    BLOOM_FLAVOUR,
    depends_on_zone,
    expression_text,
    indexed_expression,
    is_of_fields,
)
from lakedex.index.kinds.expression.partition_level import partitions_left
from lakedex.index.kinds.expression.substitute import (
    EXPRESSION_PATH,
    with_expression_as_column,
    without_failures,
)
from lakedex.index.kinds.expression.target import PREFIX

_STATS_PARTITION = "column_stats"
_UNTOLD: frozenset[str | None] = frozenset([None])


class ExpressionIndex:
    """Prunes by predicates on the indexed expression, and by what others imply for it."""

    kind = "expression_index"
    stage = Stage.EXPRESSIONS
    describes_files = True

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
            asked = _filter_values(name, expression, question)
            if isinstance(asked, str):
                return asked
            return Estimate(filter_seconds(question, name, len(asked)))
        if not asks_of(name, expression, question):
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
    place = f"expression of {name} in {table.time_zone}"
    if place not in table.kept:
        bound = indexed_expression(definition, table.read.schema, table.time_zone)
        table.kept[place] = bound
    expression: Expr | str = table.kept[place]
    if isinstance(expression, str):
        return expression
    if definition.is_own and table.read.history is not None and is_of_fields(expression):
        return FIELDS_CHANGED
    return definition, expression


def _by_bloom(name: str, expression: Expr, question: Question) -> Answer | str:
    values = _filter_values(name, expression, question)
    if isinstance(values, str):
        return values
    answer = filtered(question.table, name, question.slices, pa.array(values, pa.string()))
    if not question.table.definitions[name].is_async:
        return answer
    # Slices with log files are read whatever a filter of the base file says.
    has_logs = np.array([bool(each.logs) for each in question.slices], dtype=np.bool_)
    reason = answer.reason + covered_up_to(question.slices, answer.covered | has_logs)
    return replace(answer, reason=reason)


def _filter_values(name: str, expression: Expr, question: Question) -> list[str] | str:
    """The values that the expression must have, where filters know such values."""
    predicate = without_failures(question.predicate, expression)
    asked = points(with_expression_as_column(predicate, expression), EXPRESSION_PATH)
    if asked is None:
        told = implied_in(name, expression, question, question.table.time_zone)
        if told is not None:
            asked = points(with_expression_as_column(told, expression), EXPRESSION_PATH)
    if asked is None:
        return "the predicate has no = or IN on its expression, nor on its column"
    if depends_on_zone(expression) and not _filters_are_of_zone(name, question.table):
        return _zone_reason()
    kind = str if is_text(bound_type(expression)) else int
    values = [str(each.value) if type(each.value) is kind else "" for each in asked]
    if not all(values):
        return "filters know neither null nor empty nor other values than texts and whole numbers"
    if not is_portable(expression) and not all(value.isascii() for value in values):
        return "engines do not agree on upper and lower case of all characters"
    return values


def _filters_are_of_zone(name: str, table: IndexedTable) -> bool:
    """Whether filters are of the query's zone: none says by itself in which it was made."""
    if table.definitions[name].is_own:
        return table.zones().get(name) == table.time_zone
    return zone_is_told(table)


def _not_asked_for(expression: Expr) -> str:
    names = ", ".join(column.name for column in columns_of(expression))
    return f"the predicate does not ask for its expression over {names}"


def _by_range(
    name: str, definition: IndexDefinition, expression: Expr, question: Question
) -> Answer | str:
    asks = asks_of(name, expression, question)
    if not asks:
        return _not_asked_for(expression)
    reason = f"ranges of {expression_text(definition)}"
    if all(ask.by_column for ask in asks):
        reason += ", by what is asked of the column"
    first = partitions_left(definition, expression, question, asks)
    if first is None:
        kept = _of_files(definition, expression, question, asks)
    else:
        left = question.slices.where(first)
        narrowed = replace(question, slices=left)
        reason += f" in {len(narrowed.partitions)} of {len(question.partitions)} partitions"
        kept = first.copy()
        finer = _of_files(definition, expression, narrowed, asks) if left else "none is left"
        kept[first] = True if isinstance(finer, str) else finer
    if isinstance(kept, str):
        return kept
    if definition.is_async:
        kind, first_column = bound_type(expression), definition.source_fields[0]
        known = slice_bounds(question, name, first_column, kind).known
        reason += covered_up_to(question.slices, known)
    return Answer(kept, np.ones(len(kept), dtype=np.bool_), reason)


def _of_files(
    definition: IndexDefinition, expression: Expr, question: Question, asks: Sequence[Ask]
) -> Mask | str:
    """The slices whose own entries allow what is asked."""
    count = len(question.slices)
    kind = bound_type(expression)
    first, *others = definition.source_fields
    bounds_of = partial(slice_bounds, question, definition.name, first, kind, others=tuple(others))
    keep: Mask = np.ones(count, dtype=np.bool_)
    problem: str | None = None
    is_answered = False
    for ask in asks:
        match = partial(may_match, ask.predicate, count=count, time_zone=ask.zone)
        bounds = bounds_of(notes=ask.notes)
        keep &= match(bounds={expression: bounds})
        is_answered |= ask.notes is None or bool(bounds.known.any())
        if ask.notes is None or ask.by_column or definition.is_own or bounds.known.all():
            continue
        # What lakedex wrote says in which zone; the rest is believed where the ranges agree.
        untold = bounds_of(notes=_UNTOLD)
        agreed = _agreeing(untold, expression, columns_of(expression)[0], question)
        if isinstance(agreed, str):
            problem = agreed
        else:
            keep &= match(bounds={expression: untold.where(agreed)})
            is_answered = True
    return keep if is_answered else problem or _zone_reason()


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


def _zone_reason() -> str:
    return (
        "the time zone that it was built in is not recorded, or is not that of the query; where it "
        "is not recorded, open the table with expression_time_zone to use it"
    )
