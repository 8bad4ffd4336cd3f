"""Reads file slices: the rows of a base file with its log files merged in.

Without log files the base file's rows pass through untouched. With log files the newest change
of each key is held in memory and laid over the base rows batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, UnsupportedFeature
from lakedex.filegroup.context import ReadContext
from lakedex.filegroup.log_changes import read_changes, read_many_changes
from lakedex.filegroup.names import BaseFile
from lakedex.filegroup.ordering import ordering_of
from lakedex.filegroup.slices import FileSlice
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.merge import ChangeSet

BATCH_ROWS = 131_072
_PARQUET = "parquet"


def read_slice(
    context: ReadContext,
    file_slice: FileSlice,
    columns: Sequence[str],
    *,
    batch_rows: int | None = BATCH_ROWS,
) -> Iterator[pa.Table]:
    """The merged rows of a slice with the given columns, in batches.

    `batch_rows` None reads a base file at once, which is faster where all is kept anyway.
    """
    wanted = context.target(columns)
    if not file_slice.logs:
        yield from base_rows(context, file_slice, wanted, batch_rows)
        return
    needed = _with_merge_columns(context, columns)
    changes = read_changes(context, file_slice, needed)
    yield from _merged(context, file_slice, changes, needed, columns, batch_rows)


def read_slices(
    context: ReadContext, slices: Sequence[FileSlice], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The merged rows of some slices, one after the other, each base file at once.

    The changes of all of them are held in memory.
    """
    wanted, needed = context.target(columns), _with_merge_columns(context, columns)
    with_logs = [each for each in slices if each.logs]
    changes = iter(read_many_changes(context, with_logs, needed))
    for file_slice in slices:
        if file_slice.logs:
            yield from _merged(context, file_slice, next(changes), needed, columns, None)
        else:
            yield from base_rows(context, file_slice, wanted, None)


def _with_merge_columns(context: ReadContext, columns: Sequence[str]) -> pa.Schema:
    return context.target(list(dict.fromkeys([*columns, *context.merge_columns()])))


def _merged(
    context: ReadContext,
    file_slice: FileSlice,
    changes: ChangeSet,
    needed: pa.Schema,
    columns: Sequence[str],
    batch_rows: int | None,
) -> Iterator[pa.Table]:
    for rows in base_rows(context, file_slice, needed, batch_rows):
        ordering = ordering_of(rows, context.ordering_fields)
        merged = changes.apply(rows, context.record_keys(rows), ordering)
        if merged.num_rows:
            yield merged.select(columns)
    inserts = changes.inserts()
    if inserts.num_rows:
        yield inserts.select(columns)


def base_rows(
    context: ReadContext,
    file_slice: FileSlice,
    target: pa.Schema,
    batch_rows: int | None = BATCH_ROWS,
) -> Iterator[pa.Table]:
    """The rows of a slice's base file as they are, log files left alone."""
    base = file_slice.base
    if base is None:
        return
    context.config.require_readable_base_files()
    if base.extension != _PARQUET:
        # As in a table with base files of several formats.
        raise UnsupportedFeature(f"the base file {file_slice.path_of(base.name)}, which")
    for rows in _stored_rows(context, file_slice, base, target.names, batch_rows):
        yield context.conform(rows, base.instant_time, target, file_slice.partition)


def _stored_rows(
    context: ReadContext,
    file_slice: FileSlice,
    base: BaseFile,
    columns: Sequence[str],
    batch_rows: int | None,
) -> Iterator[pa.Table]:
    path = file_slice.path_of(base.name)
    stored = set(context.stored_names(columns, base.instant_time))
    try:
        with (
            context.storage.open_parquet_input(path, base.size_bytes) as handle,
            pq.ParquetFile(
                handle,
                coerce_int96_timestamp_unit="us",
                # To fetch ahead, by other threads, only pays where a request takes its time.
                pre_buffer=not isinstance(handle, pa.OSFile),
            ) as file,
        ):
            present = [name for name in file.schema_arrow.names if name in stored]
            if batch_rows is None:
                yield _with_rows(file.read(present, use_threads=False), file.metadata.num_rows)
                return
            for batch in file.iter_batches(batch_rows, columns=present, use_threads=False):
                yield pa.Table.from_batches([batch])
    except (FileMissing, FileNotFoundError) as error:
        raise FileMissing(f"{path} is listed but not there; was the table cleaned?") from error
    except PARQUET_ERRORS as error:
        raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error


def _with_rows(table: pa.Table, num_rows: int) -> pa.Table:
    """A table without columns forgets its length; a constant column would then be empty."""
    if table.num_columns or not num_rows:
        return table
    return pa.table({"": pa.nulls(num_rows)}).select([])
