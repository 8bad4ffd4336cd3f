"""Column stats: which files cannot hold a value, by their ranges and null counts.

A table has them once, of several columns. CREATE INDEX on another column adds it to those
that column stats cover, in all files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakedex.config import write_option_names as options_of
from lakedex.errors import InvalidInput
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.index.contract import ALREADY_LOCATED, NOT_LIVE, Answer, IndexedTable, Question, Stage
from lakedex.index.cost import Estimate
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import bounds_seconds, slice_bounds
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.index.size_estimate import USUAL_STAT_GROUPS, IndexedRows, stat_groups_for

PARTITION = "column_stats"
_WHY_SYNC = (
    "Hudi takes a file without statistics for one that it need not skip, and partition_stats are "
    "made of them; create an expression index with this option instead"
)


class ColumnStatsKind(MetadataIndexKind):
    """Prunes by comparisons, IN, IS NULL and LIKE 'prefix%' on columns with statistics."""

    kind = "column_stats"
    stage = Stage.COLUMNS
    describes_files = True
    partition = Kind.COLUMN_STATS
    build_order = 1
    usual_file_groups = USUAL_STAT_GROUPS
    has_stat_columns = True
    collects = True
    is_suggested = True
    switches = (options_of.COLUMN_STATS,)
    choices = (options_of.COLUMN_STATS_COLUMNS, options_of.COLUMN_STATS_MOST_COLUMNS)
    derived = ("partition_stats",)
    aliases = ("col_stats",)

    def names(self, table: IndexedTable) -> list[str]:
        """The column stats index, if the table has one."""
        known = table.is_live(PARTITION) or PARTITION in table.definitions
        return [PARTITION] if known else []

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Reading the ranges of every column that the predicate names."""
        columns = _readable_columns(name, question)
        if isinstance(columns, str):
            return columns
        if question.located.issuperset(column.name for column in columns):
            return ALREADY_LOCATED
        return Estimate(sum(bounds_seconds(question, name, each.name) for each in columns))

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices whose ranges allow the predicate."""
        table = question.table
        columns = _readable_columns(name, question)
        if isinstance(columns, str):
            return columns
        bounds: dict[Expr, ColumnBounds] = {
            column: slice_bounds(question, name, column.name, column.type) for column in columns
        }
        count = len(question.slices)
        answer = may_match(question.predicate, bounds, count, time_zone=table.time_zone)
        known = sum(int(each.known.sum()) for each in bounds.values())
        if not known:
            return "it has no statistics of the files that are left"
        names = ", ".join(column.name for column in columns)
        return Answer(answer, np.ones(count, dtype=np.bool_), f"ranges of {names}")

    def define(self, request: CreateRequest) -> NewIndex:
        """The write options that keep statistics of the columns.

        Raises:
            InvalidInput: an option is wrong.
        """
        options = request.write_options(_WHY_SYNC)
        return NewIndex({**options, **_flags(request.columns)})

    def extend(self, request: CreateRequest) -> NewIndex | None:
        """The columns that column stats do not cover yet; None where there is nothing to add.

        That is so, too, where they are being built, or do not say what they cover.

        Raises:
            InvalidInput: there is no such column, or it has no range.
        """
        options = request.write_options(_WHY_SYNC)
        named = list(dict.fromkeys(request.column(each) for each in request.columns))
        for name in named:
            kind = request.schema.field(name).type
            if pa.types.is_nested(kind):
                raise InvalidInput(
                    f"column {name!r} of type {kind} cannot be in column_stats: only columns of "
                    "single values can"
                )
        definition = request.definitions.get(PARTITION)
        if definition is None or not request.is_live(PARTITION):
            return None
        more = tuple(name for name in named if name not in definition.source_fields)
        return NewIndex(options, more_columns=more) if more else None

    def rebuild(
        self, request: CreateRequest, name: str, definition: IndexDefinition | None
    ) -> NewIndex:
        """The write options by which statistics of the same columns are built again."""
        del request, name
        return NewIndex(_flags(definition.source_fields if definition is not None else ()))

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say, or by the number of columns and files."""
        chosen = size.options.column_stats_groups
        return chosen or stat_groups_for(size.stat_columns, size.files)

    def definition_of_table(
        self,
        known: IndexDefinition | None,
        *,
        is_new: bool,
        stat_columns: tuple[str, ...],
        is_partitioned: bool,
    ) -> IndexDefinition | None:
        """With the columns; what the version says of the records that are there stays true."""
        del is_partitioned
        if not stat_columns:
            return known
        if known is None or is_new:
            known = IndexDefinition(self.kind, self.kind, self.kind, (), version=2)
        return replace(known, source_fields=stat_columns)

    def range_key(
        self, column: str, live: Collection[str], definitions: Mapping[str, IndexDefinition]
    ) -> tuple[str, str] | None:
        """Where the column has ranges."""
        known = definitions.get(self.kind)
        is_live = self.kind in live and known is not None and column in known.source_fields
        return (self.kind, column) if is_live else None

    def planned(self, definition: IndexDefinition | None) -> NewIndex | None:
        """Statistics of the columns that the plan names."""
        options = {options_of.COLUMN_STATS.name: "true"}
        if definition is not None:
            options[options_of.COLUMN_STATS_COLUMNS.name] = ",".join(definition.source_fields)
        return NewIndex(options)


def _readable_columns(name: str, question: Question) -> list[Column] | str:
    if not question.table.is_live(name):
        return NOT_LIVE
    return indexed_columns(question) or "it has no statistics of the columns in the predicate"


def indexed_columns(question: Question) -> list[Column]:
    """The columns of the predicate that may have statistics."""
    definition = question.table.definitions.get(PARTITION)
    mentioned = [column for column in columns_of(question.predicate) if column.type is not None]
    if definition is None or not definition.source_fields:
        return mentioned
    return [column for column in mentioned if column.name in definition.source_fields]


def _flags(columns: tuple[str, ...]) -> dict[str, str]:
    return {
        options_of.COLUMN_STATS.name: "true",
        options_of.COLUMN_STATS_COLUMNS.name: ",".join(columns),
    }
