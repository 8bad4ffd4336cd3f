"""Statistics records of many files as bounds of file slices.

Column stats and expression indexes of the column-stats flavour store one record for each column
and file, base and log files alike. A slice's bounds are those of all its files together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bounds import ColumnBounds, merge_by_group
from lakedex.filegroup import FileSlice
from lakedex.index.answer import IndexedTable, Question
from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.metadata_table.hashing import file_name_ids, name_id
from lakedex.index.metadata_table.keys import column_stats_prefix, partition_id
from lakedex.index.stat_values import stat_values

_Ints = npt.NDArray[np.int64]
_FEW_PARTITIONS = 64
"""Up to so many partitions are asked for one by one; more are read with the whole column."""


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
    question: Question, partition: str, column: str, column_type: pa.DataType, files: SliceFiles
) -> ColumnBounds:
    """The bounds of a column, from one metadata partition, in each slice of the question."""
    records = _records(question, partition, column)
    bounds = _aligned(records, column, column_type, files)
    trusted = _same_column(question.table, column, files)
    if trusted is not None:
        bounds = bounds.where(trusted)
    return merge_by_group(bounds, files.slice_of, files.slice_count)


def _records(question: Question, partition: str, column: str) -> pa.Table:
    """The records of a column, from few partitions one by one, else all of them."""
    table = question.table
    asked = question.partitions
    if len(asked) <= _FEW_PARTITIONS and len(question.slices) < len(table.slices):
        prefixes = [column_stats_prefix(column, each) for each in asked]
    else:
        prefixes = [column_stats_prefix(column)]
    return table.metadata.scan_prefixes(partition, prefixes)


def _aligned(
    records: pa.Table, column: str, column_type: pa.DataType, files: SliceFiles
) -> ColumnBounds:
    """The records in the order of the files; files without a record are unknown."""
    wanted = pc.binary_join_element_wise(name_id(column), files.key_tails, "")
    place = pc.index_in(wanted, value_set=records["key"].combine_chunks())
    stats = records[STATS_PAYLOAD].combine_chunks().take(place)
    values = stat_values(stats, column_type)
    return ColumnBounds(
        column_type,
        values.minimum,
        values.maximum,
        values.null_count,
        values.value_count,
        place.is_valid().to_numpy(zero_copy_only=False),
    )


def _same_column(
    table: IndexedTable, column: str, files: SliceFiles
) -> npt.NDArray[np.bool_] | None:
    """Files in which the name meant the same column as now; None when it always did.

    A column that was dropped and added again under its old name has old statistics under that
    name which say nothing about it.
    """
    history = table.read.history
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
