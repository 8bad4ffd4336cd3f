"""Column ranges of files that are in a table already, for statistics that are built later.

The values are read, not the footers: footers leave out long texts and know nothing of NaN. A file
that does not store a column under the name that the column has now gets no range of it: readers
then know nothing of the column there, and keep the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, UnsupportedFeature
from lakedex.filegroup import BaseFile, FileSlice, LogFile, ReadContext
from lakedex.filegroup.log_changes import slice_blocks
from lakedex.format.logfile import BlockKind, LogBlock, decode_avro_block, decode_parquet_block
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.index.column_ranges import ColumnRanges
from lakedex.index.file_index import FileIndex
from lakedex.index.file_index.maintenance import FileIndexCollector
from lakedex.index.kinds.expression.collect import ExpressionCollector
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.index.written import ExpressionNotes, FileStatistics
from lakedex.write.handles.work import ColumnSizes


@dataclass(frozen=True, slots=True)
class _Index:
    """An index that is computed of columns, and who collects its entries."""

    target: Any
    sources: tuple[str, ...]
    collector: ExpressionCollector | FileIndexCollector


class StoredRanges:
    """Gathers the ranges of some columns over the files of slices."""

    def __init__(
        self,
        context: ReadContext,
        columns: Sequence[str],
        expressions: Sequence[ExpressionTarget] = (),
        file_indexes: Sequence[FileIndex] = (),
    ) -> None:
        """Take the table, the names of the columns, and the indexes that are computed of columns.

        The runs of file indexes are written as the files are read, the last ones by `finish`.
        """
        self._context = context
        self._noted = ExpressionCollector(expressions)
        self._file_indexes = FileIndexCollector(context.storage, file_indexes)
        self._targets: tuple[_Index, ...] = (
            *(_Index(each, each.sources, self._noted) for each in expressions),
            *(_Index(each, each.sources, self._file_indexes) for each in file_indexes),
        )
        sources = (name for each in self._targets for name in each.sources)
        self._names = list(dict.fromkeys([*columns, *sources]))
        self._wide = tuple(each for each in self._targets if len(each.sources) > 1)
        # Not every file has every column, so each column counts its own files.
        self._ranges = {name: ColumnRanges([name], context.schema) for name in columns}

    def add(self, file_slice: FileSlice) -> None:
        """Read the files of a slice."""
        if file_slice.base is not None:
            self._add_base(file_slice, file_slice.base)
        if file_slice.logs:
            self._add_logs(file_slice)

    def tables(self) -> FileStatistics:
        """For each column that a file has a table with a row for each such file."""
        found: dict[str, pa.Table] = {}
        for ranges in self._ranges.values():
            found.update(ranges.tables())
        return found

    def finish(self) -> None:
        """Write the entries of file indexes that are left."""
        self._file_indexes.finish()

    def expressions(self) -> dict[str, ExpressionNotes]:
        """What the files hold of expressions, by index."""
        return self._noted.notes()

    def _take(
        self, place: FileSlice, file: BaseFile | LogFile, rows: pa.Table, sizes: ColumnSizes
    ) -> None:
        """Take in the only column of some rows, which are all that a file has."""
        (name,) = rows.column_names
        if name in self._ranges:
            self._ranges[name].add(place.partition, file.name, rows, sizes)
        for each in self._targets:
            if each.sources == (name,):
                self._compute(each, place, file, rows)

    def _add_base(self, file_slice: FileSlice, base: BaseFile) -> None:
        self._context.config.require_readable_base_files()
        path = file_slice.path_of(base.name)
        try:
            with (
                self._context.storage.open_parquet_input(path, base.size_bytes) as handle,
                pq.ParquetFile(handle, coerce_int96_timestamp_unit="us") as file,
            ):
                sizes = _column_sizes(file.metadata)
                stored = self._stored(file.schema_arrow.names, base.instant_time)
                self._note_lacking(file_slice, stored)
                # One column at a time, so that no more than that is in memory.
                for name in stored:
                    rows = file.read([name], use_threads=False)
                    rows = self._conformed(rows, [name], base.instant_time, file_slice.partition)
                    self._take(file_slice, base, rows, sizes)
                for each in self._wide:
                    if set(each.sources) <= set(stored):
                        names = list(each.sources)
                        rows = file.read(names, use_threads=False)
                        rows = self._conformed(rows, names, base.instant_time, file_slice.partition)
                        self._compute(each, file_slice, base, rows)
        except (FileMissing, FileNotFoundError) as error:
            raise FileMissing(f"{path} is listed but not there; was the table cleaned?") from error
        except PARQUET_ERRORS as error:
            raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error

    def _add_logs(self, file_slice: FileSlice) -> None:
        counting = slice_blocks(self._context, file_slice)
        for log in file_slice.logs:
            path = file_slice.path_of(log.name)
            parts: dict[str, list[pa.Table]] = {name: [] for name in self._names}
            own = [block for block in counting if block.path == path]
            data = [block for block in own if block.kind is not BlockKind.DELETE]
            for block in data:
                for name, rows in self._block_columns(block, file_slice.partition):
                    parts[name].append(rows)
            for name, tables in parts.items():
                if data and not tables:
                    self._note_lacking(file_slice, [each for each in parts if each != name])
                    continue
                nothing = self._context.target([name]).empty_table()
                rows = pa.concat_tables([nothing, *tables])
                self._take(file_slice, log, rows, {})
            for each in self._wide:
                self._take_joined(each, file_slice, log, parts, len(data))

    def _take_joined(
        self,
        target: _Index,
        place: FileSlice,
        log: LogFile,
        parts: dict[str, list[pa.Table]],
        blocks: int,
    ) -> None:
        """Take in several columns of a log file, which stand side by side if no block lacks one."""
        if any(len(parts[name]) != blocks for name in target.sources):
            target.collector.lack(target.target, place.partition)
            return
        columns = {}
        for name in target.sources:
            nothing = self._context.target([name]).empty_table()
            columns[name] = pa.concat_tables([nothing, *parts[name]])[name]
        self._compute(target, place, log, pa.table(columns))

    def _compute(
        self,
        target: _Index,
        place: FileSlice,
        file: BaseFile | LogFile,
        rows: pa.Table,
    ) -> None:
        size = file.size_bytes
        target.collector.add_to(target.target, place.partition, file.name, rows, size)

    def _note_lacking(self, place: FileSlice, stored: Sequence[str]) -> None:
        for each in self._targets:
            if not set(each.sources) <= set(stored):
                each.collector.lack(each.target, place.partition)

    def _block_columns(self, block: LogBlock, partition: str) -> Iterator[tuple[str, pa.Table]]:
        wanted = self._stored(self._names, block.instant_time)
        rows = _block_rows(block, wanted)
        present = [name for name in wanted if name in rows.column_names]
        rows = self._conformed(rows, present, block.instant_time, partition)
        for name in present:
            yield name, rows.select([name])

    def _stored(self, names: Sequence[str], instant_time: str) -> list[str]:
        """Those of the names that are wanted, and were the same column at an instant."""
        return [
            name
            for name in names
            if name in self._names and self._context.stored_names([name], instant_time) == [name]
        ]

    def _conformed(
        self, rows: pa.Table, columns: list[str], instant_time: str, partition: str
    ) -> pa.Table:
        target = self._context.target(columns)
        return self._context.conform(rows, instant_time, target, partition)


def _column_sizes(metadata: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """The packed and unpacked bytes of every flat column."""
    sizes: dict[str, tuple[int, int]] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            packed, unpacked = sizes.get(chunk.path_in_schema, (0, 0))
            sizes[chunk.path_in_schema] = (
                packed + chunk.total_compressed_size,
                unpacked + chunk.total_uncompressed_size,
            )
    return sizes


def _block_rows(block: LogBlock, names: list[str]) -> pa.Table:
    if block.kind is BlockKind.AVRO_DATA:
        return pa.Table.from_batches([decode_avro_block(block, columns=names)])
    if block.kind is BlockKind.PARQUET_DATA:
        return decode_parquet_block(block, columns=names)
    raise UnsupportedFeature(f"a {block.kind.name} block in the data log {block.path}")
