"""Compares statistics entries of a column, by file or by partition, with what files hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId
from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.metadata_table.hashing import name_id
from lakedex.services.verifying.check import Check
from lakedex.services.verifying.containment import describe_bounds, excluded, miscounted
from lakedex.services.verifying.report import ProblemKind
from lakedex.services.verifying.statistics import Actual, FileStatistics

_Mask = npt.NDArray[np.bool_]
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
        """Hold the entries of a column against what the files have."""
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
        wrong = excluded(stats, known) | (miscounted(stats, known) & counted)
        excused = wrong & (known.longest > _OMITTED_BEYOND_BYTES) & self._are_bases(known.files)
        if excused.any():
            self.with_long_text.setdefault(label, []).extend(known.files[excused].tolist())
        self.check.subject.findings.add_all(
            self.check.name,
            ProblemKind.WRONG,
            np.flatnonzero(wrong & ~excused),
            lambda row: (
                f"{label} in {self.paths[known.files[row]]}",
                describe_bounds(stats, row, known),
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

    def tell_rest(self) -> None:
        """Tell the files, or columns of files, that have no entry, and what is excused."""
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
    """Hold partition-level entries of a column against every file of their partition."""
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
    wrong = excluded(stats, actual) & judged
    _tell_once(
        check, ProblemKind.WRONG, label, own, wrong, key_of, lambda row: _says(stats, row, actual)
    )
    has_rows = actual.value_count > 0
    _tell_once(
        check,
        ProblemKind.MISSING,
        label,
        own,
        ~found & has_rows,
        key_of,
        lambda _: "it has no entry",
    )


def _says(stats: pa.StructArray, row: int, actual: Actual) -> str:
    return f"of one of its files, {describe_bounds(stats, row, actual)}"


def _tell_once(
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
