"""What the actors of a simulation do: write, try again, and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakedex.config.service_options import CleaningOptions, CleaningPolicy
from lakedex.errors import CommitConflict, FileMissing, StorageError
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.filegroup.names import base_file_name
from lakedex.index.deltacommit import commit_changes
from lakedex.index.written import CommitChanges
from lakedex.services.clustering.scheduling import planned_groups
from lakedex.table import Snapshot
from lakedex.timeline import Action, CommitMetadata, WriteStat
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.lock import LockOptions
from lakedex.txn.transaction import CommitScope, Transaction, TransactionOptions
from lakedex.upkeep.cleaning import clean
from lakedex.write.context import WriteContext
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import GroupWork
from tests.simulation.store import SimStorage
from tests.simulation.tables import (
    ENGINE,
    SCHEMA,
    Effect,
    Model,
    SimAddress,
    completed_of,
    encode,
    raised,
    read_slice,
    rows_of,
)
from tests.simulation.world import Actor, World

PATIENCE = TransactionOptions(LockOptions(poll_seconds=2.0))
"""As in life, but for the pause between two looks at a lock: each costs the simulation time."""
_PARTITIONS = ("p=a", "p=b")


@dataclass
class Writing:
    """One writer: where it writes, and what it is to be told about."""

    world: World
    storage: SimStorage
    model: Model
    spawn: Callable[[str, Callable[[], None]], None]
    """Runs a task once more, in a process that may outlive the writer."""

    def run(self, writes: int) -> None:
        """Some writes, one after the other; conflicts and broken stores are part of life."""
        for _ in range(writes):
            instant = None
            try:
                with self._begin() as transaction:
                    instant = transaction.instant
                    self._write(transaction)
                self.model.told_done.add(instant)
            except CommitConflict as error:
                self.world.note(f"conflict: {error}")
                if instant is not None:
                    self.model.told_conflict.add(instant)
            except StorageError as error:
                self.world.note(f"gives up: {error}")

    def cluster(self, planned: str) -> None:
        """Run a clustering that pends: all that its plan names becomes one file group."""
        address: Any = SimAddress(self.storage)
        action = Action.CLUSTERING
        with Transaction.resume(address, planned, action=action, options=PATIENCE) as transaction:
            snapshot = transaction.snapshot
            plan = snapshot.timeline.requested_replace(planned).clustering
            assert plan is not None
            taken = [part for group in planned_groups(snapshot, plan) for part in group.slices]
            partition = taken[0].partition if taken else _PARTITIONS[0]
            self._finish(transaction, taken, partition, is_merge=True)
        self.model.told_done.add(planned)

    def _begin(self) -> Transaction:
        self._is_merge = self.world.dice.random() < 0.2
        action = Action.REPLACECOMMIT if self._is_merge else Action.COMMIT
        address: Any = SimAddress(self.storage)
        return Transaction.begin(address, action=action, operation="UPSERT", options=PATIENCE)

    def _write(self, transaction: Transaction) -> None:
        dice, snapshot = self.world.dice, transaction.snapshot
        parts = [part for part in snapshot.slices if part.base is not None]
        taken: list[FileSlice] = []
        if self._is_merge:
            chosen = dice.choice(_PARTITIONS)
            taken = [part for part in parts if part.partition == chosen][:2]
        elif parts and dice.random() < 0.8:
            # Mostly the same one: that is where writers meet.
            taken = [parts[0] if dice.random() < 0.7 else dice.choice(parts)]
        partition = taken[0].partition if taken else dice.choice(_PARTITIONS)
        self._finish(transaction, taken, partition, is_merge=self._is_merge)

    def _finish(
        self, transaction: Transaction, taken: list[FileSlice], partition: str, *, is_merge: bool
    ) -> None:
        dice, instant, snapshot = self.world.dice, transaction.instant, transaction.snapshot
        is_same = len(taken) == 1 and not is_merge
        file_id = taken[0].file_id if is_same else f"{dice.getrandbits(64):016x}-0"
        group = GroupWork(
            partition=partition,
            file_id=file_id,
            current=taken[0] if is_same else None,
            segments=(),
            ranges=None,
            file_name=base_file_name(file_id, "0-0-0", instant, "parquet"),
            is_log=False,
        )
        key = f"{instant}-{file_id}"
        data = encode(raised([read_slice(self.storage, part) for part in taken], key))
        replaced: dict[str, list[str]] = {}
        for part in () if is_same else taken:
            replaced.setdefault(part.partition, []).append(part.file_id)
        before = frozenset(part.id for part in taken)
        self.model.effects[instant] = Effect(before, FileSliceId(partition, file_id), key)
        transaction.start_writing()
        facts = _facts(self.storage, snapshot, instant, transaction.scratch)
        if dice.random() < 0.3:
            self.spawn(instant, lambda: _late_attempt(self.world, facts, group, data))
        # To write takes a while, in which others begin and end.
        self.world.give_way(dice.choice((0.0, 2.0, 6.0)))
        publisher = Publisher(facts, self.storage)
        size = publisher.publish(group, data)
        publisher.finish()
        # A rollback tells by these whether what the write took the place of is still there.
        base = taken[0].base if is_same else None
        stat = WriteStat(
            file_id=file_id,
            path=group.path_of(group.file_name),
            partition_path=partition,
            prev_commit=taken[0].base_instant if is_same else "null",
            prev_base_file=None if base is None else base.name,
            file_size_bytes=size,
            num_writes=1,
        )

        def prepare(scope: CommitScope) -> CommitMetadata:
            changes = CommitChanges(added={partition: {group.file_name: size}})
            commit_changes(facts.address, ENGINE, instant, changes, next_time=scope.next_time)
            return CommitMetadata(
                {partition: (stat,)},
                operation_type="UPSERT",
                replaced_file_ids={path: tuple(ids) for path, ids in replaced.items()},
            )

        transaction.commit(prepare, touched={part.id for part in taken})


def clean_often(world: World, storage: SimStorage, times: int) -> None:
    """Remove old versions of files, as many as may go."""
    address: Any = SimAddress(storage)
    for _ in range(times):
        world.give_way(world.dice.uniform(0.01, 9.0))
        versions = world.dice.random() < 0.5
        policy = CleaningPolicy.VERSIONS if versions else CleaningPolicy.COMMITS
        try:
            clean(address, CleaningOptions(policy=policy, commits=1, versions=1), PATIENCE)
        except (CommitConflict, StorageError) as error:
            world.note(f"a clean gives up: {error}")


def read_often(
    world: World, storage: SimStorage, model: Model, times: int, *, is_cleaned: bool
) -> None:
    """Every read shows the writes that were complete, all of them, and nothing else."""
    for _ in range(times):
        world.give_way(world.dice.uniform(0.01, 3.0))
        try:
            snapshot = Snapshot.open(storage)  # type: ignore[arg-type]
            found = rows_of(snapshot)
        except FileMissing:
            if not is_cleaned:
                raise
            continue
        expected = model.rows(completed_of(snapshot))
        assert found == expected, f"a reader saw {found}, not {expected}"


def _late_attempt(world: World, facts: WriteContext, group: GroupWork, data: bytes) -> None:
    """The same task once more, sooner or later."""
    world.give_way(world.dice.choice((0.0, 0.05, 2.0, 60.0)))
    try:
        publisher = Publisher(facts, facts.address.open())
        publisher.publish(group, data)
        publisher.finish()
    except (CommitConflict, StorageError) as error:
        world.note(f"a late attempt ends: {error}")


def _facts(storage: SimStorage, snapshot: Snapshot, instant: str, scratch: str) -> WriteContext:
    address: Any = SimAddress(storage)
    return WriteContext(
        address=address,
        config=snapshot.config,
        schema=SCHEMA,
        schema_text="",
        instant=instant,
        committed=CommittedInstants.of(snapshot.timeline),
        scratch=scratch,
    )


def new_actor(world: World, name: str) -> Actor:
    """A process on one of two hosts, whose clock may be off."""
    dice = world.dice
    # Clocks that differ by more than a lease of the lock are beyond what any lock here bears.
    skew = dice.choice((0, 0, -300, 250, -12_000, 14_000, -90_000, 200_000))
    return Actor(name, len(world.actors) + 1, f"host-{dice.randrange(2)}", skew)
