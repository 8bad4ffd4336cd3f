"""Two writers that meet at a key although their file groups differ, so that keys are compared.

Both may insert one new key: Hudi compares file groups only and would keep both rows. Or one makes
the record index forget a key that the other, without looking, has just inserted elsewhere: the new
row's entry would go. So a writer that finds commits completed since it began looks for its keys in
the file groups that those commits wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.errors import CommitConflict
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.filegroup.reading import read_slice
from lakedex.format.spill import Segment, read_segments
from lakedex.index.commit_changes import KeyNote
from lakedex.timeline import CommitMetadata
from lakedex.write.context import WriteContext
from lakedex.write.rows import KEY, PARTITION

_SLICES_A_TASK = 16


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    slices: tuple[FileSlice, ...]
    notes: tuple[Segment, ...]
    forgotten: bool
    is_global: bool


def check_inserted_keys(
    engine: Engine,
    facts: WriteContext,
    notes: Sequence[KeyNote],
    concurrent: Sequence[CommitMetadata],
    slices: Sequence[FileSlice],
    *,
    forgotten: bool,
    is_global: bool,
) -> None:
    """Refuse to commit when a key that matters here was added by a commit since the start.

    Args:
        engine: Where the keys are compared.
        facts: The table, with the other commits among its committed instants.
        notes: The keys that this write adds and removes.
        concurrent: The commits that completed since this write began.
        slices: The newest file slices of the table.
        forgotten: Whether the keys that it removes are compared, not those that it adds.
        is_global: Whether a key is unique in the table, not only in its partition.

    Raises:
        CommitConflict: a key would stand twice, or would lose its entry.
    """
    if all(metadata.is_clustering for metadata in concurrent):
        return  # no key came; beside another commit, its keys may be in the clustering's files now
    places = {
        FileSliceId(stat.partition_path or "", stat.file_id or "")
        for metadata in concurrent
        for stat in metadata.stats()
        if stat.num_inserts or stat.prev_commit in (None, "null")
    }
    wanted = [current for current in slices if current.id in places]
    segments = tuple(note.segment for note in notes)
    if not wanted or not segments:
        return
    tasks = [
        _Task(facts, tuple(wanted[start : start + _SLICES_A_TASK]), segments, forgotten, is_global)
        for start in range(0, len(wanted), _SLICES_A_TASK)
    ]
    for key in engine.map("compare inserted keys", _shared_key, tasks):
        if key is not None:
            raise CommitConflict(
                f"another writer inserted the key {key!r} since this write began; "
                "nothing was changed, write again"
            )


def _shared_key(task: _Task) -> str | None:
    """A key of this write that the others added, if there is one."""
    context = task.facts.read_context()
    tables = [
        rows for current in task.slices for rows in read_slice(context, current, [KEY, PARTITION])
    ]
    if not tables:
        return None
    theirs = _names(pa.concat_tables(tables), KEY, PARTITION, is_global=task.is_global)
    for segment in task.notes:
        notes = read_segments(context.storage, [segment])
        if notes is None:
            continue
        own = notes.filter(pc.equal(notes["is_delete"], pa.scalar(task.forgotten)))
        mine = _names(own, "key", "partition", is_global=task.is_global)
        shared = pc.is_in(mine, value_set=theirs)
        if pc.any(shared).as_py():
            return str(own["key"].filter(shared)[0].as_py())
    return None


def _names(rows: pa.Table, key: str, partition: str, *, is_global: bool) -> pa.ChunkedArray:
    """What must be unique: the key, or the partition and the key."""
    if is_global:
        return rows[key]
    return pc.binary_join_element_wise(rows[partition], rows[key], "\x00")
