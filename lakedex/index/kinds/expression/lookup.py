"""Expression indexes as pruners: ranges or bloom filters over f(column).

An index over a function of time holds what the function gave in some time zone. Entries of lakedex
say in which. Those of other engines are of the session that wrote them, which no table records:
they are used where the column's own range, put through the function in the query's zone, gives the
very same bounds; or where the caller says in which zone the index was built.

The ranges of whole partitions are read first where there are so many files that their ranges take
long to read. A range of a partition covers all its files, and only ever grows; of nulls it says
that there is nothing else, never that there is none, as files from before the column came are not
counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.arrays import is_text
from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.evaluate import evaluate
from lakedex.expr.leaf_match import is_portable
from lakedex.expr.may_match import may_match
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
from lakedex.index.cost import Estimate, lookup_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import Notes, bounds_seconds, slice_bounds
from lakedex.index.kinds.bloom_filters.kind import filter_seconds, filtered
from lakedex.index.kinds.expression.definition import (
    BLOOM_FLAVOUR,
    PREFIX,
    depends_on_zone,
    expression_text,
    indexed_expression,
    is_of_fields,
)
from lakedex.index.kinds.expression.predicates import (
    EXPRESSION_PATH,
    ExpressionPredicate,
    expression_predicates,
    implied_in,
    with_expression_as_column,
    without_failures,
    zone_is_given,
)
from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import expression_partition_id
from lakedex.index.metadata_table.stat_values import stat_values

_STATS_PARTITION = "column_stats"
_WITHOUT_ZONE: frozenset[str | None] = frozenset([None])
FEW_SLICES = 1_000
"""The entries of so many files are read in the time of any read at all."""
_MUCH_DEARER = 4


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
            values = _filter_values(name, expression, question)
            if isinstance(values, str):
                return values
            return Estimate(filter_seconds(question, name, len(values)))
        if not expression_predicates(name, expression, question):
            return _not_compared(expression)
        # Only entries of other engines have the column's own ranges read too.
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
    literals = points(with_expression_as_column(predicate, expression), EXPRESSION_PATH)
    if literals is None:
        implied_predicate = implied_in(name, expression, question, question.table.time_zone)
        if implied_predicate is not None:
            literals = points(
                with_expression_as_column(implied_predicate, expression), EXPRESSION_PATH
            )
    if literals is None:
        return "the predicate has no = or IN on its expression, nor on its column"
    if depends_on_zone(expression) and not _filters_are_of_zone(name, question.table):
        return _zone_reason()
    kind = str if is_text(bound_type(expression)) else int
    values = [str(each.value) if type(each.value) is kind else "" for each in literals]
    if not all(values):
        return "filters know neither null nor empty nor other values than texts and whole numbers"
    if not is_portable(expression) and not all(value.isascii() for value in values):
        return "engines do not agree on upper and lower case of all characters"
    return values


def _filters_are_of_zone(name: str, table: IndexedTable) -> bool:
    """Whether filters are of the query's zone: none says by itself in which it was made."""
    if table.definitions[name].is_own:
        return table.zones().get(name) == table.time_zone
    return zone_is_given(table)


def _not_compared(expression: Expr) -> str:
    names = ", ".join(column.name for column in columns_of(expression))
    return f"the predicate does not ask for its expression over {names}"


def _by_range(
    name: str, definition: IndexDefinition, expression: Expr, question: Question
) -> Answer | str:
    predicates = expression_predicates(name, expression, question)
    if not predicates:
        return _not_compared(expression)
    reason = f"ranges of {expression_text(definition)}"
    if all(each.by_column for each in predicates):
        reason += ", by what is asked of the column"
    first = partitions_left(definition, expression, question, predicates)
    if first is None:
        kept = _of_files(definition, expression, question, predicates)
    else:
        left = question.slices.where(first)
        narrowed = replace(question, slices=left)
        reason += f" in {len(narrowed.partitions)} of {len(question.partitions)} partitions"
        kept = first.copy()
        finer = _of_files(definition, expression, narrowed, predicates) if left else "none is left"
        kept[first] = True if isinstance(finer, str) else finer
    if isinstance(kept, str):
        return kept
    if definition.is_async:
        kind, first_column = bound_type(expression), definition.source_fields[0]
        known = slice_bounds(question, name, first_column, kind).known
        reason += covered_up_to(question.slices, known)
    return Answer(kept, np.ones(len(kept), dtype=np.bool_), reason)


