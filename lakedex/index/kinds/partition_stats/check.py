"""Verifies partition stats: the range of a partition contains all values of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.metadata_table.keys import column_stats_prefix, partition_id
from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.index.verification.stat_entries import (
    IndexedColumns,
    compare_partitions,
    indexed_columns,
    records_by_column,
)

_ID_LENGTH = 12
_COLUMNS_FROM = "column_stats"
"""Partition stats have no definition of their own and go by that of column stats."""


@dataclass(slots=True)
class PartitionStatsCheck(Check):
    """Counts are not judged: updates in log files are counted twice, deletes never."""

    columns: IndexedColumns = field(kw_only=True)

    def finish(self) -> None:
        """Compare column by column."""
        paths = self.subject.listed_files
        known = pa.array([partition_id(path) for path in paths], pa.string())
        for column, records in records_by_column(self.subject.metadata, self.name, self.columns):
            self.count(len(records))
            for actual in self.subject.statistics.of(column):
                key_of = partial(column_stats_prefix, column)
                compare_partitions(self, column, records, actual, key_of)
            self._report_stale(column, records, known)

    def _report_stale(self, column: str, records: pa.Table, known: pa.Array) -> None:
        ends = pc.utf8_slice_codeunits(records["key"], _ID_LENGTH)
        gone = records.filter(pc.invert(pc.is_in(ends, value_set=known)))
        names = pc.struct_field(gone[STATS_PAYLOAD].combine_chunks(), "fileName")
        self.subject.findings.add_all(
            self.name,
            ProblemKind.STALE,
            range(len(gone)),
            lambda row: (
                f"{column} in {names[row]}",
                "the table has no such partition",
                None,
                (str(gone["key"][row]),),
            ),
        )


def start(name: str, subject: Subject) -> Check:
    """The check of partition stats over all columns that have entries, or should."""
    definition = subject.definitions.get(_COLUMNS_FROM)
    defined = definition.source_fields if definition else ()
    columns = indexed_columns(name, subject, defined)
    return PartitionStatsCheck(
        name, subject, stored_columns=frozenset(columns.names), columns=columns
    )
