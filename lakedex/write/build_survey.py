"""Workers that look at data which is there already, for indexes that are built later.

One pass over the file slices serves all new indexes. Keys are put aside in files by bucket, since
they grow with the records; ranges and filters are answered.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakedex.engine import Engine
from lakedex.filegroup import RECORD_KEY, FileSlice, ReadContext, read_slice
from lakedex.format.spill import SpillWriter
from lakedex.index.commit_changes import KeyNote, note_rows
from lakedex.index.maintenance import ChangedRows, MaintainedIndex, joined_notes
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.schema import SchemaHistory
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.build_ranges import StoredFiles
from lakedex.write.context import WriteContext

_TASKS_A_CORE = 4
_NOTES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class SurveyWants:
    """What is read of the data."""

    indexes: tuple[MaintainedIndex, ...] = ()
    """The indexes that are to be built."""
    shards: int = 0
    """File groups of the record index, of one partition if it is partitioned; 0 for none."""
    buckets: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether no data has to be read."""
        return not (self.indexes or self.shards)


@dataclass(frozen=True)
class Survey:
    """What was found in some slices."""

    notes: tuple[KeyNote, ...] = ()
    """The keys, for a record index."""
    index_notes: Mapping[str, Any] = field(default_factory=dict)
    """What was noted for each index, by name."""

    @classmethod
    def joined(cls, wants: SurveyWants, parts: Sequence[Survey]) -> Survey:
        """All parts in one."""
        return cls(
            tuple(note for part in parts for note in part.notes),
            joined_notes(wants.indexes, [part.index_notes for part in parts]),
        )


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    history: SchemaHistory | None
    wants: SurveyWants
    slices: tuple[FileSlice, ...]


def survey(
    engine: Engine,
    facts: WriteContext,
    history: SchemaHistory | None,
    slices: Sequence[FileSlice],
    wants: SurveyWants,
) -> Survey:
    """Read the slices in workers.

    Args:
        engine: Where the workers run.
        facts: The table; `committed` says which log blocks count.
        history: How columns were renamed and retyped.
        slices: What to look at.
        wants: What to look for.
    """
    if wants.is_empty or not slices:
        return Survey()
    shares = shares_of_slices(slices, engine.parallelism * _TASKS_A_CORE)
    return Survey.joined(wants, survey_shares(engine, facts, history, shares, wants))


def shares_of_slices(slices: Sequence[FileSlice], most: int) -> list[tuple[FileSlice, ...]]:
    """The slices in so many shares at most, large ones in different shares."""
    count = max(1, min(len(slices), most))
    by_size = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    return [tuple(by_size[at::count]) for at in range(count)]


def survey_shares(
    engine: Engine,
    facts: WriteContext,
    history: SchemaHistory | None,
    shares: Sequence[tuple[FileSlice, ...]],
    wants: SurveyWants,
) -> list[Survey]:
    """What was found in each share of the slices."""
    tasks = [_Task(facts, history, wants, share) for share in shares]
    return engine.map("read the data for new indexes", survey_slices, tasks)


def survey_slices(task: _Task) -> Survey:
    """The worker: looks at the slices of one task."""
    facts, wants = task.facts, task.wants
    context = ReadContext(
        storage=facts.address.open(),
        config=facts.config,
        schema=facts.schema,
        history=task.history,
        is_committed=facts.committed,
    )
    # Only what the new indexes need is read of the rows, and that once.
    needed = replace(facts, indexes=wants.indexes)
    collectors = needed.collectors(context.storage)
    files = StoredFiles(context, collectors)
    notes = _KeyNotes(context.storage, facts.scratch, wants)
    columns = list(dict.fromkeys([RECORD_KEY, *needed.row_columns]))
    for current in task.slices:
        files.add(current)
        for collector in collectors.by_slices:
            collector.add_slice(context, current)
        if wants.shards or needed.needs_changed_rows:
            for rows in read_slice(context, current, columns):
                if wants.shards:
                    notes.add(current, context.record_keys(rows))
                nothing = rows.slice(0, 0)
                collectors.add_rows(ChangedRows(nothing, rows, place=current.id))
    return Survey(notes.finish(), collectors.finish())


class _KeyNotes:
    """Puts keys with their places aside, by bucket."""

    def __init__(self, storage: Storage, scratch: str, wants: SurveyWants) -> None:
        self._wants = wants
        self._writer = SpillWriter(storage, f"{scratch}/build-{uuid.uuid4().hex}")
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._notes: list[KeyNote] = []

    def add(self, place: FileSlice, keys: pa.Array) -> None:
        """Keys that are in a file group."""
        self._parts.append(note_rows(keys, place.partition, place.file_id, is_delete=False))
        self._rows += len(keys)
        if self._rows >= _NOTES_AT_ONCE:
            self._spill()

    def finish(self) -> tuple[KeyNote, ...]:
        """Write what is left, and answer where everything is."""
        self._spill()
        self._writer.finish()
        return tuple(self._notes)

    def _spill(self) -> None:
        if not self._rows:
            return
        notes = pa.concat_tables(self._parts).combine_chunks()
        buckets = shards_of(flat(notes["key"]), self._wants.shards) % self._wants.buckets
        for bucket, segment in self._writer.add_by_number(notes, buckets):
            self._notes.append(KeyNote(bucket, segment))
        self._parts, self._rows = [], 0
