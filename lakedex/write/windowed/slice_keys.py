"""Workers that read the keys of file slices which a windowed record index does not know yet."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice
from lakedex.filegroup.stored_keys import stored_keys
from lakedex.format.spill import SpillWriter
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import NOTE_SCHEMA, KeyNote
from lakedex.write.facts import TableFacts

_TASKS_A_CORE = 4


@dataclass(frozen=True)
class _Task:
    facts: TableFacts
    shards: int
    slices: tuple[FileSlice, ...]


def note_slices(
    engine: Engine, facts: TableFacts, slices: Sequence[FileSlice], shards: int
) -> tuple[KeyNote, ...]:
    """Notes of all keys of the slices, by shard; keys that logs deleted are noted as deletes."""
    count = max(1, min(len(slices), engine.parallelism * _TASKS_A_CORE))
    by_size = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    tasks = [_Task(facts, shards, tuple(by_size[at::count])) for at in range(count)]
    answers = engine.map("read keys for the index", _note_keys, [t for t in tasks if t.slices])
    return tuple(note for answer in answers for note in answer)


def _note_keys(task: _Task) -> list[KeyNote]:
    context = task.facts.read_context()
    writer = SpillWriter(context.storage, f"{task.facts.scratch}/window-{uuid.uuid4().hex}")
    notes: list[KeyNote] = []
    for current in task.slices:
        stored = stored_keys(context, current)
        keys = stored.keys.cast(pa.string())
        shards = shards_of(keys, task.shards)
        for shard in np.unique(shards).tolist():
            chosen = np.flatnonzero(shards == shard)
            columns = [
                keys.take(pa.array(chosen)),
                pa.repeat(pa.scalar(current.partition, pa.string()), len(chosen)),
                pa.repeat(pa.scalar(current.file_id, pa.string()), len(chosen)),
                pa.array(~stored.live[chosen]),
            ]
            table = pa.Table.from_arrays(columns, schema=NOTE_SCHEMA)
            notes.append(KeyNote(shard, writer.add(table)))
    writer.finish()
    return notes
