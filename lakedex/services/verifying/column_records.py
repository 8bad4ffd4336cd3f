"""Statistics records read column by column, as many columns at once as fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table import STATS_PAYLOAD, MetadataTable
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import column_stats_prefix
from lakedex.services.verifying.check import Subject
from lakedex.services.verifying.entries import live_keys
from lakedex.services.verifying.report import ProblemKind

_ID_LENGTH = 12
_RECORDS_AT_ONCE = 200_000


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """The columns that an index has entries of, or should have, and the number of entries."""

    names: tuple[str, ...]
    entries: int


def indexed_columns(name: str, subject: Subject, defined: Sequence[str]) -> IndexedColumns:
    """The columns that entries are about, told by one entry of each, and the defined ones."""
    keys = live_keys(subject.metadata, name).combine_chunks()
    starts = pc.utf8_slice_codeunits(keys, 0, _ID_LENGTH)
    distinct = pc.unique(starts)
    samples = keys.take(pc.index_in(distinct, value_set=starts))
    records = subject.metadata.lookup(name, samples)
    columns = pc.struct_field(records[STATS_PAYLOAD].combine_chunks(), "columnName")
    told = set(defined)
    for key, column in zip(records["key"].to_pylist(), columns.to_pylist(), strict=True):
        if column is not None and key.startswith(name_id(column)):
            told.add(column)
        else:
            detail = f"its key is not that of the column {column!r}"
            subject.findings.add(name, ProblemKind.WRONG, key, detail, None, (key,))
    return IndexedColumns(tuple(sorted(told)), len(keys))


def records_by_column(
    metadata: MetadataTable, partition: str, columns: IndexedColumns
) -> Iterator[tuple[str, pa.Table]]:
    """The records of each column in turn."""
    names = columns.names
    step = max(1, len(names) * _RECORDS_AT_ONCE // max(1, columns.entries))
    for begin in range(0, len(names), step):
        page = names[begin : begin + step]
        records = metadata.scan_prefixes(partition, [column_stats_prefix(name) for name in page])
        for name in page:
            yield name, records.filter(pc.starts_with(records["key"], name_id(name)))
