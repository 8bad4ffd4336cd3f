"""Keys of file groups that a write replaces: the record index must forget them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice
from lakedex.filegroup.reading import read_slice
from lakedex.format.spill import SpillWriter
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import KeyNote, note_rows
from lakedex.storage.protocol import Storage
from lakedex.write.facts import TableFacts
from lakedex.write.rows import FILE_ID, KEY, PARTITION
from lakedex.write.tag.record_places import RecordIndexAccess, record_places


@dataclass(frozen=True)
class _Task:
    facts: TableFacts
    slices: tuple[FileSlice, ...]
    index: RecordIndexAccess | None


def note_replaced_keys(
    engine: Engine,
    facts: TableFacts,
    index: RecordIndexAccess | None,
    slices: Sequence[FileSlice],
) -> list[KeyNote]:
    """Deletes for the keys of the given slices; `index` is that over the whole table, if any.

    A key that was overwritten in one partition after another stands in both for a while. An index
    over the whole table knows its newer place only, and must not forget that with the older one.
    """
    count = max(1, min(len(slices), engine.parallelism * 2))
    tasks = [_Task(facts, tuple(slices[at::count]), index) for at in range(count)]
    answers = engine.map("note replaced keys", _note_keys, [task for task in tasks if task.slices])
    return [note for notes in answers for note in notes]


def _note_keys(task: _Task) -> list[KeyNote]:
    context = task.facts.read_context()
    writer = SpillWriter(
        context.storage, f"{task.facts.scratch}/replaced-{uuid.uuid4().hex}", holds_small=True
    )
    notes: list[KeyNote] = []
    for current in task.slices:
        for rows in read_slice(context, current, [KEY]):
            keys = rows[KEY].combine_chunks()
            if task.index is not None:
                keys = _placed(context.storage, task.index, keys, current)
            notes += _spill(task.facts, keys, current, writer)
    writer.finish()
    return notes


def _placed(
    storage: Storage, index: RecordIndexAccess, keys: pa.Array, current: FileSlice
) -> pa.Array:
    """The keys whose place is in the slice, as the index says."""
    places = record_places(storage, index, pa.table({KEY: keys}))
    in_slice = pc.and_(
        pc.equal(places[PARTITION], current.partition), pc.equal(places[FILE_ID], current.file_id)
    )
    return places[KEY].filter(in_slice).combine_chunks()


def _spill(
    facts: TableFacts, keys: pa.Array, current: FileSlice, writer: SpillWriter
) -> list[KeyNote]:
    buckets = shards_of(keys, facts.note_shards) % facts.note_buckets
    rows = note_rows(keys, current.partition, current.file_id, is_delete=True)
    return [KeyNote(bucket, segment) for bucket, segment in writer.add_by_number(rows, buckets)]
