"""Verifies column stats: the ranges and counts of every column in every file that is read."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.index.verification.stat_entries import (
    FileEntries,
    IndexedColumns,
    indexed_columns,
    records_by_column,
)

_ID_LENGTH = 12


@dataclass(slots=True)
class ColumnStatsCheck(Check):
    """Recomputes what the entries of the latest slices say; others must be of listed files."""

    columns: IndexedColumns = field(kw_only=True)

    def finish(self) -> None:
        """Compare column by column."""
        entries = FileEntries(self, self.subject.statistics)
        listed = self.subject.listed_tails()
        for column, records in records_by_column(self.subject.metadata, self.name, self.columns):
            self.count(len(records))
            has: set[int] = set()
            for actual in self.subject.statistics.of(column):
                entries.compare(column, column, records, actual)
                has.update(actual.files.tolist())
            entries.compare_absent(column, column, records, has)
            self._report_stale(column, records, listed)
        entries.report_rest()

    def _report_stale(self, column: str, records: pa.Table, listed: pa.Array) -> None:
        tails = pc.utf8_slice_codeunits(records["key"], _ID_LENGTH)
        gone = records.filter(pc.invert(pc.is_in(tails, value_set=listed)))
        names = pc.struct_field(gone[STATS_PAYLOAD].combine_chunks(), "fileName")
        self.subject.findings.add_all(
            self.name,
            ProblemKind.STALE,
            range(len(gone)),
            lambda row: (
                f"{column} in {names[row]}",
                "the table has no such file",
                None,
                (str(gone["key"][row]),),
            ),
        )


def start(name: str, subject: Subject) -> Check:
    """The check of column stats over all columns that have entries, or should."""
    definition = subject.definitions.get(name)
    defined = definition.source_fields if definition else ()
    columns = indexed_columns(name, subject, defined)
    return ColumnStatsCheck(name, subject, stored_columns=frozenset(columns.names), columns=columns)
