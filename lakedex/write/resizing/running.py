"""Rewrites buckets into those that take their place, as one commit.

    spread by the hash -> write -> commit with the new ring

Every row goes to the bucket that owns its hash. The new buckets are base files at the instant of
the plan, so that log files which writers gave to them meanwhile lie on top of them. What these
have is left out of the base files: as of a commit between the plan and its run a reader must not
find what was written after it. Readers see the old buckets until the commit, and the new ones then.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakedex.errors import CommitConflict, CorruptFile, IndexUnusable, InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId, read_slice
from lakedex.filegroup.log_changes import read_log
from lakedex.format.logfile import BlockKind
from lakedex.index.commit_changes import KeyNote, note_rows
from lakedex.index.kinds.bucket.engine import PartitionBuckets
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.hashing_metadata import HashingMetadata
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.schema.field_paths import flat
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import Timeline, load_table_config
from lakedex.txn.conflicts import CopiedGroups, is_copy_for
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.assign import Group, add_segment, share_out
from lakedex.write.commit import CommittedBuckets, Outcome
from lakedex.write.context import WriteContext
from lakedex.write.handles.task import spill_notes, write_groups
from lakedex.write.handles.work import TaskResult, WriteTask
from lakedex.write.layout.arranging import Part, spread
from lakedex.write.layout.order import Ints, RowOrder
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.resizing.planning import BucketResize, RingTable
from lakedex.write.result import StepClock
from lakedex.write.rows import KEY
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import Target, write_context

_RUNS: Final = 1 << 30


def new_rings(
    snapshot: Snapshot, table: RingTable, resizes: Sequence[BucketResize], instant: str
) -> dict[str, HashRing]:
    """The rings of partitions once some changes are done, of a plan of any engine.

    Raises:
        CommitConflict: a ring is no longer the one that the plan was made for.
        InvalidInput: the changes do not go with the ring.
    """
    found = {}
    by_partition: dict[str, list[BucketResize]] = defaultdict(list)
    for each in resizes:
        by_partition[each.partition].append(each)
    for partition, own in by_partition.items():
        slices = [each for each in snapshot.slices if each.partition == partition]
        now = table.engine.buckets(partition, slices).ring
        if any(each.sequence != now.sequence for each in own):
            raise CommitConflict(
                f"the buckets of partition {partition!r} were changed since {instant} was planned: "
                "roll that plan back"
            )
        ring = now.resized([node for each in own for node in each.children], instant)
        _check_moves(now, ring, {each.file_id for each in slices}, own)
        found[partition] = ring
    return found


def _check_moves(
    now: HashRing, then: HashRing, present: set[str], resizes: Sequence[BucketResize]
) -> None:
    """Refuse a plan whose new buckets take something of buckets that it does not name.

    Raises:
        InvalidInput: naming the buckets.
    """
    before, after = now.ranges_by_group(), then.ranges_by_group()
    changed = {file_id for file_id, owned in before.items() if after.get(file_id) != owned}
    planned = {slice_.file_id for each in resizes for slice_ in each.slices}
    if changed & present != planned or changed & after.keys():
        raise InvalidInput(
            f"the plan {then.instant} replaces the buckets {sorted(planned)} of partition "
            f"{now.partition!r}, and its new buckets take the ranges of {sorted(changed)}: roll "
            "that plan back"
        )


def write_resizes(
    target: Target,
    transaction: Transaction,
    table: RingTable,
    resizes: Sequence[BucketResize],
    order: RowOrder | None,
    *,
    scratch: str,
    clock: StepClock,
) -> Outcome:
    """Write the new buckets; the caller commits.

    Raises:
        CommitConflict: a ring is no longer the one that the plan was made for.
        IndexUnusable: a row is in a bucket that its hash does not belong to.
    """
    rings = new_rings(transaction.snapshot, table, resizes, transaction.instant)
    outputs: dict[str, set[str]] = defaultdict(set)
    for each in resizes:
        outputs[each.partition].update(node.file_id for node in each.outputs)
    replaced = tuple(each for resize in resizes for each in resize.slices)
    taken = {
        each.id: frozenset(node.file_id for node in resize.outputs)
        for resize in resizes
        for each in resize.slices
    }
    committed = ResizedBuckets(tuple(rings.values()), replaced, transaction.instant, taken)
    moves = BucketMoves(
        tuple(
            _without_copied(transaction.snapshot, each, resize, committed.copies)
            for resize in resizes
            for each in resize.slices
        ),
        {partition: table.engine.of_ring(ring) for partition, ring in rings.items()},
        table.options.fields,
        {partition: frozenset(file_ids) for partition, file_ids in outputs.items()},
        order,
    )
    _check_left_out(target, replaced, moves.slices)
    outcome = write_moves(target, transaction, moves, committed, scratch=scratch, clock=clock)
    has_keys = outcome.plan.has_record_index or any(b.has_keys for b in outcome.plan.building)
    if has_keys or target.options.window is not None:
        # Entries of keys that come meanwhile would name file groups that are gone: then the resize
        # loses against such a write, and is run again.
        notes = outcome.notes
        if moves.slices != replaced:
            notes = _note_keys_now(target, outcome.facts, replace(moves, slices=replaced))
        outcome = replace(outcome, buckets=replace(committed, taken={}), notes=notes)
    return outcome


def _without_copied(
    snapshot: Snapshot, current: FileSlice, resize: BucketResize, copies: CopiedGroups
) -> FileSlice:
    """A file slice as it was planned, if the new buckets have all that was written to it since.

    Writers of other engines may have added to it without that.
    """
    later = [log for log in current.logs if log.name not in resize.planned_logs]
    listed = {name for name, _ in snapshot.listing.files.get(current.partition, ())}
    for time in {log.instant_time for log in later}:
        instant = snapshot.timeline.find(time)
        if instant is None:
            return current
        metadata = snapshot.timeline.commit_metadata(instant)
        copied = {
            name
            for stat in metadata.partition_to_stats.get(current.partition, ())
            if is_copy_for(stat, copies.resize)
            for name in stat.log_files or ()
        }
        if current.id not in copies.joined(metadata) or not copied <= listed:
            return current
    return replace(current, logs=tuple(log for log in current.logs if log not in later))


@dataclass(frozen=True)
class _LogsTask:
    address: StorageAddress
    logs: tuple[tuple[str, int], ...]


def _check_left_out(
    target: Target, replaced: Sequence[FileSlice], read: Sequence[FileSlice]
) -> None:
    """See that log files which are left out are whole, and those that virtual ones name.

    Raises:
        CorruptFile: one of them is damaged.
        FileMissing: one of them is not there.
    """
    logs = tuple(
        (current.path_of(log.name), log.size_bytes)
        for current, planned in zip(replaced, read, strict=True)
        for log in set(current.logs).difference(planned.logs)
    )
    count = min(len(logs), target.engine.parallelism)
    tasks = [_LogsTask(target.address, logs[at::count]) for at in range(count)]
    target.engine.map("check log files", _check_logs, tasks)


def _check_logs(task: _LogsTask) -> None:
    storage = task.address.open()
    for path, size in task.logs:
        for block in read_log(storage, path, size):
            if block.kind is BlockKind.CORRUPT:
                raise CorruptFile(path, block.offset, expected="whole blocks", actual="a torn one")


@dataclass(frozen=True)
class _KeysTask:
    facts: WriteContext
    slices: tuple[FileSlice, ...]
    children: Mapping[str, _Children]


def _note_keys_now(target: Target, facts: WriteContext, moves: BucketMoves) -> tuple[KeyNote, ...]:
    """The keys of some file slices with the buckets that they go to, for indexes of keys."""
    children = _numberings(moves)
    count = max(1, min(len(moves.slices), target.engine.parallelism))
    tasks = [_KeysTask(facts, moves.slices[at::count], children) for at in range(count)]
    answers = target.engine.map("note the keys of the buckets", _noted_keys, tasks)
    return tuple(note for answer in answers for note in answer)


def _noted_keys(task: _KeysTask) -> tuple[KeyNote, ...]:
    facts, context = task.facts, task.facts.read_context()
    parts = []
    for each in task.slices:
        children = task.children[each.partition]
        for rows in read_slice(context, each, [KEY]):
            numbers = children.numbers(rows)
            for number in np.unique(numbers).tolist():
                keys = flat(rows[KEY]).filter(pa.array(numbers == number))
                file_id = children.buckets.file_id(number)
                parts.append(note_rows(keys, each.partition, file_id, is_delete=False))
    return spill_notes(facts, context.storage, parts, "resized")


@dataclass(frozen=True)
class BucketMoves:
    """Rows that go to other buckets."""

    slices: tuple[FileSlice, ...]
    """Where they are now."""
    buckets: Mapping[str, PartitionBuckets]
    """The buckets of each partition afterwards."""
    fields: tuple[str, ...]
    """The hash fields."""
    outputs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The file groups that may get rows, by partition; all where it is not named."""
    order: RowOrder | None = None
    """The order of the rows of each bucket."""


