"""The ranges of an expression in whole partitions, which an index keeps beside those of files.

They are asked first where there are so many files that their ranges take long to read. A range
of a partition covers all its files, and only ever grows; of nulls it says that there is nothing
else, never that there is none, as files from before the column came are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.evaluate import evaluate
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Expr, columns_of
from lakedex.index.contract import Mask, Question
from lakedex.index.cost import lookup_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import Notes, bounds_seconds
from lakedex.index.kinds.expression.asking import Ask
from lakedex.index.kinds.expression.records import partition_end
from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.stat_values import stat_values

FEW_SLICES = 1_000
"""The entries of so many files are read in the time of any read at all."""
_MUCH_DEARER = 4


def partitions_left(
    definition: IndexDefinition, expression: Expr, question: Question, asks: Sequence[Ask]
) -> Mask | None:
    """The slices whose partitions may match; None where the partitions are not worth asking."""
    name, column = definition.name, definition.source_fields[0]
    if definition.is_own or not _is_worth_it(name, column, question):
        return None
    if not _is_null_of_null(expression):
        return None
    partitions = question.partitions
    keys = pa.array([name_id(column) + partition_end(path) for path in partitions], pa.string())
    records = question.table.metadata.lookup(name, keys)
    bounds_of = partial(_bounds, records, keys, bound_type(expression))
    keep = np.ones(len(partitions), dtype=np.bool_)
    for ask in asks:
        bounds = {expression: bounds_of(ask.notes)}
        keep &= may_match(ask.predicate, bounds, len(partitions), time_zone=ask.zone)
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
        told = pc.is_in(values.notes, value_set=pa.array([n for n in notes if n], pa.string()))
        is_told = told.to_numpy(zero_copy_only=False)
        silent = values.notes.is_null().to_numpy(zero_copy_only=False)
        known = known & (is_told | (silent & (None in notes)))
    all_null = (values.value_count > 0) & (values.null_count == values.value_count)
    return ColumnBounds(
        kind,
        values.minimum,
        values.maximum,
        np.where(all_null, values.null_count, -1),
        np.where(all_null, values.value_count, -1),
        known,
    )
