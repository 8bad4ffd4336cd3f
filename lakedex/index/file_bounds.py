"""Statistics records of many files as bounds of file slices.

Column stats and expression indexes of the column-stats flavour store one record for each column
and file, base and log files alike. A slice's bounds are those of all its files together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bounds import ColumnBounds, merge_by_group
from lakedex.filegroup import FileSlice, Slices
from lakedex.index.contract import IndexedTable, Question
from lakedex.index.cost import scan_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table import STATS_PAYLOAD, MetadataTable
from lakedex.index.metadata_table.hashing import file_name_ids, name_id
from lakedex.index.metadata_table.keys import column_stats_prefix, partition_id
from lakedex.index.metadata_table.stat_values import stat_values
from lakedex.schema import SchemaHistory

_Ints = npt.NDArray[np.int64]
Notes = frozenset[str | None] | None
_FEW_PARTITIONS = 64
"""Up to so many partitions are read one by one; more are read with the whole column."""
_FILTERS = "bloom_filters"
_KEPT = "column_bounds"
_MOST_KEPT = 1_000_000
"""So many pairs of bounds of a snapshot are kept, of some tens of bytes each."""
_KEPT_SLICE_S = 1e-6
"""Finding the bounds of a slice among those that are kept."""


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files of some slices: the tail of their index keys, and the slice of each."""

    key_tails: pa.Array
    slice_of: _Ints
    slice_count: int
    instants: list[str]


def slice_files(slices: tuple[FileSlice, ...]) -> SliceFiles:
    """All files of the slices, with their partition and name hashed once."""
    names: list[str] = []
    slice_of: list[int] = []
    partition_of: list[int] = []
    instants: list[str] = []
    partitions: dict[str, int] = {}
    for number, file_slice in enumerate(slices):
        place = partitions.setdefault(file_slice.partition, len(partitions))
        for file in (file_slice.base, *file_slice.logs):
            if file is not None:
                names.append(file.name)
                instants.append(file.instant_time)
                slice_of.append(number)
                partition_of.append(place)
    starts = pa.array([partition_id(path) for path in partitions], pa.string())
    heads = starts.take(pa.array(partition_of, pa.int64()))
    tails = pc.binary_join_element_wise(heads, file_name_ids(names), "")
    return SliceFiles(tails, np.array(slice_of, dtype=np.int64), len(slices), instants)


def slice_bounds(
    question: Question,
    partition: str,
    column: str,
    column_type: pa.DataType,
    *,
    notes: Notes = None,
    others: tuple[str, ...] = (),
) -> ColumnBounds:
    """The bounds of a column, from one metadata partition, in each slice of the question.

    Bounds that were read for all slices are kept with the snapshot, for the next question. With
    `notes` only records count beside whose bounds one of them stands, or nothing for None. Other
    columns that the values were made of must be those that they were.
    """
    table = question.table
    if not _is_narrow(question) or _is_kept(table, partition, column):
        whole = _kept_bounds(table, partition, (column, *others), column_type, notes)
        return whole if question.slices is table.slices else whole.take(positions(question))
    prefixes = [column_stats_prefix(column, each) for each in question.partitions]
    records = table.metadata.scan_prefixes(partition, prefixes)
    columns = (column, *others)
    return _merged_bounds(table, records, columns, column_type, notes, question.slices)


def slices_with_entries(
    metadata: MetadataTable, definition: IndexDefinition, slices: Sequence[FileSlice]
) -> npt.NDArray[np.bool_]:
    """The slices of which an expression index has the entries of all files.

    Filters are of base files only: a slice without a base file needs none.
    """
    entries = metadata.scan(definition.name)["key"].combine_chunks().cast(pa.string())
    files = slice_files(tuple(slices))
    start = "" if definition.index_type == _FILTERS else name_id(definition.source_fields[0])
    wanted = pc.binary_join_element_wise(start, files.key_tails, "")
    lacking = pc.invert(pc.is_in(wanted, value_set=entries)).to_numpy(zero_copy_only=False)
    if definition.index_type == _FILTERS:
        is_base = [file is each.base for each in slices for file in (each.base, *each.logs) if file]
        lacking &= np.array(is_base, dtype=np.bool_)
    counts = np.bincount(files.slice_of[lacking], minlength=len(slices))
    return np.asarray(counts == 0, dtype=np.bool_)


