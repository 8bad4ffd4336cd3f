"""The worker of a compaction: base and log files of file groups in, new base files out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile

from lakedex.config import keys as names
from lakedex.filegroup.names import base_file_name
from lakedex.filegroup.slices import FileSlice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import HFileBuilder
from lakedex.index.metadata_table.group_files import (
    EXTENSION,
    HFILE_OPTIONS,
    MAX_KEY,
    MIN_KEY,
    TOKEN,
    GroupFile,
    publish,
    write_while_pending,
)
from lakedex.index.metadata_table.group_merge import merged_records
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage


@dataclass(frozen=True)
class CompactionJob:
    """What all tasks of one compaction, or of one of log blocks alone, know."""

    address: StorageAddress
    instant: str
    pending_path: str
    """The inflight file of the compaction: once it is gone, nobody wants the files any more."""
    committed: frozenset[str]
    """The instants whose log blocks count."""


def compact_groups(job: CompactionJob, groups: Sequence[FileSlice]) -> list[GroupFile]:
    """Write the new base files of some file groups, one after the other."""
    storage = job.address.open().sub(names.METADATA_TABLE_FOLDER)
    return [_compact(storage, job, group) for group in groups]


def _compact(storage: Storage, job: CompactionJob, group: FileSlice) -> GroupFile:
    """Merge a group into a file of this machine, then put that in its place in one step."""
    described = metadata_partition(group.partition)
    reader = GroupReader(storage, described, group, job.committed.__contains__)
    with TemporaryFile(prefix="lakedex-base-") as file:
        builder = HFileBuilder(HFILE_OPTIONS, sink=file)
        for records in merged_records(described, reader):
            builder.add(records.keys, records.values)
        info = {"schema": METADATA_RECORD_SCHEMA.encode()}
        if builder.first_key is not None and builder.last_key is not None:
            info |= {MIN_KEY: builder.first_key, MAX_KEY: builder.last_key}
        builder.finish(file_info=info)
        file.flush()
        name = base_file_name(group.file_id, TOKEN, job.instant, EXTENSION)

        def write() -> GroupFile:
            with mmap(file.fileno(), 0, access=ACCESS_READ) as data, memoryview(data) as view:
                size = publish(storage, f"{group.partition}/{name}", view)
            counts = size, builder.entry_count
            return GroupFile(group.partition, group.file_id, name, *counts, is_log=False)

        return write_while_pending(storage, job.instant, job.pending_path, write)
