"""How many rows slices have, without reading more of them than their keys.

Of a slice with nothing but updates and inserts in its log files the keys are enough. What decoding
a log block costs hardly depends on how many records it has, so those of many slices are decoded
together; the keys of base files are read by a few threads meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup.context import DELETED_FLAG, OPERATION, ReadContext
from lakedex.filegroup.log_changes import block_keys, plain_blocks, slice_blocks
from lakedex.filegroup.reading import base_rows, read_slice
from lakedex.filegroup.slices import FileSlice
from lakedex.format.logfile import BlockKind, LogBlock, count_records, decode_avro_blocks

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
    """Whether rows are told apart by one column, and no column says that one is deleted."""
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
