"""Compaction of merge-on-read tables: log files become part of new base files."""

from lakedex.services.compaction.runner import compact_table, run_compaction
from lakedex.services.compaction.scheduling import schedule_compaction

__all__ = ["compact_table", "run_compaction", "schedule_compaction"]
