"""Bitmap indexes: from each value of a column, or of an expression, to the files that hold it.

RFC-63's form of values and files, sorted by value. Hudi has no such index, so it is a file index:

    Parquet   value   the type of the column or expression, null last
              files   list<int32>, ascending
    footer    lakedex.bounds    the first and the last value of each row group

Null is one of the values, so that the files with nulls are known too. The predicate is evaluated on
each value, not on ranges: only row groups whose first and last value allow the predicate are read,
then each of their values is a candidate by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, LakedexError
from lakedex.expr.arrays import is_text
from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds, exact_bounds
from lakedex.expr.leaf_match import is_portable
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr
from lakedex.index.contract import FIELDS_CHANGED, IndexedTable, Mask, Question
from lakedex.index.definitions import PINNED_ZONE, IndexDefinition
from lakedex.index.file_index import FileIndexKind, FileIndexQuery
from lakedex.index.file_index.run import (
    FILE,
    EncodedEntries,
    RunHead,
    file_numbers,
    inverted,
    packed,
    read_table,
    unpacked,
)
from lakedex.index.kinds.expression.definition import ExpressionTarget, is_of_fields
from lakedex.storage.protocol import FileInfo, Storage

VALUE: Final = "value"
_FILES = "files"
_BOUNDS_KEY = b"lakedex.bounds"
_VALUES_A_GROUP = 1 << 14
_GROUP_BYTES = 256 << 10


class BitmapKind(FileIndexKind):
    """Prunes by whatever a predicate says of one column or expression."""

    kind = "bitmap"
    indexes_expressions = True

    def entries(self, definition: IndexDefinition, rows: pa.Table) -> pa.Table:
        """The distinct values of a file."""
        target = _target(definition, rows.schema)
        return pa.table({VALUE: target.values(rows).unique().cast(target.type)})

    def encode(self, definition: IndexDefinition, entries: pa.Table, files: int) -> EncodedEntries:
        """Each value once, with the files that hold it."""
        del definition
        values, lists = inverted(entries[VALUE].combine_chunks(), entries[FILE], files)
        table = pa.table({VALUE: values, _FILES: lists})
        bounds = packed(_group_bounds(table[VALUE].combine_chunks()))
        return EncodedEntries(table, {_BOUNDS_KEY: bounds}, _VALUES_A_GROUP)

    def decode(self, storage: Storage, head: RunHead) -> pa.Table:
        """Each value as often as there are files that hold it."""
        table = read_table(storage, head)
        lengths = table[_FILES].combine_chunks().value_lengths().to_numpy()
        rows = np.repeat(np.arange(table.num_rows), lengths)
        numbers = file_numbers(table[_FILES]).astype(np.int32)
        values = table[VALUE].combine_chunks().take(pa.array(rows))
        return pa.table({FILE: pa.array(numbers), VALUE: values})

    def lookup_bytes(self, run: FileInfo) -> int:
        """A row group or two of a run."""
        return min(run.size_bytes, _GROUP_BYTES)

    def why_not(self, definition: IndexDefinition, table: IndexedTable) -> str | None:
        """Why an index cannot be used for any query of a snapshot; None if it can."""
        try:
            target = _target(definition, table.read.schema)
        except LakedexError as error:
            return str(error)
        if target.zone not in (None, table.time_zone):
            return f"it was built in the time zone {target.zone}, which is not that of the query"
        if table.read.history is not None and is_of_fields(target.expression):
            return FIELDS_CHANGED
        return None

    def can_answer(self, definition: IndexDefinition, question: Question) -> str | None:
        """Why an index says nothing about a predicate; None if it does."""
        table = question.table
        expression = _target(definition, table.read.schema).expression
        used: set[Expr] = set()
        nothing = {expression: _unknown(bound_type(expression))}
        may_match(question.predicate, nothing, 1, time_zone=table.time_zone, used=used)
        if used:
            return None
        fields = ", ".join(definition.source_fields)
        return f"the predicate has no condition on {fields} as the index computes it"

    def candidates(self, query: FileIndexQuery) -> tuple[Mask, str]:
        """The slices that hold a value for which the predicate may be true."""
        table = query.table
        expression = _target(query.definition, table.read.schema).expression
        match = partial(may_match, query.predicate, time_zone=table.time_zone)
        mask = np.zeros(len(table.slices), dtype=np.bool_)
        matching = 0
        for run in query.runs:
            groups = _bounds_of_groups(run.head)
            chosen = np.flatnonzero(match({expression: groups}, len(groups)))
            if not len(chosen):
                continue
            values, files = _read_groups(table.read.storage, run.head, chosen.tolist())
            points = _points(expression, values)
            if is_text(points.type) and not is_portable(query.predicate):
                # Engines of other Unicode versions may change other letters.
                plain = pc.fill_null(pc.string_is_ascii(points.minimum), fill_value=True)
                points = points.where(plain.to_numpy(zero_copy_only=False))
            is_match = match({expression: points}, len(points))
            matching += int(is_match.sum())
            mask |= query.slices_of(run, file_numbers(files.filter(pa.array(is_match))))
        return mask, f"{matching} values of it may match"


def _target(definition: IndexDefinition, schema: pa.Schema) -> ExpressionTarget:
    """What is computed of rows, in the time zone of the index.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    zone = definition.options.get(PINNED_ZONE, "")
    return ExpressionTarget.of(definition, schema, {definition.name: zone}, "")


