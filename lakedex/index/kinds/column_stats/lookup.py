"""The column stats index: which files cannot hold a value, by their ranges and null counts."""

from __future__ import annotations

import numpy as np

from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.index.contract import ALREADY_LOCATED, NOT_LIVE, Answer, IndexedTable, Question, Stage
from lakedex.index.cost import Estimate
from lakedex.index.file_bounds import bounds_seconds, slice_bounds

PARTITION = "column_stats"


class ColumnStatsIndex:
    """Prunes by comparisons, IN, IS NULL and LIKE 'prefix%' on columns with statistics."""

    kind = "column_stats"
    stage = Stage.COLUMNS
    describes_files = True

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
