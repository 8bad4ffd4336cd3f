"""Workers that write the files of a run: one shard of the keys each.

A run is made of notes about keys, in the order of their sources, and when the index is compacted of
all older runs before them. Of several entries of a key in one group the last counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.spill import Segment, read_segments
from lakedex.index.kinds.windowed.lookup import (
    DEAD,
    GONE,
    LIVE,
    Ints,
    encode_entries,
    entries_in,
    open_run,
    read_groups,
)
from lakedex.index.kinds.windowed.state import FOLDER, Run, RunFile
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import KeyNote
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage

_ENTRIES_A_SHARD = 500_000
_MOST_SHARDS = 64
_ENTRY = pa.schema(
    [
        pa.field("key", pa.large_binary()),
        pa.field("number", pa.int64()),
        pa.field("order", pa.int64()),
        pa.field("state", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class NoteSource:
    """Notes about keys (`NOTE_SCHEMA`), spilled by bucket: a key's shard modulo `buckets`."""

    notes: tuple[KeyNote, ...]
    shards: int
    buckets: int

    def segments(self, shard: int, shards: int) -> list[Segment]:
        """The segments that may hold keys of a shard."""
        fits = self.shards == self.buckets == shards
        return [note.segment for note in self.notes if not fits or note.bucket == shard]


@dataclass(frozen=True)
class RunJob:
    """What all tasks of one run know."""

    address: StorageAddress
    folder: str
    """Where the files go, relative to the folder of the index."""
    sequence: int
    shards: int
    groups: Segment
    """The groups that are covered after the commit (`GROUPS`); others are left out."""
    older: tuple[Run, ...]
    """The runs that are taken into this one, oldest first."""
    sources: tuple[NoteSource, ...]
    """Notes, the later ones behind the earlier."""
    forget_from: int
    """Groups of at least this number have no older entries that a GONE would have to hide."""


def shards_for(entries: int) -> int:
    """How many shards so many entries make: a power of two, so that shards of runs fit together.

    Example:
        >>> shards_for(0), shards_for(500_001), shards_for(10**12)
        (1, 2, 64)
    """
    wanted = -(-entries // _ENTRIES_A_SHARD)
    return min(_MOST_SHARDS, 1 << max(0, wanted - 1).bit_length())


def write_shard(job: RunJob, shard: int) -> RunFile | None:
    """Write one shard; None where it has no entries."""
    storage = job.address.open()
    groups = read_groups(storage, job.groups)
    if not groups.num_rows:
        return None
    parts = [*_older(storage, job, shard, groups), *_noted(storage, job, shard, groups)]
    entries = pa.concat_tables([_ENTRY.empty_table(), *parts])
    entries = _last_of_each(job, entries)
    if not entries.num_rows:
        return None
    data = encode_entries(
        entries["key"].combine_chunks(),
        entries["number"].to_numpy(),
        entries["state"].to_numpy(),
    )
    # Attempts of one task may write at the same time: only one of them is named by the state.
    path = f"{job.folder}/run-{shard}-{uuid.uuid4().hex}.hfile"
    storage.create(f"{FOLDER}/{path}", data)
    return RunFile(path, len(data), entries.num_rows)


def _older(storage: Storage, job: RunJob, shard: int, groups: pa.Table) -> Iterator[pa.Table]:
    """What older runs say of groups that are still covered."""
    based = groups["based"].to_numpy()
    for order, run in enumerate(job.older):
        fits = len(run.files) == job.shards
        for file in run.files[shard : shard + 1] if fits else run.files:
            if file is None:
                continue
            for cells in open_run(storage, file).scan_batches():
                rows, numbers, states = entries_in(file, cells)
                at = _rows_of(groups, pa.array(numbers))
                # Not left out: it hides an older entry that says that the record is there.
                void = (states == DEAD) & (run.sequence < based[np.maximum(at, 0)])
                states = np.where(void, GONE, states)
                kept = np.flatnonzero(at >= 0)
                keys = cells.keys.cast(pa.string()).take(pa.array(rows[kept]))
                found = _entries(keys, numbers[kept], states[kept], order)
                yield found if fits else _of_shard(found, keys, job.shards, shard)


def _noted(storage: Storage, job: RunJob, shard: int, groups: pa.Table) -> Iterator[pa.Table]:
    names = _names(groups["partition"], groups["file_id"])
    based = groups["based"].to_numpy()
    for order, source in enumerate(job.sources, len(job.older)):
        for segment in source.segments(shard, job.shards):
            notes = read_segments(storage, [segment])
            if notes is None or not notes.num_rows:
                continue
            at = _positions(pc.index_in(_names(notes["partition"], notes["file_id"]), names))
            kept = np.flatnonzero(at >= 0)
            notes, at = notes.take(pa.array(kept)), at[kept]
            deleted = notes["is_delete"].to_numpy().astype(np.bool_)
            rewritten = based[at] == job.sequence
            states = np.where(deleted, np.where(rewritten, GONE, DEAD), LIVE)
            keys = notes["key"].combine_chunks()
            numbers = groups["number"].to_numpy()[at]
            found = _entries(keys, numbers, states, order)
            yield _of_shard(found, keys, job.shards, shard)


def _last_of_each(job: RunJob, entries: pa.Table) -> pa.Table:
    """The last entry of each key and group, in the order of the keys."""
    by = [("key", "ascending"), ("number", "ascending"), ("order", "ascending")]
    # Notes of one source come in no order; where they disagree the record is there.
    by.append(("state", "descending"))
    entries = entries.take(pc.sort_indices(entries, sort_keys=by)).combine_chunks()
    keys, numbers = entries["key"].combine_chunks(), entries["number"].to_numpy()
    is_last = np.ones(len(numbers), dtype=np.bool_)
    same_key = pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    is_last[:-1] = ~(same_key & (numbers[1:] == numbers[:-1]))
    forgotten = (entries["state"].to_numpy() == GONE) & (numbers >= job.forget_from)
    return entries.filter(pa.array(is_last & ~forgotten))


def _entries(keys: pa.Array, numbers: Ints, states: Ints, order: int) -> pa.Table:
    return pa.table(
        [
            keys.cast(pa.large_binary()),
            pa.array(numbers, pa.int64()),
            pa.array(np.full(len(keys), order, dtype=np.int64)),
            pa.array(states, pa.int64()),
        ],
        schema=_ENTRY,
    )


def _of_shard(entries: pa.Table, keys: pa.Array, shards: int, shard: int) -> pa.Table:
    if shards == 1:
        return entries
    return entries.filter(pa.array(shards_of(keys, shards) == shard))


def _rows_of(groups: pa.Table, numbers: pa.Array) -> Ints:
    return _positions(pc.index_in(numbers, value_set=groups["number"].combine_chunks()))


def _names(partitions: pa.ChunkedArray, file_ids: pa.ChunkedArray) -> pa.Array:
    joined: pa.ChunkedArray = pc.binary_join_element_wise(partitions, file_ids, "/")
    return joined.combine_chunks()


def _positions(found: pa.Array) -> Ints:
    """Positions as numpy has them; null is -1."""
    numbers: Ints = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def note_rows(sources: Sequence[NoteSource]) -> int:
    """How many notes there are."""
    return sum(note.segment.rows for source in sources for note in source.notes)