def write_moves(
    target: Target,
    transaction: Transaction,
    moves: BucketMoves,
    buckets: CommittedBuckets,
    *,
    scratch: str,
    clock: StepClock,
) -> Outcome:
    """Write rows to their new buckets, as base files; the caller commits.

    Raises:
        IndexUnusable: a row is in a bucket that its hash does not belong to.
    """
    snapshot = transaction.snapshot
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = write_context(
        target, snapshot, schema, plan, instant=transaction.instant, scratch=scratch, rows=0
    )
    # Values and keys stay as they are, and so do the secondary indexes.
    facts = facts.without_row_indexes()
    with clock.step("layout"):
        groups = _groups(target, facts, moves)
    # A task of a run that died may still be at work: its files must not be taken for ours.
    shares = share_out(
        groups, facts.instant, target.engine.parallelism, run=secrets.randbelow(_RUNS)
    )
    with clock.step("write"):
        transaction.start_writing()
        tasks = [
            WriteTask(facts, number, tuple(share)) for number, share in enumerate(shares) if share
        ]
        done: list[TaskResult] = target.engine.map("write the files", write_groups, tasks)
    return Outcome(
        facts=facts,
        stored=stored.columns,
        schema=schema,
        plan=plan,
        answers=tuple(done),
        # Every key stays: the entry of its new place takes that of the old one.
        notes=tuple(note for answer in done for note in answer.notes),
        replaced=moves.slices,
        kept=target.kept_then,
        kept_before=target.kept,
        buckets=buckets,
    )


