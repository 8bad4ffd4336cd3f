"""Every index kind, in the order in which a query asks them.

Cheap and coarse comes first, exact key lookups follow, then ranges of single files, and last the
filters, which cost most to read. A new kind is a new module and one line here.
"""

from __future__ import annotations

from lakedex.index.answer import IndexKind
from lakedex.index.bloom_filters import BloomFilterIndex
from lakedex.index.column_stats import ColumnStatsIndex
from lakedex.index.expression import ExpressionIndex
from lakedex.index.partition_stats import PartitionStatsIndex
from lakedex.index.record_index import RecordIndex
from lakedex.index.secondary import SecondaryIndex

KINDS: tuple[IndexKind, ...] = (
    PartitionStatsIndex(),
    RecordIndex(),
    SecondaryIndex(),
    ExpressionIndex(),
    ColumnStatsIndex(),
    BloomFilterIndex(),
)
