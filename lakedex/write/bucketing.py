"""The buckets of a write: its file groups, and what becomes of them when it commits.

A hash of the record key names the file group of every row, so no file is read to find a key. The
file group takes the rows as changes: a base file is merged with them, of a log file readers do
that. Two things that a log file cannot say need the keys of a file group all the same:

* a row comes back whose key an earlier log deleted. By its ordering value the row of the base file
  may win against it, so that the file group is written anew with it. Only file groups whose logs
  delete something are searched for keys, and only those that the write has rows for;
* indexes of keys must know which keys are new or gone. With a record index the file groups that the
  write has rows for are searched.

A write that takes file groups away gives each bucket a file group with another file id, and stores
the rings that name these before it completes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from lakedex.config import TableType
from lakedex.config.bucket_options import BucketOptions, ResizeWrites
from lakedex.config.write_option_names import BUCKET_RESIZE_WRITES, UPDATES_STRATEGY
from lakedex.config.write_options import InsertDuplicates
from lakedex.engine import Engine
from lakedex.errors import CommitConflict, InvalidInput, ServicePends
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.format.spill import Segment
from lakedex.index.kinds.bucket.engine import (
    BucketEngine,
    PartitionBuckets,
    RingBuckets,
    SimpleBuckets,
    bucket_engine,
)
from lakedex.index.kinds.bucket.hashing_metadata import HashingMetadata
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.timeline import Timeline, load_table_config
from lakedex.txn.conflicts import CopiedGroups
from lakedex.txn.transaction import CommitScope
from lakedex.write.assign_stage import Attempt, groups_with_deletes
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import NewBuckets
from lakedex.write.metadata_plan import MetadataPlan
from lakedex.write.operation import Replaces
from lakedex.write.resizing.copying import copy_parts
from lakedex.write.resizing.pending import PendingRing, leaving_buckets, pending_ring
from lakedex.write.tag.bucket_index import BucketGroups, BucketPlan
from lakedex.write.tag.lookup import find_matches, lookup_tasks
from lakedex.write.tag_stage import TagAnswer

_Slices = Mapping[str, Sequence[FileSlice]]


@dataclass(frozen=True)
class WriteBuckets:
    """The buckets of one write."""

    options: BucketOptions
    partitions: Mapping[str, BucketGroups]
    """Those that the rows have, with the slices as the write found them."""
    replaced: Mapping[str, PartitionBuckets] = field(default_factory=dict)
    """The buckets of the partitions that the write takes file groups away from."""
    reads_keys: bool = False
    """Whether the keys of every file group are looked for that is there."""
    resizes: Mapping[str, PendingRing] = field(default_factory=dict)
    """By partition the pending resizes to whose new buckets rows are written, too."""
    writes_virtual: bool = False
    """Whether the present buckets then get virtual log files, and only the new ones the rows."""

    @cached_property
    def copies(self) -> CopiedGroups:
        """The file groups under resize whose rows are written to the new buckets, too."""
        written = {
            FileSliceId(partition, file_id): pending.instant
            for partition, pending in self.resizes.items()
            for file_id in pending.leaving & self.partitions[partition].present
        }
        return CopiedGroups(written)

    @cached_property
    def new_buckets(self) -> Mapping[FileSliceId, NewBuckets]:
        """The file groups under resize that get virtual log files, with the buckets to come."""
        if not self.writes_virtual:
            return {}
        by_partition = {
            partition: NewBuckets(
                pending.instant,
                RingBuckets(pending.ring).for_workers,
                self.options.fields,
                {file_id: version + 1 for file_id, version in pending.versions.items()},
            )
            for partition, pending in self.resizes.items()
        }
        return {each: by_partition[each.partition] for each in self.copies.written}

    @cached_property
    def rings(self) -> tuple[HashRing, ...]:
        """The rings that the write makes."""
        return tuple(each.ring for each in self.replaced.values() if isinstance(each, RingBuckets))

    def prepare_commit(self, scope: CommitScope, touched: Iterable[FileSliceId]) -> None:
        """See that the buckets are what they were, and store the rings that the write makes.

        Two writers of one file group exclude each other anyway; here it is about a bucket that had
        none, and got another one since, or that was split or merged, or is about to be.

        Raises:
            CommitConflict: a bucket has another file group now.
        """
        written = _by_name(touched)
        self._check_resizes(scope, written)
        if scope.concurrent:
            self._check(scope, written)
        metadata = HashingMetadata(scope.storage, scope.timeline)
        for ring in self.rings:
            metadata.store(ring)

    def mark_rings(self, storage: Storage) -> None:
        """Mark the rings that the write has made; whoever loads them can do it later."""
        if not self.rings:
            return
        metadata = HashingMetadata(storage, Timeline.load(storage, load_table_config(storage)))
        for ring in self.rings:
            metadata.mark(ring.partition)

    def _check_resizes(self, scope: CommitScope, written: Mapping[str, set[str]]) -> None:
        """Refuse rows for a bucket that a pending resize takes away.

        What is in a file group of its plan is refused before, as with any clustering; here it is
        about a bucket that had no file group.
        """
        for partition, file_ids in written.items():
            if partition in self.replaced or partition not in self.partitions:
                continue
            mine = self.partitions[partition].buckets
            if isinstance(mine, RingBuckets):
                leaving = leaving_buckets(scope.timeline, mine.ring)
                copied = self.copies.written
                lost = {
                    each
                    for each in file_ids
                    if leaving.get(each) != copied.get(FileSliceId(partition, each))
                }
                if lost and not lost & leaving.keys():
                    raise _changed(partition, min(lost))
                if lost:
                    raise CommitConflict(
                        f"{leaving[min(lost)]} splits or merges the bucket {min(lost)} of "
                        f"partition {partition!r}; write again when that is done"
                    )

    def _check(self, scope: CommitScope, written: Mapping[str, set[str]]) -> None:
        engine = bucket_engine(self.options, scope.storage, scope.timeline)
        slices = _by_partition(scope.snapshot, {*written, *self.replaced})
        for partition, file_ids in written.items():
            own = slices.get(partition, [])
            if partition in self.replaced:
                left = [each for each in own if each.file_id not in file_ids]
                if left:
                    raise _changed(partition, left[0].file_id)
                continue
            others = engine.buckets(partition, own)
            mine = self.partitions[partition].buckets
            unknown = file_ids.difference(_file_ids(others))
            if unknown:
                raise _changed(partition, min(unknown))
            if isinstance(mine, SimpleBuckets) and mine.count != others.count:
                raise _changed(partition, min(file_ids))
            if isinstance(mine, RingBuckets) and isinstance(others, RingBuckets):
                before, now = mine.ring.ranges_by_group(), others.ring.ranges_by_group()
                moved = [each for each in file_ids if before.get(each) != now.get(each)]
                if moved:
                    raise _changed(partition, min(moved))


def plan_buckets(
    write: Attempt, facts: WriteContext, plan: MetadataPlan, replaced: Sequence[FileSlice]
) -> WriteBuckets | None:
    """The buckets of the rows of a write; None in a table without a bucket index.

    Makes the hashing metadata of partitions that have none.

    Raises:
        CorruptFile: hashing metadata cannot be read.
        IndexUnusable: the file groups of a partition are not those of its buckets.
    """
    options = write.target.options.buckets
    if options is None:
        return None
    snapshot, instant = write.transaction.snapshot, write.transaction.instant
    engine = bucket_engine(options, snapshot.storage, snapshot.timeline)
    named = {*write.taken.partitions, *(each.partition for each in replaced)}
    slices = _by_partition(snapshot, named)
    if write.operation.replaces is not Replaces.NOTHING:
        made = {
            each: engine.replaced(each, slices.get(each, []), instant) for each in sorted(named)
        }
        groups = {each: _groups(made[each], [], ()) for each in write.taken.partitions}
        return WriteBuckets(options, groups, made)
    reads_keys = _reads_keys(write, plan)
    searched = _searched(write, facts, reads_keys=reads_keys)
    groups = {}
    for partition in write.taken.partitions:
        own = slices.get(partition, [])
        groups[partition] = _groups(
            _buckets(engine, partition, own, is_delete=write.operation.is_delete), own, searched
        )
    return WriteBuckets(
        options,
        groups,
        reads_keys=reads_keys,
        resizes=_pending_rings(write, groups),
        writes_virtual=write.target.options.resizing.writes is ResizeWrites.VIRTUAL,
    )


def _pending_rings(write: Attempt, groups: Mapping[str, BucketGroups]) -> dict[str, PendingRing]:
    """The pending resizes to whose new buckets rows are to be written, by partition."""
    config = write.target.snapshot.config
    writes = write.target.options.resizing.writes
    if writes is ResizeWrites.REFUSE:
        return {}
    if config.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            f"{BUCKET_RESIZE_WRITES.name}={writes.value} (or {UPDATES_STRATEGY.name}) writes log "
            f"files to new buckets, and table {config.name} is copy-on-write, which has none: "
            "leave the option out"
        )
    found = {}
    for partition, own in groups.items():
        if isinstance(own.buckets, RingBuckets):
            pending = pending_ring(write.transaction.snapshot, own.buckets.ring)
            if pending is not None:
                found[partition] = pending
    return found


def copied_parts(
    engine: Engine, facts: WriteContext, buckets: WriteBuckets, answers: Sequence[TagAnswer]
) -> list[TagAnswer]:
    """The rows of file groups under resize once more, for the buckets of the resize.

    With virtual log files there is no second copy.

    Raises:
        ServicePends: a log file cannot take the rows.
    """
    copied = buckets.copies.written
    if not copied:
        return []
    parts = [
        part
        for answer in answers
        for part in answer.parts
        if FileSliceId(part.partition, part.file_id or "") in copied
    ]
    for part in parts:
        if part.needs_base:
            raise ServicePends(
                f"file group {part.file_id} of partition {part.partition!r} gets a row again that "
                "was deleted from it, and is being resized; write again when that is done"
            )
    if buckets.writes_virtual:
        return []
    found = copy_parts(engine, facts, buckets.options.fields, parts, buckets.resizes)
    return [TagAnswer(tuple(found), 0, 0)] if found else []


def plan_tagging_by_bucket(
    write: Attempt, facts: WriteContext, buckets: WriteBuckets
) -> BucketPlan:
    """What workers need to know; keys are looked for here, in workers, where that is needed."""
    plan = BucketPlan.of(buckets.options.fields, buckets.partitions)
    rows = write.taken.buckets
    if not plan.searches or not any(rows):
        return plan
    searched = [
        each
        for each in write.transaction.snapshot.slices
        if each.partition in buckets.partitions
        and each.file_id in buckets.partitions[each.partition].searched
    ]
    engine, options = write.target.engine, write.target.options
    worker = partial(find_matches, facts, options.index_type, rows, plan=plan)
    matches: list[list[Segment]] = [[] for _ in rows]
    for found in engine.map(
        "find keys in buckets", worker, lookup_tasks(searched, engine.parallelism)
    ):
        for bucket, segment in found:
            matches[bucket].append(segment)
    return replace(plan, places=tuple(map(tuple, matches)))


def merges_by_key(write: Attempt) -> bool:
    """Whether the rows of a write on a table with a bucket index are merged with their records.

    Readers of log files merge whatever is in them, so on merge-on-read tables inserted rows are
    merged too. On copy-on-write tables they come beside the record of their key, as in Hudi.
    """
    is_mor = write.transaction.snapshot.config.table_type is TableType.MERGE_ON_READ
    return write.operation.looks_up or is_mor


def _buckets(
    engine: BucketEngine, partition: str, slices: Sequence[FileSlice], *, is_delete: bool
) -> PartitionBuckets:
    # Deletes make nothing in a partition that is not there.
    return (engine.buckets if is_delete else engine.created)(partition, slices)


def _groups(
    buckets: PartitionBuckets, slices: Iterable[FileSlice], searched: Iterable[FileSliceId]
) -> BucketGroups:
    known = frozenset(searched)
    own = {each.id: each.file_id for each in slices}
    return BucketGroups(
        buckets,
        frozenset(own.values()),
        frozenset(file_id for name, file_id in own.items() if name in known),
    )


def _by_name(touched: Iterable[FileSliceId]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for each in touched:
        found[each.partition].add(each.file_id)
    return found


def _by_partition(snapshot: Snapshot, partitions: Iterable[str]) -> _Slices:
    wanted = set(partitions)
    found: dict[str, list[FileSlice]] = defaultdict(list)
    for each in snapshot.slices:
        if each.partition in wanted:
            found[each.partition].append(each)
    return found


def _reads_keys(write: Attempt, plan: MetadataPlan) -> bool:
    """Whether it must be known of every row whether its key is there."""
    adds = not write.operation.looks_up and not write.operation.is_delete
    if adds and write.target.options.insert_duplicates is not InsertDuplicates.NONE:
        return True
    is_mor = write.transaction.snapshot.config.table_type is TableType.MERGE_ON_READ
    has_rows = any(each.row_columns for each in (*plan.maintained, *plan.new))
    tells_keys = plan.has_record_index or has_rows
    return is_mor and bool(tells_keys or any(each.has_keys for each in plan.building))


def _searched(write: Attempt, facts: WriteContext, *, reads_keys: bool) -> frozenset[FileSliceId]:
    """The file groups in which keys are looked for."""
    snapshot, partitions = write.transaction.snapshot, {*write.taken.partitions}
    if reads_keys:
        return frozenset(each.id for each in snapshot.slices if each.partition in partitions)
    is_mor = snapshot.config.table_type is TableType.MERGE_ON_READ
    if not is_mor or not facts.read_context().ordering_fields:
        return frozenset()  # the later of two changes counts
    return groups_with_deletes(snapshot, partitions)


def _file_ids(buckets: PartitionBuckets) -> set[str]:
    return {buckets.file_id(number) for number in range(buckets.count)}


def _changed(partition: str, file_id: str) -> CommitConflict:
    return CommitConflict(
        f"the buckets of partition {partition!r} are others since this write began: file group "
        f"{file_id} is none of them; nothing was changed, write again"
    )
