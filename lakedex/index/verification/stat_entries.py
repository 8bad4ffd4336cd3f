"""Compares statistics entries of columns, by file or by partition, with what files hold.

Bounds must contain the values, counts must be exact. A bound that is wider than the data is fine.
What Hudi is known to write is taken for what it means: zeros where a column is all null, [0, 0]
where a row group holds NaN, no bounds for long text, -1 for counts that it did not know. Bounds of
binary columns are not judged, as writers compare bytes as signed and Parquet as unsigned; no query
uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import valid_mask
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.ranges import Form, form_of, range_of_bounds
from lakedex.filegroup import FileSliceId
from lakedex.index.metadata_table import STATS_PAYLOAD, MetadataTable
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import column_stats_prefix
from lakedex.index.metadata_table.stat_values import StatValues, stat_values
from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.index.verification.keys import live_keys
from lakedex.index.verification.statistics import Actual, FileStatistics

_Mask = npt.NDArray[np.bool_]
_ID_LENGTH = 12
_RECORDS_AT_ONCE = 200_000
_OMITTED_BEYOND_BYTES = 2_000
"""Parquet may leave out the statistics of a row group with longer texts than this.

Hudi then counts the rows of that row group as nulls, and its bounds cover the others only.
"""


@dataclass(slots=True)
class FileEntries:
    """Entries with one record for each column and file."""

    check: Check
    statistics: FileStatistics
    paths: list[str] = field(init=False)
    with_entries: set[int] = field(default_factory=set)
    without: dict[int, dict[str, str]] = field(default_factory=dict)
    """The columns of each file that have no entry, by what they are called in words."""
    with_long_text: dict[str, list[int]] = field(default_factory=dict)
    """The files of each column whose entries leave out long texts, as Hudi's do."""

    def __post_init__(self) -> None:
        """Name the files."""
        self.paths = self.check.subject.file_paths()

    def compare(self, column: str, label: str, records: pa.Table, actual: Actual) -> None:
        """Compare the entries of a column with what the files have."""
        place = self._places(column, records, actual.files.tolist())
        found = place.is_valid().to_numpy(zero_copy_only=False)
        for number in actual.files[~found].tolist():
            if self.statistics.row_count(number):
                self.without.setdefault(number, {})[label] = column
        self.with_entries.update(actual.files[found].tolist())
        rows = np.flatnonzero(found)
        known = actual.at(rows)
        stats = records[STATS_PAYLOAD].combine_chunks().take(place.take(pa.array(rows)))
        counted = self.statistics.is_counted(known.files)
        wrong = _excluded(stats, known) | (_miscounted(stats, known) & counted)
        excused = wrong & (known.longest > _OMITTED_BEYOND_BYTES) & self._are_bases(known.files)
        if excused.any():
            self.with_long_text.setdefault(label, []).extend(known.files[excused].tolist())
        self.check.subject.findings.add_all(
            self.check.name,
            ProblemKind.WRONG,
            np.flatnonzero(wrong & ~excused),
            lambda row: (
                f"{label} in {self.paths[known.files[row]]}",
                _describe_bounds(stats, row, known),
                *self._about(known.files[row], column),
            ),
        )

    def compare_absent(self, column: str, label: str, records: pa.Table, has: set[int]) -> None:
        """Files that do not have the column must have no entry that claims values of it."""
        others = [number for number in range(len(self.paths)) if number not in has]
        place = self._places(column, records, others)
        stats = records[STATS_PAYLOAD].combine_chunks().take(place)
        rows = pc.struct_field(stats, "valueCount").fill_null(0)
        nulls = pc.struct_field(stats, "nullCount").fill_null(0)
        claims = pc.greater(pc.subtract(rows, nulls), 0).to_numpy(zero_copy_only=False)
        present = place.is_valid().to_numpy(zero_copy_only=False)
        self.with_entries.update(np.array(others, np.int64)[present].tolist())
        counted = self.statistics.is_counted(np.array(others, np.int64))
        self.check.subject.findings.add_all(
            self.check.name,
            ProblemKind.EXTRA,
            np.flatnonzero(claims & counted),
            lambda row: (
                f"{label} in {self.paths[others[row]]}",
                f"it tells of {rows[row]} rows of a column that the file does not have",
                *self._about(others[row], column),
            ),
        )

    def report_rest(self) -> None:
        """Report files, and columns of files, without entry; note what is excused."""
        for label, files in sorted(self.with_long_text.items()):
            self.check.note(
                f"entries of {label} in {len(files)} files leave out long texts and count them as "
                f"nulls, as Hudi does; engines that believe them lose rows, such as of "
                f"{self.paths[files[0]]}"
            )
        for number, columns in sorted(self.without.items()):
            path = self.paths[number]
            if number not in self.with_entries:
                about = self._about(number, *columns.values())
                detail = "the file has no entry at all"
                self.check.problem(ProblemKind.MISSING, path, detail, *about)
                continue
            for label, column in columns.items():
                detail = "the file has entries of other columns, but none of this"
                about = self._about(number, column)
                self.check.problem(ProblemKind.MISSING, f"{label} in {path}", detail, *about)

    def _about(self, number: int, *columns: str) -> tuple[FileSliceId, tuple[str, ...]]:
        """The slice of a file, and the keys of its entries of some columns."""
        subject = self.check.subject
        tail = subject.key_tail(number)
        return subject.slice_of(number), tuple(name_id(column) + tail for column in columns)

    def _are_bases(self, files: npt.NDArray[np.int64]) -> _Mask:
        names = (self.paths[number].rpartition("/")[2] for number in files.tolist())
        return np.array([not name.startswith(".") for name in names], dtype=np.bool_)

    def _places(self, column: str, records: pa.Table, files: list[int]) -> pa.Array:
        tails = self.check.subject.files.key_tails.take(pa.array(files, pa.int64()))
        wanted = pc.binary_join_element_wise(name_id(column), tails, "")
        return pc.index_in(wanted, value_set=records["key"].combine_chunks())


