"""Which keys came to a file group and which left it, put aside for the indexes."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from lakedex.format.spill import SpillWriter
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import NOTE_SCHEMA, KeyNote
from lakedex.storage.protocol import Storage
from lakedex.write.handles.work import GroupWork, WriteTask


class NoteTaker:
    """Gathers the notes of a task and puts them out by bucket."""

    def __init__(self, task: WriteTask) -> None:
        """Start without notes."""
        self._task = task
        self._parts: list[pa.Table] = []

    def add(self, group: GroupWork, keys: pa.Array, *, is_delete: bool) -> None:
        """Keys that are now in the group, or no longer."""
        count = len(keys)
        if not count:
            return
        columns = [
            keys,
            pa.repeat(pa.scalar(group.partition, pa.string()), count),
            pa.repeat(pa.scalar(group.file_id, pa.string()), count),
            pa.repeat(pa.scalar(is_delete), count),
        ]
        self._parts.append(pa.Table.from_arrays(columns, schema=NOTE_SCHEMA))

    def put_out(self, storage: Storage) -> tuple[KeyNote, ...]:
        """Write the notes, one segment a bucket."""
        if not self._parts:
            return ()
        facts = self._task.facts
        notes = pa.concat_tables(self._parts).combine_chunks()
        shards = shards_of(notes["key"].combine_chunks(), facts.note_shards)
        buckets = shards % facts.note_buckets
        order = np.argsort(buckets, kind="stable")
        notes = notes.take(pa.array(order)).combine_chunks()
        found, starts, counts = np.unique(buckets[order], return_index=True, return_counts=True)
        # Attempts of one task may differ in where they put their notes: only one is listened to.
        prefix = f"{facts.scratch}/notes-{self._task.number}-{uuid.uuid4().hex}"
        writer = SpillWriter(storage, prefix)
        spans = zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True)
        segments = [
            KeyNote(bucket, writer.add(notes.slice(start, count))) for bucket, start, count in spans
        ]
        writer.finish()
        return tuple(segments)
