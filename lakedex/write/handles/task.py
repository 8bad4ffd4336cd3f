"""The worker of the write stage: file groups in, data files out.

A task may be run again: it then writes the same files once more, byte by byte.

It also collects what indexes need to know:

- `KeyNotes`: the keys that were added to file groups or removed from them, spilled.
- `BeforeImages`: the rows that a log file replaces. A log file is written without reading them, but
  indexes of rows need their old values. The indexed columns are read for many groups together,
  because reading a few rows from each group by itself takes longer.
- `DuplicateKeys`: after plain inserts a key may be in several groups. An index with one location
  for it would lose that with the first copy that is removed. So the groups that keep a copy note
  it, and a copy that stays takes precedence over one that is removed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSlice, ReadContext
from lakedex.filegroup.many_slices import WANTED, KeyTags, WantedRows, read_wanted
from lakedex.format.spill import SpillWriter
from lakedex.index.commit_changes import KeyNote, note_rows
from lakedex.index.maintenance import ChangedRows, Collectors
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.schema import parse_avro_record
from lakedex.storage.protocol import Storage
from lakedex.write.context import WriteContext
from lakedex.write.handles.base_file import merged_numbers, write_base
from lakedex.write.handles.incoming import Incoming, IncomingReader, Outcome
from lakedex.write.handles.log_file import noted_columns, rows_after_log, rows_of, write_log
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import GroupWork, TaskResult, WriteTask
from lakedex.write.rows import KEY


class DuplicateKeys:
    """Notes the keys that stay, group by group."""

    def __init__(
        self, facts: WriteContext, context: ReadContext, keys: KeyNotes, indexes: Collectors
    ) -> None:
        """Note them among these keys, and for these indexes."""
        self._facts = facts
        self._context = context
        self._keys = keys
        self._indexes = indexes

    def note(self, group: GroupWork, incoming: Incoming, outcome: Outcome | None) -> None:
        """Note those of one group; `outcome` is None where nothing in it changes."""
        keys = incoming.keys.filter(pa.array(incoming.is_live & incoming.is_elsewhere))
        if outcome is not None and len(keys):
            keys = keys.filter(pc.invert(pc.is_in(keys, value_set=outcome.gone)))
        if not len(keys):
            return
        self._keys.add(group, keys, is_delete=False)
        if self._facts.needs_changed_rows and group.current is not None:
            self._indexes.keep(self._rows(group, group.current, outcome, keys), group.id)

    def _rows(
        self, group: GroupWork, current: FileSlice, outcome: Outcome | None, keys: pa.Array
    ) -> pa.Table:
        """The rows of the keys, as they are after the write."""
        facts, columns = self._facts, noted_columns(self._facts)
        if outcome is None:
            return rows_of(self._context, current, keys, columns)
        if outcome.file.is_log:
            return rows_after_log(facts, self._context, group, outcome.file.size, keys)
        return outcome.rows.filter(pc.is_in(outcome.rows[KEY], value_set=keys)).select(columns)


_GROUPS_AT_ONCE = 128
_ROWS_AT_ONCE = 200_000


class BeforeImages:
    """Gathers groups whose rows are all live in them or new to them, and reads what changed."""

    def __init__(self, facts: WriteContext, context: ReadContext) -> None:
        """Start without groups."""
        self._context = context
        self._columns = list(dict.fromkeys([KEY, *facts.row_columns]))
        self._needed = list(dict.fromkeys([*self._columns, *context.ordering_columns]))
        self._by_group = any(each.stores_locations for each in facts.indexes)
        self._clear()

    def _clear(self) -> None:
        self._groups: list[GroupWork] = []
        self._incoming: list[Incoming] = []
        self._rows = 0

    def add(self, group: GroupWork, incoming: Incoming) -> Iterator[ChangedRows]:
        """Add a group; once there are many, yield what changed in all of them."""
        self._groups.append(group)
        self._incoming.append(incoming)
        self._rows += incoming.rows.num_rows
        if len(self._groups) >= _GROUPS_AT_ONCE or self._rows >= _ROWS_AT_ONCE:
            yield from self.finish()

    def finish(self) -> Iterator[ChangedRows]:
        """What changed in the groups that are left."""
        if not self._groups:
            return
        incoming = self._all_incoming()
        before, after = self._replaced(incoming)
        new = incoming.rows.filter(pa.array(incoming.is_new))
        now = pa.concat_tables([after, new])
        if self._by_group:
            was_in, is_in = (rows[WANTED].to_numpy() for rows in (before, now))
            for number, group in enumerate(self._groups):
                was = before.filter(pa.array(was_in == number)).select(self._columns)
                own = now.filter(pa.array(is_in == number)).select(self._columns)
                yield ChangedRows(was, own, place=group.id)
        else:
            yield ChangedRows(before.select(self._columns), now.select(self._columns))
        self._clear()

    def _all_incoming(self) -> Incoming:
        """The rows of all groups, with the numbers of their groups."""
        parts = self._incoming
        numbers = np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts])
        rows = pa.concat_tables([part.rows.select(self._needed) for part in parts])
        return Incoming(
            rows.combine_chunks().append_column(WANTED, pa.array(numbers)),
            is_removal=np.concatenate([part.is_removal for part in parts]),
            is_flagged=np.concatenate([part.is_flagged for part in parts]),
            is_here=np.concatenate([part.is_here for part in parts]),
            is_live=np.concatenate([part.is_live for part in parts]),
            is_elsewhere=np.concatenate([part.is_elsewhere for part in parts]),
        )

    def _replaced(self, incoming: Incoming) -> tuple[pa.Table, pa.Table]:
        """The touched rows as they were and as they are, with the numbers of their groups."""
        numbers, keys = incoming.rows[WANTED].to_numpy(), incoming.keys
        is_stored = incoming.is_here & incoming.is_live
        wanted, groups = self._wanted_rows(keys.filter(pa.array(is_stored)), numbers[is_stored])
        before = read_wanted(self._context, wanted, self._needed)
        if not wanted:
            return before, before
        before = before.set_column(
            before.column_names.index(WANTED), WANTED, pa.array(groups[before[WANTED].to_numpy()])
        )
        here = incoming.is_here
        tags = KeyTags(keys.filter(pa.array(here)), numbers[here])
        stored_keys = tags.of(before[KEY], before[WANTED].to_numpy())
        tagged = incoming
        if not tags.are_plain:
            tagged = replace(incoming, rows=_with_keys(incoming.rows, tags.of(keys, numbers)))
        merged, inserted = merged_numbers(self._context, before, stored_keys, tagged)
        both = pa.concat_tables([before, incoming.rows])
        return before, both.take(pa.array(np.concatenate([merged, inserted])))

    def _wanted_rows(
        self, keys: pa.Array, numbers: npt.NDArray[np.int64]
    ) -> tuple[list[WantedRows], npt.NDArray[np.int64]]:
        """The rows to read of the slices, and the numbers of their groups."""
        bounds = np.searchsorted(numbers, np.arange(len(self._groups) + 1)).tolist()
        wanted, groups = [], []
        for number, group in enumerate(self._groups):
            first, end = bounds[number : number + 2]
            if group.current is not None and end > first:
                wanted.append(WantedRows(group.current, keys.slice(first, end - first)))
                groups.append(number)
        return wanted, np.array(groups, dtype=np.int64)


def _with_keys(rows: pa.Table, keys: pa.Array) -> pa.Table:
    """The same rows with other keys."""
    number = rows.column_names.index(KEY)
    return rows.set_column(number, rows.field(number), keys)


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


def write_groups(task: WriteTask) -> TaskResult:
    """Write the files of a task's groups.

    Raises:
        CommitConflict: the write has ended meanwhile; no new file was left in the table.
    """
    started = time.perf_counter()
    facts = task.facts
    context = facts.read_context()
    storage = context.storage
    publisher = Publisher(facts, storage, files=len(task.groups))
    reader = IncomingReader(task, storage)
    avro = parse_avro_record(facts.schema_text)
    indexes = facts.collectors(storage)
    keys, images = KeyNotes(task), BeforeImages(facts, context)
    duplicates = DuplicateKeys(facts, context, keys, indexes)
    files = []
    for group in task.groups:
        publisher.reserve(group)
        incoming = reader.read(group)
        if group.is_log:
            outcome = write_log(facts, avro, context, publisher, group, incoming)
        else:
            outcome = write_base(facts, context, publisher, group, incoming)
        if not group.is_copy:
            duplicates.note(group, incoming, outcome)
        if outcome is None:
            continue
        for written in (outcome, *outcome.named):
            files.append(written.file)
            indexes.add_file(written.file_rows)
        keys.add(group, outcome.added, is_delete=False)
        keys.add(group, outcome.gone, is_delete=True)
        if outcome.changed is not None:
            indexes.add_rows(replace(outcome.changed, place=group.id))
        if outcome.unread is not None:
            for changed in images.add(group, outcome.unread):
                indexes.add_rows(changed)
    for changed in images.finish():
        indexes.add_rows(changed)
    publisher.finish()
    return TaskResult(
        files=tuple(files),
        notes=keys.spill(storage),
        index_notes=indexes.finish(),
        seconds=time.perf_counter() - started,
    )
