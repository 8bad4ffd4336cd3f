"""Which keys came to file groups and which left them, spilled for the indexes of keys."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa

from lakedex.format.spill import SpillWriter
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import KeyNote, note_rows
from lakedex.storage.protocol import Storage
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import GroupWork, WriteTask


class KeyNotes:
    """The keys of one task, spilled by bucket."""

    def __init__(self, task: WriteTask) -> None:
        """Start without notes."""
        self._task = task
        self._parts: list[pa.Table] = []

    def add(self, group: GroupWork, keys: pa.Array, *, is_delete: bool) -> None:
        """Keys that are now in the group, or no longer."""
        if len(keys):
            self._parts.append(note_rows(keys, group.partition, group.file_id, is_delete=is_delete))

    def spill(self, storage: Storage) -> tuple[KeyNote, ...]:
        """Write the notes, one segment a bucket."""
        return spill_notes(self._task.facts, storage, self._parts, str(self._task.number))


def spill_notes(
    facts: WriteContext, storage: Storage, parts: Sequence[pa.Table], task: str
) -> tuple[KeyNote, ...]:
    """Write notes, one segment a bucket."""
    if not parts:
        return ()
    notes = pa.concat_tables(parts).combine_chunks()
    shards = shards_of(notes["key"].combine_chunks(), facts.note_shards)
    # Attempts of one task may differ in where they put their notes: only one of them counts.
    prefix = f"{facts.scratch}/notes-{task}-{uuid.uuid4().hex}"
    writer = SpillWriter(storage, prefix, holds_small=True)
    spilled = writer.add_by_number(notes, shards % facts.note_buckets)
    writer.finish()
    return tuple(KeyNote(bucket, segment) for bucket, segment in spilled)
