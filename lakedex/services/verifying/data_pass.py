"""One pass over the data for all checks: every slice is read once, only needed columns of it.

Several slices are read at a time, each by one thread and batch by batch.

Checks of statistics and filters look at each file by itself, as index entries do; checks of keys
look at merged rows. A slice without log files serves both from one read. A slice that cannot be
read is a finding, and what it holds stays unknown to every check; so is one with a page that is not
as it was written, in whichever column.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, LakedexError, UnsupportedFeature
from lakedex.filegroup import RECORD_KEY, BaseFile, FileSlice, ReadContext, read_slice
from lakedex.filegroup.log_changes import read_log
from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    decode_avro_block,
    decode_parquet_block,
    effective_blocks,
)
from lakedex.format.parquet.pages import check_pages
from lakedex.index.verification.check import Check, FileRows, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.schema.field_paths import type_at, values_at

DATA = "data"
"""Stands for the index in problems with the data itself."""

_BATCH_ROWS = 131_072
_PARQUET = "parquet"
Listener: TypeAlias = "Callable[[int, int], None]"
"""Told how many steps are done, and how many there are."""


def show_data(subject: Subject, checks: Sequence[Check], progress: Progress) -> None:
    """Show every file and every row of the table to the checks that want them."""
    _DataPass(subject, checks, progress).run()


@dataclass(frozen=True, slots=True)
class _Stored:
    """Rows as a file stores them, and the instant whose schema they have."""

    file_number: int
    instant_time: str
    rows: pa.RecordBatch
    is_log: bool = False


class _DataPass:
    def __init__(self, subject: Subject, checks: Sequence[Check], progress: Progress) -> None:
        self._subject = subject
        self._progress = progress
        self._context: ReadContext = subject.read
        self._file_checks = [check for check in checks if check.file_columns]
        self._row_checks = [check for check in checks if check.row_columns]
        known = {*self._context.schema.names, RECORD_KEY}
        self._stored = sorted({name for check in checks for name in check.stored_columns})
        self._file_columns = _union(check.file_columns & known for check in checks)
        self._row_columns = _union(check.row_columns & known for check in checks)

    def run(self) -> None:
        first, tasks = 0, []
        for number, file_slice in enumerate(self._subject.slices):
            tasks.append((number, file_slice, first))
            first += len(file_slice.file_names)
        given_up = self._subject.engine.map("read the data", self._shown, tasks)
        # Problems are told in the order of the slices, whichever thread was first.
        for task, error in zip(tasks, given_up, strict=True):
            if error is not None:
                self._give_up(*task, error)

    def _shown(self, task: tuple[int, FileSlice, int]) -> LakedexError | None:
        number, file_slice, file_number = task
        try:
            self._slice(number, file_slice, file_number)
        except LakedexError as error:
            return error
        finally:
            self._progress.step()
        return None

    def _slice(self, number: int, file_slice: FileSlice, file_number: int) -> None:
        one_by_one = bool(self._stored or self._file_columns)
        merged = not one_by_one or bool(file_slice.logs)
        if one_by_one or self._row_columns:
            self._check_pages(file_slice)
        if one_by_one:
            rows_too = [] if file_slice.logs else self._row_columns
            for stored in self._files(file_slice, file_number, rows_too):
                self._show_file(number, file_slice.partition, stored)
                if rows_too:
                    rows = self._conformed(stored, rows_too, file_slice.partition)
                    self._show_rows(number, rows)
        if merged and self._row_columns:
            for rows in read_slice(self._context, file_slice, self._row_columns):
                self._show_rows(number, rows)

    def _check_pages(self, file_slice: FileSlice) -> None:
        """Look at all columns of a base file, also those that no index is about."""
        base = file_slice.base
        if base is not None and base.extension == _PARQUET:
            path = file_slice.path_of(base.name)
            with suppress(FileMissing):  # whoever reads it says so
                check_pages(self._context.storage.source(path, base.size_bytes))

    def _files(
        self, file_slice: FileSlice, file_number: int, rows_too: list[str]
    ) -> Iterator[_Stored]:
        columns = list(dict.fromkeys([*self._file_columns, *rows_too]))
        if file_slice.base is not None:
            yield from self._base(file_slice, file_slice.base, file_number, columns)
            file_number += 1
        if file_slice.logs:
            yield from self._logs(file_slice, file_number, columns)

    def _base(
        self, file_slice: FileSlice, base: BaseFile, file_number: int, columns: list[str]
    ) -> Iterator[_Stored]:
        self._context.config.require_readable_base_files()
        path = file_slice.path_of(base.name)
        wanted = set(self._names(columns, base.instant_time))
        try:
            with (
                self._context.storage.open_parquet_input(path, base.size_bytes) as handle,
                pq.ParquetFile(handle, coerce_int96_timestamp_unit="us") as file,
            ):
                present = [name for name in file.schema_arrow.names if name in wanted]
                for batch in file.iter_batches(_BATCH_ROWS, columns=present, use_threads=False):
                    yield _Stored(file_number, base.instant_time, batch)
        except FileNotFoundError as error:
            raise FileMissing(f"{path} is listed but not there") from error
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error

    def _logs(
        self, file_slice: FileSlice, file_number: int, columns: list[str]
    ) -> Iterator[_Stored]:
        numbers: dict[int, int] = {}
        blocks: list[LogBlock] = []
        for position, log in enumerate(file_slice.logs):
            path = file_slice.path_of(log.name)
            found = read_log(self._context.storage, path, log.size_bytes)
            numbers |= {id(block): file_number + position for block in found}
            blocks += found
        effective = effective_blocks(blocks, is_committed=self._context.is_committed)
        counting = {id(block) for block in effective}
        for block in blocks:
            if block.kind.holds_records and id(block) not in counting:
                # Whether an entry counts a block that was taken back depends on when.
                self._subject.statistics.do_not_count(numbers[id(block)])
        for block in effective:
            if block.kind is not BlockKind.DELETE:
                rows = _block_rows(block, self._names(columns, block.instant_time))
                yield _Stored(numbers[id(block)], block.instant_time, rows, is_log=True)

    def _names(self, columns: list[str], instant_time: str) -> list[str]:
        """The names to read of a file: stored ones as they are, others as they were then."""
        tops = [name.partition(".")[0] for name in self._stored]
        renamed = self._context.stored_names(columns, instant_time)
        return list(dict.fromkeys([*tops, *renamed]))

    def _show_file(self, slice_number: int, partition: str, stored: _Stored) -> None:
        statistics = self._subject.statistics
        statistics.add_rows(stored.file_number, stored.rows.num_rows)
        for name in self._stored:
            values = _at_path(stored.rows, name)
            if values is not None:
                statistics.add(stored.file_number, name, values)
        if self._file_checks:
            rows = self._conformed(stored, self._file_columns, partition)
            lacking = self._lacking(stored)
            part = FileRows(slice_number, stored.file_number, stored.is_log, rows, lacking)
            for check in self._file_checks:
                check.guarded(partial(check.see_file, part))

    def _lacking(self, stored: _Stored) -> frozenset[str]:
        """The columns that a file has not, or that was another one under the same name."""
        names = set(stored.rows.schema.names)
        renamed = partial(self._context.stored_names, instant_time=stored.instant_time)
        return frozenset(
            name for name in self._file_columns if name not in names or renamed([name]) != [name]
        )

    def _conformed(self, stored: _Stored, columns: list[str], partition: str) -> pa.Table:
        rows = pa.Table.from_batches([stored.rows])
        target = self._context.target(columns)
        return self._context.conform(rows, stored.instant_time, target, partition)

    def _show_rows(self, slice_number: int, rows: pa.Table) -> None:
        for check in self._row_checks:
            check.guarded(partial(check.see_rows, slice_number, rows))

    def _give_up(
        self, number: int, file_slice: FileSlice, file_number: int, error: LakedexError
    ) -> None:
        self._subject.unreadable.add(number)
        for position in range(len(file_slice.file_names)):
            self._subject.statistics.do_not_count(file_number + position)
        place = file_slice.path_of(file_slice.file_id)
        self._subject.findings.add(DATA, ProblemKind.UNREADABLE, place, str(error))


def _union(sets: Iterator[frozenset[str]] | Sequence[frozenset[str]]) -> list[str]:
    return sorted(frozenset().union(*sets))


def _block_rows(block: LogBlock, names: list[str]) -> pa.RecordBatch:
    if block.kind is BlockKind.AVRO_DATA:
        return decode_avro_block(block, columns=names)
    if block.kind is BlockKind.PARQUET_DATA:
        found = decode_parquet_block(block, columns=names).combine_chunks()
        return (found.to_batches() or [pa.RecordBatch.from_pylist([], schema=found.schema)])[0]
    raise UnsupportedFeature(f"a {block.kind.name} block in the data log {block.path}")


def _at_path(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column, or a field inside a struct column by its dotted path; None if it is not there."""
    return None if type_at(name, rows.schema) is None else values_at(name, rows)


class Progress:
    """Counts steps, in any thread.

    Example:
        >>> told = []
        >>> progress = Progress(2, lambda done, total: told.append(f"{done} of {total}"))
        >>> progress.step(), progress.step(), told
        (None, None, ['0 of 2', '1 of 2', '2 of 2'])
    """

    def __init__(self, total: int, listener: Listener | None = None) -> None:
        """Begin with no step done."""
        self._total = total
        self._done = 0
        self._listener = listener
        self._guard = threading.Lock()
        self._tell()

    def step(self) -> None:
        """One more is done."""
        with self._guard:
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener(self._done, self._total)
