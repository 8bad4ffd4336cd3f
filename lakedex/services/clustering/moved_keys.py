"""Which keys of a clustering get a new place in a record index over the whole table.

A key that was inserted in two partitions stands in both, and the index names one place. When only
the other one is clustered, the entry must stay as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.written import KeyNote
from lakedex.table import Snapshot
from lakedex.write.context import WriteContext
from lakedex.write.rows import FILE_ID, KEY
from lakedex.write.tag.index_lookup import RecordIndexAccess, record_locations
from lakedex.write.tag.plan import global_record_index


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    index: RecordIndexAccess
    bucket: int
    segments: tuple[Segment, ...]
    replaced: tuple[str, ...]


def moved_keys(
    engine: Engine,
    facts: WriteContext,
    snapshot: Snapshot,
    replaced: Sequence[FileSlice],
    notes: Sequence[KeyNote],
) -> tuple[KeyNote, ...]:
    """The notes without those of keys whose place is in a file group that stays."""
    index = global_record_index(snapshot)
    if index is None or len(replaced) == len(snapshot.slices):
        return tuple(notes)
    ids = tuple(each.file_id for each in replaced)
    by_bucket: dict[int, list[Segment]] = {}
    for note in notes:
        by_bucket.setdefault(note.bucket, []).append(note.segment)
    tasks = [
        _Task(facts, index, bucket, tuple(segments), ids) for bucket, segments in by_bucket.items()
    ]
    answers = engine.map("look for the keys' places", _moved, tasks)
    return tuple(note for note in answers if note is not None)


def _moved(task: _Task) -> KeyNote | None:
    storage = task.facts.address.open()
    notes = read_segments(storage, task.segments)
    if notes is None:
        return None
    keys = notes["key"].combine_chunks()
    places = record_locations(storage, task.index, pa.table({KEY: keys}))
    stays = pc.invert(pc.is_in(places[FILE_ID], value_set=pa.array(task.replaced, pa.string())))
    elsewhere = places[KEY].filter(stays).combine_chunks()
    writer = SpillWriter(storage, f"{task.facts.scratch}/moved-{uuid.uuid4().hex}")
    kept = notes.filter(pc.invert(pc.is_in(keys, value_set=elsewhere)))
    note = KeyNote(task.bucket, writer.add(kept))
    writer.finish()
    return note
