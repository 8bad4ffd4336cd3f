"""How often each index was asked and what it saved: counted in memory, kept beside the table."""

from lakedex.prune.usage.counters import IndexUsage, PredicateUsage, TableUsage
from lakedex.prune.usage.recorder import count_scan, flush, usage_of

__all__ = [
    "IndexUsage",
    "PredicateUsage",
    "TableUsage",
    "count_scan",
    "flush",
    "usage_of",
]
