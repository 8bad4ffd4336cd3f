"""Every index kind, in the order in which the planner consults them.

A new kind is a new package in `lakedex.index.kinds` and one line here.
"""

from __future__ import annotations

from lakedex.index.contract import IndexKind
from lakedex.index.kinds.bitmap.lookup import BitmapIndex
from lakedex.index.kinds.bloom_filters.lookup import BloomFilterIndex
from lakedex.index.kinds.column_stats.lookup import ColumnStatsIndex
from lakedex.index.kinds.expression import ExpressionIndex
from lakedex.index.kinds.partition_stats.lookup import PartitionStatsIndex
from lakedex.index.kinds.record_index import RecordIndex
from lakedex.index.kinds.secondary import SecondaryIndex

_KINDS: tuple[IndexKind, ...] = (
    PartitionStatsIndex(),
    RecordIndex(),
    SecondaryIndex(),
    BitmapIndex(),
    ExpressionIndex(),
    ColumnStatsIndex(),
    BloomFilterIndex(),
)

KINDS: tuple[IndexKind, ...] = tuple(sorted(_KINDS, key=lambda kind: kind.stage))