def _read_groups(
    storage: Storage, head: RunHead, groups: Sequence[int]
) -> tuple[pa.Array, pa.ChunkedArray]:
    """Values and lists of files of some row groups.

    Raises:
        CorruptFile: they cannot be read, or name files that there are not.
    """
    table = read_table(storage, head, groups=groups)
    numbers = file_numbers(table[_FILES])
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= head.files.num_rows):
        raise CorruptFile(head.path, 0, expected="numbers of its files", actual=numbers.max())
    return table[VALUE].combine_chunks(), table[_FILES]


def _group_bounds(values: pa.Array) -> pa.Table:
    """The first and the last value of each row group, and how many nulls it has."""
    starts = np.arange(0, len(values), _VALUES_A_GROUP)
    nulls = [values[at : at + _VALUES_A_GROUP].null_count for at in starts.tolist()]
    ends = np.minimum(starts + _VALUES_A_GROUP, len(values)) - 1
    # Nulls are last: before them is the last value, if there is any.
    last = np.maximum(ends - np.array(nulls, dtype=np.int64), starts)
    return pa.table(
        {
            "low": values.take(pa.array(starts)),
            "high": values.take(pa.array(last)),
            "nulls": pa.array(nulls, pa.int64()),
        }
    )


def _bounds_of_groups(head: RunHead) -> ColumnBounds:
    """The values of each row group of a run.

    Raises:
        CorruptFile: the footer does not say them.
    """
    try:
        table = unpacked(head.footer[_BOUNDS_KEY])
        low, high = table["low"].combine_chunks(), table["high"].combine_chunks()
        nulls = table["nulls"].to_numpy()
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptFile(head.path, 0, expected="bounds of its values", actual=error) from error
    if table.num_rows != len(head.group_rows) or low.type != head.schema.field(VALUE).type:
        raise CorruptFile(head.path, 0, expected="bounds of its values", actual=table.schema)
    known = np.ones(len(low), dtype=np.bool_)
    if pa.types.is_floating(low.type):
        # NaN comes last among the values, and is in no range.
        nan = pc.fill_null(pc.is_nan(high), fill_value=False)
        known = ~nan.to_numpy(zero_copy_only=False)
    counts = np.array(head.group_rows, dtype=np.int64)
    return ColumnBounds(low.type, low, high, nulls, counts, known, no_nan=known)


def _points(expression: Expr, values: pa.Array) -> ColumnBounds:
    """Each value as what a file without any other would hold."""
    points = exact_bounds(values)
    if pa.types.is_floating(values.type) and not isinstance(expression, Column):
        # A plain column is evaluated; of ranges NaN is in none.
        nan = pc.fill_null(pc.is_nan(values), fill_value=False).to_numpy(zero_copy_only=False)
        return replace(points.where(~nan), no_nan=~nan)
    return points


def _unknown(kind: pa.DataType) -> ColumnBounds:
    nothing, none = pa.nulls(1, kind), np.full(1, -1, dtype=np.int64)
    return ColumnBounds(kind, nothing, nothing, none, none, np.zeros(1, dtype=np.bool_))
