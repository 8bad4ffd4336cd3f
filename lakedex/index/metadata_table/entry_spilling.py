"""The worker of resharding: the entries of record-index file groups, spilled by their new place."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import keys as names
from lakedex.filegroup.slices import FileSlice
from lakedex.format.spill import SpillWriter
from lakedex.index.metadata_table.group_merge import merged_records
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.index.metadata_table.shard_writer import ENTRY_SCHEMA
from lakedex.index.written import KeyNote
from lakedex.storage.address import StorageAddress


@dataclass(frozen=True)
class SpillJob:
    """What all tasks of one resharding know."""

    address: StorageAddress
    scratch: str
    committed: frozenset[str]
    """The instants whose log blocks count."""
    data_partitions: Mapping[str, str]
    """The data partition of each file id, where groups have one."""
    shards: int
    buckets: int


def spill_entries(job: SpillJob, groups: Sequence[FileSlice]) -> list[KeyNote]:
    """Spill the entries of some file groups; another attempt writes other files."""
    table = job.address.open()
    metadata = table.sub(names.METADATA_TABLE_FOLDER)
    writer = SpillWriter(table, f"{job.scratch}/{uuid.uuid4().hex}")
    notes = []
    for group in groups:
        described = metadata_partition(group.partition)
        reader = GroupReader(metadata, described, group, job.committed.__contains__)
        path = job.data_partitions.get(group.file_id, "")
        for records in merged_records(described, reader):
            keys = records.keys.cast(pa.large_string()).cast(pa.string())
            rows = pa.table([keys, pa.repeat(path, len(keys)), records.values], schema=ENTRY_SCHEMA)
            buckets = shards_of(keys, job.shards) % job.buckets
            notes += [KeyNote(*put) for put in writer.add_by_number(rows, buckets)]
    writer.finish()
    return notes
