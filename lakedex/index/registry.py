"""Every index kind, in the order in which a query asks them.

Cheap and coarse comes first, exact key lookups follow, then ranges of single files, and last the
filters, which cost most to read. A new kind is a new module and one line here.
"""

from __future__ import annotations

from lakedex.expr.tree import Expr
from lakedex.index.answer import IndexKind
from lakedex.index.bitmap.lookup import BitmapIndex
from lakedex.index.bloom_filters import BloomFilterIndex
from lakedex.index.column_stats import ColumnStatsIndex
from lakedex.index.either import EitherIndex, has_or, has_sides
from lakedex.index.expression import ExpressionIndex
from lakedex.index.partition_stats import PartitionStatsIndex
from lakedex.index.record_index import RecordIndex
from lakedex.index.secondary import SecondaryIndex

KINDS: tuple[IndexKind, ...] = (
    PartitionStatsIndex(),
    RecordIndex(),
    SecondaryIndex(),
    BitmapIndex(),
    ExpressionIndex(),
    ColumnStatsIndex(),
    BloomFilterIndex(),
)

OF_FILES = (PartitionStatsIndex, ExpressionIndex, ColumnStatsIndex, BloomFilterIndex)
"""The kinds that know each file by itself; the others know rows as base and log files make them."""


def kinds_for(predicate: Expr) -> tuple[IndexKind, ...]:
    """The kinds to ask about a predicate; an OR over several columns is also asked side by side.

    Args:
        predicate: In normal form.
    """
    if not has_or(predicate):
        return KINDS
    exact = tuple(kind for kind in KINDS if isinstance(kind, RecordIndex | SecondaryIndex))
    last = KINDS.index(exact[-1]) + 1
    computed = tuple(kind for kind in KINDS if isinstance(kind, BitmapIndex | ExpressionIndex))
    stored = tuple(kind for kind in KINDS if isinstance(kind, ColumnStatsIndex))
    sides = [EitherIndex(computed, (*exact, *stored))]
    if has_sides(predicate):
        sides.insert(0, EitherIndex(exact))
    return (*KINDS[:last], *sides, *KINDS[last:])