def _groups(target: Target, facts: WriteContext, moves: BucketMoves) -> list[Group]:
    """The new file groups with their rows."""
    numberings = _numberings(moves)
    rows = spread(
        target.engine,
        facts,
        moves.order or RowOrder((KEY,)),
        [Part(each.partition, each) for each in moves.slices],
        numberings,
        "spread the rows to the buckets",
    )
    groups: dict[tuple[str, int], Group] = {}
    for part in rows:
        place = (part.partition, part.number)
        if place not in groups:
            file_id = moves.buckets[part.partition].file_id(part.number)
            groups[place] = Group(part.partition, file_id, None, is_log=False, order=moves.order)
        add_segment(groups[place], part.segment, 0, part.segment.rows)
    return list(groups.values())


def _numberings(moves: BucketMoves) -> dict[str, _Children]:
    return {
        partition: _Children(partition, buckets, moves.fields, moves.outputs.get(partition))
        for partition, buckets in moves.buckets.items()
    }


@dataclass(frozen=True)
class ResizedBuckets:
    """The buckets of a resize, as its commit needs them."""

    rings: tuple[HashRing, ...]
    """Those that the resize makes."""
    replaced: tuple[FileSlice, ...]
    instant: str
    taken: Mapping[FileSliceId, frozenset[str]]
    """The file groups that are replaced, with the file ids of those that take their rows."""

    @property
    def copies(self) -> CopiedGroups:
        """Writes beside the resize may change its file groups, if they change the new ones too."""
        return CopiedGroups(resize=self.instant, taken=self.taken)

    def prepare_commit(self, scope: CommitScope, touched: Iterable[FileSliceId]) -> None:
        """See that the rings are what they were, and store the new ones.

        Raises:
            CommitConflict: another writer has changed a ring, or made a file group for a bucket
                that goes away.
        """
        metadata = HashingMetadata(scope.storage, scope.timeline)
        gone = {each.id for each in self.replaced}
        for ring in self.rings:
            now = metadata.load(ring.partition)
            left = [
                each
                for each in scope.snapshot.slices
                if each.partition == ring.partition and each.id not in gone
            ]
            known = {node.file_id for node in ring.nodes}
            is_next = now is not None and now.sequence + 1 == ring.sequence
            if not is_next or any(each.file_id not in known for each in left):
                raise CommitConflict(
                    f"another writer changed the buckets of partition {ring.partition!r} meanwhile"
                )
        for ring in self.rings:
            metadata.store(ring)

    def mark_rings(self, storage: Storage) -> None:
        """Mark the new rings; whoever loads them can do it later."""
        metadata = HashingMetadata(storage, Timeline.load(storage, load_table_config(storage)))
        for ring in self.rings:
            metadata.mark(ring.partition)


@dataclass(frozen=True)
class _Children:
    """Which of the new buckets a row goes to; a worker numbers rows with it."""

    partition: str
    buckets: PartitionBuckets
    fields: tuple[str, ...]
    outputs: frozenset[str] | None
    """The file groups that may get rows; None for all."""

    def numbers(self, rows: pa.Table) -> Ints:
        """The numbers of the new buckets.

        Raises:
            IndexUnusable: a row belongs to a bucket that stays.
        """
        keys = rows[KEY].combine_chunks()
        numbers = self.buckets.numbers(self.buckets.hashes(hash_keys(keys, self.fields)))
        outputs = self.outputs
        for number in () if outputs is None else np.unique(numbers).tolist():
            if outputs is not None and self.buckets.file_id(number) not in outputs:
                key = keys[int(np.flatnonzero(numbers == number)[0])].as_py()
                raise IndexUnusable(
                    f"the record {key!r} of partition {self.partition!r} is in a bucket that its "
                    "hash does not belong to; `lakedex verify` names all of them"
                )
        return numbers


def slices_of_plan(
    snapshot: Snapshot, wanted: Sequence[tuple[str, str]], instant: str
) -> list[FileSlice]:
    """The file slices of the groups that a plan names, as they are now.

    Raises:
        CommitConflict: one of them is no longer there.
    """
    slices = {(each.partition, each.file_id): each for each in snapshot.slices}
    missing = [each for each in wanted if each not in slices]
    if missing:
        raise CommitConflict(
            f"the file group {missing[0][1]} was replaced since {instant} was planned: roll that "
            "plan back"
        )
    return [slices[each] for each in wanted]