def _kept_bounds(
    table: IndexedTable,
    partition: str,
    columns: tuple[str, ...],
    column_type: pa.DataType,
    notes: Notes,
) -> ColumnBounds:
    """The bounds of all slices of the table; those read last are kept."""
    known: OrderedDict[tuple[str, str, pa.DataType, Notes], ColumnBounds]
    known = table.kept.setdefault(_KEPT, OrderedDict())
    place = (partition, columns[0], column_type, notes)
    found = known.get(place)
    if found is None:
        records = table.metadata.scan_prefixes(partition, [column_stats_prefix(columns[0])])
        found = _merged_bounds(table, records, columns, column_type, notes, table.slices)
        known[place] = found
        while len(known) > max(1, _MOST_KEPT // max(1, len(table.slices))):
            known.popitem(last=False)
    return found


def _is_kept(table: IndexedTable, partition: str, column: str) -> bool:
    return any(place[:2] == (partition, column) for place in list(table.kept.get(_KEPT, ())))


def positions(question: Question) -> _Ints:
    """Where the slices of the question stand among those of the table."""
    places = question.table.slices.places
    return np.array([places[each.id] for each in question.slices], dtype=np.int64)


def _merged_bounds(
    table: IndexedTable,
    records: pa.Table,
    columns: tuple[str, ...],
    column_type: pa.DataType,
    notes: Notes,
    slices: Slices,
) -> ColumnBounds:
    files = slice_files(slices)
    bounds = _aligned(records, columns[0], column_type, notes, files)
    for column in columns:
        trusted = same_column(table.read.history, column, files)
        if trusted is not None:
            bounds = bounds.where(trusted)
    return merge_by_group(bounds, files.slice_of, files.slice_count)


def bounds_seconds(question: Question, partition: str, column: str) -> float:
    """What `slice_bounds` takes for one column."""
    table = question.table
    if _is_kept(table, partition, column):
        return len(question.slices) * _KEPT_SLICE_S
    slices = question.slices if _is_narrow(question) else table.slices
    files = round(slices.amount.files)
    definition = table.definitions.get(partition)
    columns = len(definition.source_fields) if definition else 0
    share = len(slices) / max(1, len(table.slices)) / (columns or len(table.read.schema))
    return scan_seconds(table.metadata, partition, files, share=share)


def _is_narrow(question: Question) -> bool:
    """Whether the records are read partition by partition, as the query is about few of many."""
    is_part = len(question.slices) < len(question.table.slices)
    return is_part and len(question.partitions) <= _FEW_PARTITIONS


def _aligned(
    records: pa.Table,
    column: str,
    column_type: pa.DataType,
    notes: Notes,
    files: SliceFiles,
) -> ColumnBounds:
    """The records in the order of the files; files without a record are unknown."""
    wanted = pc.binary_join_element_wise(name_id(column), files.key_tails, "")
    place = pc.index_in(wanted, value_set=records["key"].combine_chunks())
    values = stat_values(records[STATS_PAYLOAD].combine_chunks(), column_type).take(place)
    known = place.is_valid()
    if notes is not None:
        wanted_notes = pa.array(sorted(note for note in notes if note), pa.string())
        is_noted = pc.is_in(values.notes, value_set=wanted_notes)
        known = (
            pc.or_(is_noted, pc.and_(known, values.notes.is_null())) if None in notes else is_noted
        )
    return ColumnBounds(
        column_type,
        values.minimum,
        values.maximum,
        values.null_count,
        values.value_count,
        known.to_numpy(zero_copy_only=False),
        no_nan=values.no_nan,
    )


def same_column(
    history: SchemaHistory | None, column: str, files: SliceFiles
) -> npt.NDArray[np.bool_] | None:
    """Files in which the name meant the same column as now; None when it always did.

    A column that was dropped and added again under its old name has old statistics under that
    name which say nothing about it.
    """
    if history is None:
        return None
    top = column.partition(".")[0]
    now = {field.name: field.id for field in history.newest.record.fields}
    ids = {
        version.version_id: {field.name: field.id for field in version.record.fields}
        for version in history.versions
    }
    return np.array(
        [
            ids[history.version_at(instant).version_id].get(top) == now.get(top)
            for instant in files.instants
        ],
        dtype=np.bool_,
    )