def _of_files(
    definition: IndexDefinition,
    expression: Expr,
    question: Question,
    predicates: Sequence[ExpressionPredicate],
) -> Mask | str:
    """The slices whose own entries allow the predicates."""
    count = len(question.slices)
    kind = bound_type(expression)
    first, *others = definition.source_fields
    bounds_of = partial(slice_bounds, question, definition.name, first, kind, others=tuple(others))
    keep: Mask = np.ones(count, dtype=np.bool_)
    problem: str | None = None
    is_answered = False
    for each in predicates:
        match = partial(may_match, each.predicate, count=count, time_zone=each.zone)
        bounds = bounds_of(notes=each.notes)
        keep &= match(bounds={expression: bounds})
        is_answered |= each.notes is None or bool(bounds.known.any())
        if each.notes is None or each.by_column or definition.is_own or bounds.known.all():
            continue
        # What lakedex wrote says in which zone; the rest is believed where the ranges agree.
        unzoned = bounds_of(notes=_WITHOUT_ZONE)
        agreed = _agreeing(unzoned, expression, columns_of(expression)[0], question)
        if isinstance(agreed, str):
            problem = agreed
        else:
            keep &= match(bounds={expression: unzoned.where(agreed)})
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


def partitions_left(
    definition: IndexDefinition,
    expression: Expr,
    question: Question,
    predicates: Sequence[ExpressionPredicate],
) -> Mask | None:
    """The slices whose partitions may match; None where the partitions are not worth asking."""
    name, column = definition.name, definition.source_fields[0]
    if definition.is_own or not _is_worth_it(name, column, question):
        return None
    if not _is_null_of_null(expression):
        return None
    partitions = question.partitions
    keys = pa.array(
        [name_id(column) + expression_partition_id(path) for path in partitions], pa.string()
    )
    records = question.table.metadata.lookup(name, keys)
    bounds_of = partial(_bounds, records, keys, bound_type(expression))
    keep = np.ones(len(partitions), dtype=np.bool_)
    for each in predicates:
        bounds = {expression: bounds_of(each.notes)}
        keep &= may_match(each.predicate, bounds, len(partitions), time_zone=each.zone)
    kept = {path for path, keeps in zip(partitions, keep.tolist(), strict=True) if keeps}
    return question.slices.in_partitions(kept)


def _is_worth_it(name: str, column: str, question: Question) -> bool:
    table, slices = question.table, question.slices
    if len(slices) <= FEW_SLICES or not table.is_latest or table.read.history is not None:
        return False
    partitions = len(question.partitions)
    seconds = lookup_seconds(table.metadata, name, partitions)
    return partitions > 1 and bounds_seconds(question, name, column) > _MUCH_DEARER * seconds


def _is_null_of_null(expression: Expr) -> bool:
    """Whether rows without the column have no value of the expression either."""
    columns = columns_of(expression)
    if any(len(column.path) > 1 for column in columns):
        return False
    nothing = [pa.nulls(1, column.type) for column in columns]
    try:
        row = pa.RecordBatch.from_arrays(nothing, [column.path[0] for column in columns])
        return bool(evaluate(expression, row).null_count == 1)
    except (LakedexError, pa.ArrowException):
        return False


def _bounds(records: pa.Table, keys: pa.Array, kind: pa.DataType, notes: Notes) -> ColumnBounds:
    place = pc.index_in(keys, value_set=records["key"].combine_chunks())
    values = stat_values(records[STATS_PAYLOAD].combine_chunks(), kind).take(place)
    known = place.is_valid().to_numpy(zero_copy_only=False)
    if notes is not None:
        noted = pc.is_in(values.notes, value_set=pa.array([n for n in notes if n], pa.string()))
        is_noted = noted.to_numpy(zero_copy_only=False)
        silent = values.notes.is_null().to_numpy(zero_copy_only=False)
        known = known & (is_noted | (silent & (None in notes)))
    all_null = (values.value_count > 0) & (values.null_count == values.value_count)
    return ColumnBounds(
        kind,
        values.minimum,
        values.maximum,
        np.where(all_null, values.null_count, -1),
        np.where(all_null, values.value_count, -1),
        known,
    )