def compare_partitions(
    check: Check,
    label: str,
    records: pa.Table,
    actual: Actual,
    key_of: Callable[[str], str],
) -> None:
    """Compare partition-level entries of a column with every file of their partition."""
    if pa.types.is_integer(actual.type):
        # Files of before and after a widening share one entry.
        actual = actual.as_type(pa.int64())
    partitions = check.subject.file_partitions()
    own = [partitions[number] for number in actual.files.tolist()]
    wanted = pa.array([key_of(partition) for partition in own], pa.string())
    place = pc.index_in(wanted, value_set=records["key"].combine_chunks())
    found = place.is_valid().to_numpy(zero_copy_only=False)
    stats = records[STATS_PAYLOAD].combine_chunks().take(place)
    judged = found & (actual.longest <= _OMITTED_BEYOND_BYTES)
    wrong = _excluded(stats, actual) & judged
    _report_once(
        check, ProblemKind.WRONG, label, own, wrong, key_of, lambda row: _says(stats, row, actual)
    )
    has_rows = actual.value_count > 0
    _report_once(
        check,
        ProblemKind.MISSING,
        label,
        own,
        ~found & has_rows,
        key_of,
        lambda _: "it has no entry",
    )


def _says(stats: pa.StructArray, row: int, actual: Actual) -> str:
    return f"of one of its files, {_describe_bounds(stats, row, actual)}"


def _report_once(
    check: Check,
    kind: ProblemKind,
    label: str,
    partitions: list[str],
    mask: _Mask,
    key_of: Callable[[str], str],
    detail: Callable[[int], str],
) -> None:
    """One problem for each partition, whatever number of its files shows it."""
    first: dict[str, int] = {}
    for row in np.flatnonzero(mask).tolist():
        first.setdefault(partitions[row], row)
    check.subject.findings.add_all(
        check.name,
        kind,
        first.values(),
        lambda row: (
            f"{label} in partition {partitions[row]!r}",
            detail(row),
            FileSliceId(partitions[row], ""),
            (key_of(partitions[row]),),
        ),
    )


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
    names = set(defined)
    for key, column in zip(records["key"].to_pylist(), columns.to_pylist(), strict=True):
        if column is not None and key.startswith(name_id(column)):
            names.add(column)
        else:
            detail = f"its key is not that of the column {column!r}"
            subject.findings.add(name, ProblemKind.WRONG, key, detail, None, (key,))
    return IndexedColumns(tuple(sorted(names)), len(keys))


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


