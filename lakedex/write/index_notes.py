"""What a write notes for indexes of keys and of rows, of the file slices that it replaces too."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.filegroup.reading import read_slice
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.maintenance import ChangedRows
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import KeyNote, note_rows
from lakedex.storage.protocol import Storage
from lakedex.table import Snapshot
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import TaskResult
from lakedex.write.rows import FILE_ID, KEY, PARTITION
from lakedex.write.tag.index_lookup import RecordIndexAccess, record_locations
from lakedex.write.tag.locations import group_names
from lakedex.write.tag.plan import global_record_index
from lakedex.write.tag.stored_rows import SliceCatalog, read_stored, spill_slices


@dataclass(frozen=True)
class GatheredNotes:
    """What a write notes beside the notes of its tasks, put together with these."""

    keys: tuple[KeyNote, ...]
    parts: tuple[Mapping[str, Any], ...]
    """Notes for indexes of rows, of the slices that the write takes away."""


def gather_notes(
    engine: Engine,
    facts: WriteContext,
    snapshot: Snapshot,
    done: Sequence[TaskResult],
    replaced: Sequence[FileSlice],
    *,
    has_record_index: bool,
) -> GatheredNotes:
    """The key notes of written and replaced file groups, and notes of replaced rows.

    Args:
        engine: Runs the workers that read what is replaced.
        facts: The table.
        snapshot: The table as the write found it.
        done: What the tasks of the write answered.
        replaced: The slices that the write takes away.
        has_record_index: Whether there is a record index that must lose their keys.
    """
    notes = [note for answer in done for note in answer.notes]
    parts: list[Mapping[str, Any]] = []
    if replaced:
        index = global_record_index(snapshot)
        if has_record_index:
            notes = note_replaced_keys(engine, facts, index, replaced) + notes
        gone = {current.id for current in replaced}
        staying = [current for current in snapshot.slices if current.id not in gone]
        parts += note_replaced_rows(engine, facts, index, replaced, staying)
    return GatheredNotes(tuple(notes), tuple(parts))


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    slices: tuple[FileSlice, ...]
    index: RecordIndexAccess | None


def note_replaced_keys(
    engine: Engine,
    facts: WriteContext,
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
    places = record_locations(storage, index, pa.table({KEY: keys}))
    in_slice = pc.and_(
        pc.equal(places[PARTITION], current.partition), pc.equal(places[FILE_ID], current.file_id)
    )
    return places[KEY].filter(in_slice).combine_chunks()


def _spill(
    facts: WriteContext, keys: pa.Array, current: FileSlice, writer: SpillWriter
) -> list[KeyNote]:
    buckets = shards_of(keys, facts.note_shards) % facts.note_buckets
    rows = note_rows(keys, current.partition, current.file_id, is_delete=True)
    return [KeyNote(bucket, segment) for bucket, segment in writer.add_by_number(rows, buckets)]


@dataclass(frozen=True)
class _RowTask:
    facts: WriteContext
    slices: tuple[FileSlice, ...]
    index: RecordIndexAccess | None
    staying: Segment | None
    """The catalog of the slices that stay."""


def note_replaced_rows(
    engine: Engine,
    facts: WriteContext,
    index: RecordIndexAccess | None,
    replaced: Sequence[FileSlice],
    staying: Sequence[FileSlice],
) -> list[dict[str, Any]]:
    """Notes of the rows of the replaced slices, which go, by name of the index.

    A key that was overwritten in one partition after another stands in both for a while. When the
    older place goes, an entry that the newer one has as well must stay; the record index (`index`,
    if there is one over the whole table) knows where that is.
    """
    if not facts.needs_changed_rows or not replaced:
        return []
    catalog = None
    if index is not None and staying:
        catalog = spill_slices(facts.address.open(), facts.scratch, staying)
    count = max(1, min(len(replaced), engine.parallelism * 2))
    tasks = [_RowTask(facts, tuple(replaced[at::count]), index, catalog) for at in range(count)]
    return engine.map("note replaced values", _note_rows, tasks)


def _note_rows(task: _RowTask) -> dict[str, Any]:
    context = task.facts.read_context()
    columns = list(dict.fromkeys([KEY, *task.facts.row_columns]))
    indexes = tuple(each for each in task.facts.indexes if each.row_columns)
    collectors = replace(task.facts, indexes=indexes).collectors(context.storage)
    nothing = context.target(columns).empty_table()
    catalog = None
    if task.staying is not None:
        catalog = SliceCatalog(context.storage, task.staying)
    for current in task.slices:
        for rows in read_slice(context, current, columns):
            others = None
            if task.index is not None and catalog is not None:
                others = _elsewhere(context, task.index, catalog, rows)
            collectors.add_rows(ChangedRows(rows, nothing, others))
    return collectors.finish()


def _elsewhere(
    context: ReadContext, index: RecordIndexAccess, catalog: SliceCatalog, rows: pa.Table
) -> pa.Table | None:
    """The rows of the same keys in slices that stay."""
    keys = rows[KEY].combine_chunks()
    places = record_locations(context.storage, index, pa.table({KEY: keys}))
    stays = catalog.has(group_names(places[PARTITION], places[FILE_ID]))
    if not np.any(stays):
        return None
    found = read_stored(context, catalog, places.filter(pa.array(stays)), rows.column_names)
    return found.rows.filter(pc.is_in(found.rows[KEY], value_set=keys))
