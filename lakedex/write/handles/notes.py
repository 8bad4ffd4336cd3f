"""Which keys and pairs came to file groups and which left them, put aside for the indexes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakedex.filegroup import FileSliceId
from lakedex.format.spill import SpillWriter
from lakedex.index.kinds.secondary.pairs import SecondaryTarget, pair_changes, pair_rows
from lakedex.index.metadata_table.hashing import shard_numbers, shards_of
from lakedex.index.written import KeyNote, note_rows
from lakedex.storage.protocol import Storage
from lakedex.write.context import WriteContext
from lakedex.write.handles.outcome import ChangedRows
from lakedex.write.handles.work import GroupWork, WriteTask

_ROWS_AT_ONCE = 1_000_000


class NoteTaker:
    """Gathers the notes of a task and puts them out by bucket."""

    def __init__(self, task: WriteTask) -> None:
        """Start without notes."""
        self._task = task
        self._parts: list[pa.Table] = []

    def add(self, group: GroupWork, keys: pa.Array, *, is_delete: bool) -> None:
        """Keys that are now in the group, or no longer."""
        if len(keys):
            self._parts.append(note_rows(keys, group.partition, group.file_id, is_delete=is_delete))

    def put_out(self, storage: Storage) -> tuple[KeyNote, ...]:
        """Write the notes, one segment a bucket."""
        if not self._parts:
            return ()
        facts = self._task.facts
        notes = pa.concat_tables(self._parts).combine_chunks()
        shards = shards_of(notes["key"].combine_chunks(), facts.note_shards)
        # Attempts of one task may differ in where they put their notes: only one is listened to.
        prefix = f"{facts.scratch}/notes-{self._task.number}-{uuid.uuid4().hex}"
        writer = SpillWriter(storage, prefix, holds_small=True)
        put = writer.add_by_number(notes, shards % facts.note_buckets)
        writer.finish()
        return tuple(KeyNote(bucket, segment) for bucket, segment in put)


class PairTaker:
    """Gathers what secondary indexes get, and puts it out by bucket whenever it is much."""

    def __init__(self, facts: WriteContext, storage: Storage) -> None:
        """Start without pairs."""
        self._targets = facts.secondary
        self._writer = SpillWriter(
            storage, f"{facts.scratch}/pairs-{uuid.uuid4().hex}", holds_small=True
        )
        self._changed: list[ChangedRows] = []
        self._rows = 0
        self._notes: dict[str, list[KeyNote]] = {each.name: [] for each in self._targets}

    def add(self, changed: ChangedRows) -> None:
        """Rows as they were and as they are, with record key and indexed columns."""
        self._changed.append(changed)
        self._rows += changed.before.num_rows + changed.after.num_rows
        if self._rows >= _ROWS_AT_ONCE:
            self._put_out_all()

    def add_all(self, changed: Iterable[ChangedRows]) -> None:
        """Take in several."""
        for each in changed:
            self.add(each)

    def keep(self, rows: pa.Table, place: FileSliceId) -> None:
        """Rows of a group that stay while other groups may lose their pairs."""
        for target in self._targets:
            self._put_out(target, pair_rows(target, rows, is_delete=False, place=place))

    def add_pairs(self, target: SecondaryTarget, pairs: pa.Table) -> None:
        """Entries of one of the indexes that are of no row (`PAIR_SCHEMA`)."""
        self._put_out(target, pairs)

    def finish(self) -> dict[str, tuple[KeyNote, ...]]:
        """Put out what is left, and answer where the pairs of each index are."""
        self._put_out_all()
        self._writer.finish()
        return {name: tuple(notes) for name, notes in self._notes.items() if notes}

    def _put_out_all(self) -> None:
        parts, self._changed, self._rows = self._changed, [], 0
        if not parts:
            return
        together = _joined(parts)
        for target in self._targets:
            # Entries that name a file group are told group by group: a row that moved is new.
            told = parts if target.covers else [together]
            self._put_out(target, pa.concat_tables([_changes(target, each) for each in told]))

    def _put_out(self, target: SecondaryTarget, changes: pa.Table) -> None:
        if not changes.num_rows:
            return
        pairs = changes.combine_chunks()
        hashes = pairs["hash"].combine_chunks().to_numpy()
        buckets = shard_numbers(hashes, target.shards) % target.buckets
        put = self._writer.add_by_number(pairs, buckets)
        self._notes[target.name] += [KeyNote(bucket, segment) for bucket, segment in put]


def _joined(parts: Sequence[ChangedRows]) -> ChangedRows:
    """All rows at once, so that a pair which one group lost to another stays."""
    before, after = (
        pa.concat_tables([getattr(part, when) for part in parts]) for when in ("before", "after")
    )
    others = [part.others for part in parts if part.others is not None]
    return ChangedRows(before, after, pa.concat_tables(others) if others else None)


def _changes(target: SecondaryTarget, changed: ChangedRows) -> pa.Table:
    return pair_changes(target, changed.before, changed.after, changed.others, changed.place)
