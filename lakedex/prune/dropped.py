"""Names the indexes that another engine dropped in the report of a query.

Who dropped them is found out by reading commits, so only people who ask are told, not each query.
"""

from __future__ import annotations

from dataclasses import replace

from lakedex.index.metadata_table import metadata_partition
from lakedex.prune.report import Report, Step
from lakedex.table import Snapshot


def tell_dropped(report: Report, snapshot: Snapshot) -> Report:
    """The report with a line for each index that would be there, had it not been dropped."""
    left = len(report.files)
    lines = [
        Step(
            name,
            metadata_partition(name).kind.value,
            before=left,
            after=left,
            bytes_saved=0,
            seconds=0.0,
            reason=f"{dropped}; {dropped.remedy}",
            used=False,
        )
        for name, dropped in sorted(snapshot.dropped_indexes.items())
    ]
    return replace(report, steps=(*report.steps, *lines)) if lines else report
