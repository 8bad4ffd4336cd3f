"""The rows of partitions in another fixed number of buckets.

The numbers of buckets are a file of an instant, which counts once the instant is complete: so the
number and the file groups change in one step, for every engine, and a rollback brings both back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.index.kinds.bucket.engine import SimpleBuckets, SimpleEngine, bucket_engine
from lakedex.index.kinds.bucket.partition_counts import (
    PartitionCounts,
    kept_with,
    load_partition_counts,
    store_partition_counts,
)
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.commit import Outcome
from lakedex.write.resizing.running import BucketMoves, write_moves
from lakedex.write.result import StepClock
from lakedex.write.write_target import Target

_MOST_BUCKETS = 1_000_000


@dataclass(frozen=True)
class Rescale:
    """Partitions that get another number of buckets."""

    count: int
    partitions: tuple[str, ...]
    """Those that have rows."""
    is_whole: bool
    """Whether partitions to come have the number, too."""
    before: PartitionCounts


def plan_rescale(
    target: Target, snapshot: Snapshot, count: int, partitions: Sequence[str]
) -> Rescale:
    """The partitions whose number of buckets is another one.

    Args:
        target: The table.
        snapshot: The same under the lock, or before.
        count: The new number of buckets.
        partitions: Some partitions; none for all, and for those to come.

    Raises:
        InvalidInput: the table has no fixed number of buckets, the number is none, or a partition
            is not there.
    """
    engine = _engine(target, snapshot)
    if not 1 <= count <= _MOST_BUCKETS:
        raise InvalidInput(f"a partition has 1 to {_MOST_BUCKETS} buckets, not {count}")
    present = snapshot.slices.partitions
    unknown = [each for each in partitions if each not in present]
    if unknown:
        raise InvalidInput(f"the table has no partition {unknown[0]!r}")
    wanted = partitions or present
    changed = tuple(sorted(each for each in wanted if engine.counts.count(each) != count))
    return Rescale(count, changed, not partitions, engine.counts)


def write_rescale(
    target: Target, transaction: Transaction, rescale: Rescale, *, scratch: str, clock: StepClock
) -> Outcome:
    """Write the rows to their new buckets; the caller commits."""
    snapshot, instant = transaction.snapshot, transaction.instant
    engine = _engine(target, snapshot)
    chosen = {*rescale.partitions}
    slices = tuple(each for each in snapshot.slices if each.partition in chosen)
    buckets = {
        # A generation of its own, so that no file id is used again.
        each: SimpleBuckets(each, rescale.count, generation=instant)
        for each in rescale.partitions
    }
    moves = BucketMoves(slices, dict(buckets), engine.options.fields)
    committed = RescaledBuckets(rescale, _counts(rescale, instant), slices)
    outcome = write_moves(target, transaction, moves, committed, scratch=scratch, clock=clock)
    return replace(outcome, kept=kept_with(outcome.kept, committed.after))


@dataclass(frozen=True)
class RescaledBuckets:
    """The numbers of buckets of a rescale, as its commit needs them."""

    rescale: Rescale
    after: PartitionCounts
    replaced: tuple[FileSlice, ...]

    @property
    def copies(self) -> None:
        """None: no other write may change what is rescaled."""

    def prepare_commit(self, scope: CommitScope, touched: Iterable[FileSliceId]) -> None:
        """See that the numbers are what they were, and store the new ones.

        Raises:
            CommitConflict: another writer has changed them, or added a file group.
        """
        del touched
        stored = load_partition_counts(scope.storage, scope.timeline)
        if stored is not None and stored != self.rescale.before:
            raise CommitConflict("another writer changed the numbers of buckets meanwhile")
        gone = {each.id for each in self.replaced}
        for each in scope.snapshot.slices:
            is_meant = self.rescale.is_whole or each.partition in self.rescale.partitions
            if is_meant and each.id not in gone and not self._has_count(each.partition):
                raise CommitConflict(
                    f"another writer added file group {each.file_id} to partition "
                    f"{each.partition!r} meanwhile"
                )
        if stored is None:
            # A rollback of the rescale brings the number back that the table began with.
            store_partition_counts(scope.storage, _first(self.rescale.before))
        store_partition_counts(scope.storage, self.after)

    def mark_rings(self, storage: Storage) -> None:
        """Do nothing: there are no rings."""

    def _has_count(self, partition: str) -> bool:
        """Whether a partition had the number before, so that it stays as it is."""
        is_changed = partition in self.rescale.partitions
        return not is_changed and self.rescale.before.count(partition) == self.rescale.count


def _engine(target: Target, snapshot: Snapshot) -> SimpleEngine:
    options, name = target.options.buckets, snapshot.config.name
    if options is None:
        raise InvalidInput(f"table {name} has no bucket index to rescale")
    engine = bucket_engine(options, snapshot.storage, snapshot.timeline)
    if not isinstance(engine, SimpleEngine):
        raise InvalidInput(
            f"the buckets of table {name} are split and merged by their size "
            f"({options.engine.value}): leave the number out"
        )
    return engine


def _counts(rescale: Rescale, instant: str) -> PartitionCounts:
    if rescale.is_whole:
        return PartitionCounts.whole(rescale.count, instant)
    before = _first(rescale.before)
    return before.with_counts(rescale.partitions, rescale.count, instant)


def _first(counts: PartitionCounts) -> PartitionCounts:
    """Numbers in the form that is stored, which needs a pattern."""
    return counts if counts.expressions else PartitionCounts.whole(counts.default)
