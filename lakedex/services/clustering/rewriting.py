"""Lays the rows of file slices out again: in new file groups, in an order, as one commit.

    sample -> spread -> write -> commit

Keys get a new place in a record index over the whole table. A key that was inserted in two
partitions is in both, and the index names one place: when only the other one is clustered, the
entry stays as it is.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.written import KeyNote
from lakedex.services.clustering.plan import Regrouping
from lakedex.services.rewrite_commit import commit_rewrite
from lakedex.table import Snapshot
from lakedex.txn.transaction import Transaction
from lakedex.write.assign import arranged_groups, share_out
from lakedex.write.commit import Outcome
from lakedex.write.facts import TableFacts
from lakedex.write.handles.task import write_groups
from lakedex.write.handles.work import TaskResult, WriteTask
from lakedex.write.layout.arranging import Unarranged, arrange
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.parts import Part
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import CLUSTER
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.row_size import stored_rows
from lakedex.write.rows import FILE_ID, KEY
from lakedex.write.table_facts import table_facts
from lakedex.write.tag.plan import global_record_index
from lakedex.write.tag.record_places import RecordIndexAccess, record_places
from lakedex.write.taking import Target
from lakedex.write.target import StoredSchema, WriteSchema

log = logging.getLogger("lakedex")


def rewrite_groups(
    target: Target,
    transaction: Transaction,
    groups: Sequence[Regrouping],
    order: RowOrder,
    *,
    scratch: str,
    clock: StepClock,
) -> WriteResult:
    """Write the rows of groups of slices to new file groups, and commit the clustering.

    Raises:
        CommitConflict: another writer was first; the clustering is rolled back.
    """
    snapshot = transaction.snapshot
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = table_facts(
        target, snapshot, schema, plan, instant=transaction.instant, scratch=scratch, rows=0
    )
    # Values and keys stay as they are, and so do the secondary indexes.
    facts = replace(facts, secondary=())
    with clock.step("layout"):
        arranged = arrange(target.engine, facts, order, _unarranged(snapshot, groups))
        files = arranged_groups(arranged, order)
        shares = share_out(files, facts.instant, target.engine.parallelism)
    with clock.step("write"):
        transaction.start_writing()
        tasks = [
            WriteTask(facts, number, tuple(share)) for number, share in enumerate(shares) if share
        ]
        done: list[TaskResult] = target.engine.map("write the files", write_groups, tasks)
        replaced = tuple(each for group in groups for each in group.slices)
        # Every key stays: the entry of its new place takes that of the old one.
        notes = tuple(note for answer in done for note in answer.notes)
        if plan.has_record_index:
            notes = moved_keys(target.engine, facts, snapshot, replaced, notes)
    outcome = Outcome(
        facts=facts,
        stored=stored.columns,
        schema=schema,
        plan=plan,
        answers=tuple(done),
        notes=notes,
        replaced=replaced,
        kept=target.kept_then,
        kept_before=target.kept,
    )
    return commit_rewrite(target, CLUSTER, transaction, outcome, clock)


def _unarranged(snapshot: Snapshot, groups: Sequence[Regrouping]) -> dict[str, Unarranged]:
    rows, table_bytes = stored_rows(snapshot), snapshot.slices.size_bytes
    found = {}
    for group in groups:
        parts = tuple(Part(group.partition, each) for each in group.slices)
        own = sum(part.size_bytes for part in parts)
        about = rows * own // max(table_bytes, 1)
        found[group.partition] = Unarranged(parts, about, group.files)
    return found


@dataclass(frozen=True)
class _Task:
    facts: TableFacts
    index: RecordIndexAccess
    bucket: int
    segments: tuple[Segment, ...]
    replaced: tuple[str, ...]


def moved_keys(
    engine: Engine,
    facts: TableFacts,
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
    places = record_places(storage, task.index, pa.table({KEY: keys}))
    stays = pc.invert(pc.is_in(places[FILE_ID], value_set=pa.array(task.replaced, pa.string())))
    elsewhere = places[KEY].filter(stays).combine_chunks()
    writer = SpillWriter(storage, f"{task.facts.scratch}/moved-{uuid.uuid4().hex}")
    kept = notes.filter(pc.invert(pc.is_in(keys, value_set=elsewhere)))
    note = KeyNote(task.bucket, writer.add(kept))
    writer.finish()
    return note
