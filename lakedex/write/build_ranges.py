"""Files that are in a table already, read for indexes of files that are built later.

The values are read, not the footers: footers leave out long texts and know nothing of NaN. A file
that does not store a column under the name that the column has now gives no values of it: readers
then know nothing of the column there, and keep the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, UnsupportedFeature
from lakedex.filegroup import BaseFile, FileSlice, LogFile, ReadContext
from lakedex.filegroup.log_changes import slice_blocks
from lakedex.format.logfile import BlockKind, LogBlock, decode_avro_block, decode_parquet_block
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.index.maintenance import Collector, Collectors, ColumnSizes, FileRows, MaintainedIndex


class StoredFiles:
    """Reads the columns that indexes need of the files of slices."""

    def __init__(self, context: ReadContext, collectors: Collectors) -> None:
        """Read for these collectors."""
        self._context = context
        self._all = collectors.by_columns
        self._names = list(dict.fromkeys(name for each, _ in self._all for name in each.sources))
        self._joint = [(each, own) for each, own in self._all if each.is_joint]
        self._wide = [(each, own) for each, own in self._joint if len(each.sources) > 1]

    def add(self, file_slice: FileSlice) -> None:
        """Read the files of a slice."""
        if not self._names:
            return
        if file_slice.base is not None:
            self._add_base(file_slice, file_slice.base)
        if file_slice.logs:
            self._add_logs(file_slice)

    def _add_column(
        self, place: FileSlice, file: BaseFile | LogFile, rows: pa.Table, sizes: ColumnSizes
    ) -> None:
        """Add the only column of some rows, which are all that a file has."""
        (name,) = rows.column_names
        added = FileRows(place.partition, file.name, file.size_bytes, rows, sizes)
        for index, own in self._all:
            if index.sources == (name,) or (not index.is_joint and name in index.sources):
                own.add_file(added)

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
                    self._add_column(file_slice, base, rows, sizes)
                for index, own in self._wide:
                    if set(index.sources) <= set(stored):
                        names = list(index.sources)
                        rows = file.read(names, use_threads=False)
                        rows = self._conformed(rows, names, base.instant_time, file_slice.partition)
                        own.add_file(
                            FileRows(file_slice.partition, base.name, base.size_bytes, rows)
                        )
        except (FileMissing, FileNotFoundError) as error:
            raise FileMissing(f"{path} is listed but not there; was the table cleaned?") from error
        except PARQUET_ERRORS as error:
            raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error

    def _add_logs(self, file_slice: FileSlice) -> None:
        counting = slice_blocks(self._context, file_slice)
        for log in file_slice.logs:
            path = file_slice.path_of(log.name)
            parts: dict[str, list[pa.Table]] = {name: [] for name in self._names}
            blocks = [block for block in counting if block.log_of_slice == path]
            data = [block for block in blocks if block.kind is not BlockKind.DELETE]
            for block in data:
                for name, rows in self._block_columns(block, file_slice.partition):
                    parts[name].append(rows)
            for name, tables in parts.items():
                if data and not tables:
                    self._note_lacking(file_slice, [each for each in parts if each != name])
                    continue
                nothing = self._context.target([name]).empty_table()
                rows = pa.concat_tables([nothing, *tables])
                self._add_column(file_slice, log, rows, {})
            for index, own in self._wide:
                self._add_joined(index, own, file_slice, log, parts, len(data))

    def _add_joined(
        self,
        index: MaintainedIndex,
        own: Collector,
        place: FileSlice,
        log: LogFile,
        parts: dict[str, list[pa.Table]],
        blocks: int,
    ) -> None:
        """Add several columns of a log file, which belong together if no block lacks one."""
        if any(len(parts[name]) != blocks for name in index.sources):
            own.lack(place.partition)
            return
        columns = {}
        for name in index.sources:
            nothing = self._context.target([name]).empty_table()
            columns[name] = pa.concat_tables([nothing, *parts[name]])[name]
        own.add_file(FileRows(place.partition, log.name, log.size_bytes, pa.table(columns)))

    def _note_lacking(self, place: FileSlice, stored: Sequence[str]) -> None:
        for index, own in self._joint:
            if not set(index.sources) <= set(stored):
                own.lack(place.partition)

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
