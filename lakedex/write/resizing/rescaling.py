"""The rows of partitions in another fixed number of buckets.

The numbers of buckets are a file of an instant, which counts once the instant is complete: so the
number and the file groups change in one step, for every engine, and a rollback brings both back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.index.kinds.bucket.engine import SimpleBuckets, SimpleEngine, bucket_engine
from lakedex.index.kinds.bucket.partition_counts import (
    PartitionCounts,
    all_partition_counts,
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
class NewCounts:
    """The numbers of buckets that a rescale makes: one number, or rules by partition."""

    count: int | None = None
    """The number of buckets; with rules that of partitions which no rule names, None as before."""
    partitions: tuple[str, ...] = ()
    """The only partitions that get the number; none for all, and for those to come."""
    expressions: str = ""
    """Rules instead: `pattern,number;pattern,number`; the first one that fits counts."""
    adds: bool = False
    """Whether the rules go before those that there are, and do not replace them."""

    def after(self, before: PartitionCounts, present: Sequence[str]) -> PartitionCounts:
        """The numbers of a table with some partitions.

        Raises:
            InvalidInput: a number or a rule is none, or a partition is not there.
        """
        if self.count is not None and not 1 <= self.count <= _MOST_BUCKETS:
            raise InvalidInput(f"a partition has 1 to {_MOST_BUCKETS} buckets, not {self.count}")
        if self.expressions:
            old = f";{before.expressions}" if self.adds and before.expressions else ""
            default = before.default if self.count is None else self.count
            return PartitionCounts(f"{self.expressions}{old}", default, before.rule)
        unknown = [each for each in self.partitions if each not in present]
        if unknown:
            raise InvalidInput(f"the table has no partition {unknown[0]!r}")
        count = before.default if self.count is None else self.count
        if not self.partitions:
            return PartitionCounts.whole(count)
        return _first(before).with_counts(self.partitions, count, before.instant)


@dataclass(frozen=True)
class Rescale:
    """Partitions that get another number of buckets."""

    before: PartitionCounts
    after: PartitionCounts
    partitions: Mapping[str, int]
    """Those that have rows and another number then, with that."""

    @property
    def changes_nothing(self) -> bool:
        """Whether partitions to come have the same numbers too."""
        rules = [(each.rules(), each.default) for each in (_first(self.before), self.after)]
        return not self.partitions and rules[0] == rules[1]


def plan_rescale(target: Target, snapshot: Snapshot, counts: NewCounts) -> Rescale:
    """The partitions whose number of buckets becomes another one.

    Args:
        target: The table.
        snapshot: The same under the lock, or before.
        counts: The new numbers.

    Raises:
        InvalidInput: the table has no fixed number of buckets, a number or a rule is none, or a
            partition is not there.
    """
    before, present = _engine(target, snapshot).counts, snapshot.slices.partitions
    after = counts.after(before, present)
    old, new = before.counts(present), after.counts(present)
    changed = {each: new[each] for each in sorted(present) if new[each] != old[each]}
    return Rescale(before, after, changed)


def stored_counts(snapshot: Snapshot) -> list[PartitionCounts]:
    """Every version of the numbers of buckets that counts, the newest last."""
    return all_partition_counts(snapshot.storage, snapshot.timeline)


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
        each: SimpleBuckets(each, count, generation=instant)
        for each, count in rescale.partitions.items()
    }
    moves = BucketMoves(slices, dict(buckets), engine.options.fields)
    committed = RescaledBuckets(rescale, replace(rescale.after, instant=instant), slices)
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
        same = self._unchanged(scope.snapshot.slices.partitions)
        for each in scope.snapshot.slices:
            if each.id not in gone and each.partition not in same:
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

    def _unchanged(self, partitions: Sequence[str]) -> set[str]:
        """The partitions that keep their number, so that they stay as they are."""
        old, new = self.rescale.before.counts(partitions), self.after.counts(partitions)
        return {p for p in partitions if old[p] == new[p] and p not in self.rescale.partitions}


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


def _first(counts: PartitionCounts) -> PartitionCounts:
    """Numbers in the form that is stored, which needs a pattern."""
    return counts if counts.expressions else PartitionCounts.whole(counts.default)
