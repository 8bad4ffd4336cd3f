"""The worker of a compaction: file slices in, new base files out.

A task may be run again: it then writes the same files once more, byte by byte.
"""

from __future__ import annotations

import time

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, ReadContext, read_slice
from lakedex.index.maintenance import FileRows
from lakedex.write.handles.base_file import encode_base_file
from lakedex.write.handles.incoming import with_file_name
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import GroupWork, TaskResult, WriteTask, WrittenFile


def compact_slices(task: WriteTask) -> TaskResult:
    """Write the base files of a task's groups.

    Raises:
        CommitConflict: the compaction was rolled back meanwhile; no new file was left in the table.
    """
    started = time.perf_counter()
    facts = task.facts
    context = facts.read_context()
    publisher = Publisher(facts, context.storage)
    # Rows stay as they are, and so do the indexes of rows.
    indexes = facts.without_row_indexes().collectors(context.storage)
    files = []
    for group in task.groups:
        current = group.current
        if current is None:
            raise InvalidInput(f"{group.file_id} has nothing to compact")
        rows = with_file_name(_merged_rows(context, current), group.file_name)
        encoded = encode_base_file(facts, rows)
        size = publisher.publish(group, encoded.data)
        files.append(_written(group, current, rows.num_rows, size))
        bloom = encoded.bloom(group.partition, group.file_name)
        indexes.add_file(
            FileRows(group.partition, group.file_name, size, rows, encoded.sizes, bloom)
        )
    publisher.finish()
    return TaskResult(
        files=tuple(files),
        index_notes=indexes.finish(),
        seconds=time.perf_counter() - started,
    )


def _merged_rows(context: ReadContext, current: FileSlice) -> pa.Table:
    """The rows that a reader sees; each keeps its commit time and sequence number."""
    parts = list(read_slice(context, current, context.schema.names, batch_rows=None))
    return pa.concat_tables(parts).combine_chunks() if parts else context.schema.empty_table()


def _written(group: GroupWork, current: FileSlice, rows: int, size: int) -> WrittenFile:
    return WrittenFile(
        partition=group.partition,
        file_id=group.file_id,
        name=group.file_name,
        is_log=False,
        size=size,
        previous_base=None if current.base is None else current.base.name,
        prev_commit=current.base_instant,
        num_writes=rows,
        num_inserts=0,
        num_updates=0,
        num_deletes=0,
        counters={
            "totalLogFiles": len(current.logs),
            "totalLogFilesCompacted": len(current.logs),
            "totalLogSizeCompacted": sum(log.size_bytes for log in current.logs),
        },
    )
