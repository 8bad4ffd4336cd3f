"""Reads file slices: the rows of a base file with its log files merged in.

Without log files the base file's rows pass through untouched. With log files the newest change
of each key is held in memory and merged into the base rows batch by batch.

Rows are counted without reading more than keys: they are enough for a slice whose log files have
only updates and inserts. The cost of decoding a log block hardly depends on its number of records,
so blocks of many slices are decoded together, while a few threads read the keys of base files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, UnsupportedFeature
from lakedex.filegroup.context import DELETED_FLAG, OPERATION, ReadContext
from lakedex.filegroup.log_changes import (
    block_keys,
    plain_blocks,
    read_changes,
    read_many_changes,
    slice_blocks,
)
from lakedex.filegroup.names import BaseFile
from lakedex.filegroup.ordering import ordering_of
from lakedex.filegroup.slices import FileSlice
from lakedex.format.logfile import BlockKind, LogBlock, count_records, decode_avro_blocks
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


_TOGETHER_BYTES = 16 << 20
"""Log blocks are decoded together up to so many bytes."""
_READERS = 4


def count_rows(context: ReadContext, file_slice: FileSlice) -> int:
    """How many rows a slice has; with nothing but updates in its logs only keys are read."""
    blocks = slice_blocks(context, file_slice)
    keys = context.merge_columns()[:1]
    if not _keys_tell(context) or any(block.kind is BlockKind.DELETE for block in blocks):
        return sum(part.num_rows for part in read_slice(context, file_slice, keys))
    target = context.target(keys)
    logged = [block_keys(context, block, target, file_slice.partition) for block in blocks]
    return _united(_base_keys(context, file_slice), pa.chunked_array(logged, pa.string()))


def base_row_count(context: ReadContext, file_slice: FileSlice) -> int:
    """How many rows the base file of a slice has, by its footer."""
    if file_slice.base is None:
        return 0
    path = file_slice.path_of(file_slice.base.name)
    try:
        with context.storage.open_parquet_input(path, file_slice.base.size_bytes) as handle:
            return int(pq.read_metadata(handle).num_rows)
    except (FileMissing, FileNotFoundError) as error:
        raise FileMissing(f"{path} is listed but not there; was the table cleaned?") from error
    except PARQUET_ERRORS as error:
        raise CorruptFile(path, 0, expected="a Parquet footer", actual=error) from error


def count_rows_of(context: ReadContext, slices: Sequence[FileSlice]) -> int:
    """How many rows some slices have; plain ones are counted many at a time."""
    if len(slices) <= 1 or not _keys_tell(context):
        return sum(count_rows(context, each) for each in slices)
    total, size = 0, 0
    waiting: list[tuple[FileSlice, list[LogBlock]]] = []
    with ThreadPoolExecutor(min(_READERS, len(slices))) as readers:
        for each in slices:
            blocks = plain_blocks(context, each)
            if not blocks:
                total += count_rows(context, each)
                continue
            own = sum(block.content.size for block in blocks)
            other_form = waiting and waiting[0][1][0].schema_text != blocks[0].schema_text
            if waiting and (other_form or size + own > _TOGETHER_BYTES):
                total += _count_together(context, waiting, readers)
                waiting, size = [], 0
            waiting.append((each, blocks))
            size += own
        return total + (_count_together(context, waiting, readers) if waiting else 0)


def _count_together(
    context: ReadContext,
    waiting: Sequence[tuple[FileSlice, list[LogBlock]]],
    readers: ThreadPoolExecutor,
) -> int:
    stored = [readers.submit(_base_keys, context, each) for each, _ in waiting]
    blocks = [block for _, own in waiting for block in own]
    target = context.target(context.merge_columns()[:1])
    decoded = pa.Table.from_batches([decode_avro_blocks(blocks, columns=target.names)])
    rows = context.conform(decoded, blocks[0].instant_time, target, "")
    keys = context.record_keys(rows)
    total = start = 0
    for (_, own), base in zip(waiting, stored, strict=True):
        count = sum(count_records(block) for block in own)
        total += _united(base.result(), keys.slice(start, count))
        start += count
    return total


def _keys_tell(context: ReadContext) -> bool:
    """Whether one column identifies rows, and no column marks deleted ones."""
    marks = {DELETED_FLAG, OPERATION}.intersection(context.schema.names)
    return not marks and len(context.merge_columns()[:1]) == 1


def _base_keys(context: ReadContext, file_slice: FileSlice) -> pa.ChunkedArray:
    target = context.target(context.merge_columns()[:1])
    parts = [context.record_keys(rows) for rows in base_rows(context, file_slice, target, None)]
    return pa.chunked_array(parts, pa.string())


def _united(base: pa.ChunkedArray, logged: pa.Array | pa.ChunkedArray) -> int:
    """How many keys there are in both together; a base file has each of its keys once."""
    changed = logged.unique()
    in_base = pc.sum(pc.is_in(changed, value_set=base)).as_py() or 0
    return len(base) + len(changed) - int(in_base)