def _excluded(stats: pa.StructArray, actual: Actual) -> _Mask:
    """Where an entry leaves out a value that the file really has; null entries do not."""
    claimed = stat_values(stats, actual.type, as_written=True)
    nothing_there = (claimed.value_count >= 0) & (claimed.null_count == claimed.value_count)
    return actual.has_values & (nothing_there | _outside(claimed, actual))


def _miscounted(stats: pa.StructArray, actual: Actual) -> _Mask:
    """Where an entry counts other rows or nulls than the file really has."""
    claimed = stat_values(stats, actual.type, as_written=True)
    rows = (claimed.value_count >= 0) & (claimed.value_count != actual.value_count)
    # A missing bound tells that some part of the file had no statistics, nulls included.
    bounded = _has_bounds(stats) | ~actual.has_values
    nulls = (claimed.null_count >= 0) & (claimed.null_count != actual.null_count) & bounded
    return rows | nulls


def _describe_bounds(stats: pa.StructArray, row: int, actual: Actual) -> str:
    """An entry and the data in words."""
    claimed = stat_values(stats.slice(row, 1), actual.type, as_written=True)
    low, high = claimed.minimum[0].as_py(), claimed.maximum[0].as_py()
    real = f"{actual.minimum[row].as_py()!r} to {actual.maximum[row].as_py()!r}"
    return (
        f"it says {low!r} to {high!r}, {claimed.null_count[0]} nulls in "
        f"{claimed.value_count[0]} rows; the data has {real}, "
        f"{actual.null_count[row]} nulls in {actual.value_count[row]} rows"
    )


def _outside(claimed: StatValues, actual: Actual) -> _Mask:
    low, high = _believed(claimed, actual)
    if low is None:
        return np.zeros(len(actual.files), dtype=np.bool_)
    smallest, largest = _comparable(actual)
    below = pc.less(smallest, low)
    above = pc.greater(largest, high)
    return _true(below) | _true(above)


def _believed(claimed: StatValues, actual: Actual) -> tuple[pa.Array | None, pa.Array | None]:
    """The range that queries take an entry for, in a comparable form."""
    count = len(actual.files)
    bounds = ColumnBounds(
        actual.type,
        claimed.minimum,
        claimed.maximum,
        claimed.null_count,
        claimed.value_count,
        np.ones(count, dtype=np.bool_),
    )
    trusted = range_of_bounds(bounds, actual.type)
    if trusted is None:
        return None, None
    if trusted.form is not Form.FLOAT:
        return trusted.low, trusted.high
    # Without NaN in the data nothing excuses a range that leaves values out.
    plain = pa.array(~actual.has_nan)
    return (
        pc.if_else(plain, claimed.minimum.cast(pa.float64()), trusted.low),
        pc.if_else(plain, claimed.maximum.cast(pa.float64()), trusted.high),
    )


def _comparable(actual: Actual) -> tuple[pa.Array, pa.Array]:
    """The real bounds in the form that `range_of_bounds` gives."""
    form = form_of(actual.type)
    if form is Form.TEXT:
        return actual.minimum.cast(pa.large_binary()), actual.maximum.cast(pa.large_binary())
    if form is Form.FLOAT:
        return actual.minimum.cast(pa.float64()), actual.maximum.cast(pa.float64())
    count = len(actual.files)
    unknown = np.full(count, -1, dtype=np.int64)
    bounds = ColumnBounds(
        actual.type, actual.minimum, actual.maximum, unknown, unknown, np.ones(count, np.bool_)
    )
    real = range_of_bounds(bounds, actual.type)
    if real is None:
        return pa.nulls(count), pa.nulls(count)
    return real.low, real.high


def _has_bounds(stats: pa.StructArray) -> _Mask:
    low, high = (pc.struct_field(stats, name) for name in ("minValue", "maxValue"))
    return valid_mask(low) & valid_mask(high)


def _true(mask: pa.Array) -> _Mask:
    found: _Mask = mask.fill_null(pa.scalar(value=False)).to_numpy(zero_copy_only=False)
    return found.astype(np.bool_)
