"""Takes a table to version 9, one safe step after the other, under its lock.

1. what would not come out whole is refused, and dead writers are rolled back;
2. what is about to be done is noted in the table (`state`);
3. version 6: the old metadata table is given up and log files are merged into base files, on the
   old timeline; then the new timeline is written beside the old one (`timeline_move`);
4. the properties change in one step: from here on it is a table of version 9;
5. the metadata table is built again with the partitions that it had;
6. old files and the note are removed.

Killed before step 4 the table is of its old version still, killed after it a whole table of
version 9 without some of its indexes. The next call goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from lakedex.config import TableConfig, keys
from lakedex.engine import Engine, LocalEngine
from lakedex.filegroup import META_COLUMNS
from lakedex.index.registry import metadata_kind
from lakedex.services.upgrading.checks import check_pending, check_table, split_indexes
from lakedex.services.upgrading.compacting import (
    pending_besides,
    plan_compaction,
    request_compaction,
    run_compaction,
)
from lakedex.services.upgrading.new_properties import TARGET_VERSION, property_changes
from lakedex.services.upgrading.state import UpgradeReport, UpgradeState, forget
from lakedex.services.upgrading.timeline_move import Moved, remove_old, stage_timeline
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import CompactionPlan, Timeline, load_table_config, update_properties
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.clocks import InstantClock
from lakedex.txn.heartbeat import HeartbeatOptions
from lakedex.txn.lock import LockOptions, TableLock, open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.write.context import WriteContext
from lakedex.write.metadata_build import ensure_metadata
from lakedex.write.metadata_plan import RECORD_INDEX, plan_groups

_OLD_VERSION = 6
_SCRATCH = f"{keys.META_FOLDER}/.lakedex/spill/upgrade"
_MOST_STAT_COLUMNS = 32
_STAT_META_COLUMNS = (META_COLUMNS[0], META_COLUMNS[3], META_COLUMNS[2])


def upgrade_table(
    address: StorageAddress,
    *,
    engine: Engine | None = None,
    drop_indexes: bool = False,
    lock_options: LockOptions | None = None,
) -> UpgradeReport:
    """Take a table of version 6 or 8 to version 9; finish an upgrade that was cut short.

    Writers that do not take the table's lock must be stopped first.

    Args:
        address: The table.
        engine: Runs the workers; threads of this process by default.
        drop_indexes: Leave out indexes that cannot be built again (secondary and expression
            indexes) instead of refusing the table.
        lock_options: How long to wait for the lock.

    Raises:
        UnsupportedFeature: the table has something that would not come out whole.
        CommitConflict: somebody is at work on the table.
    """
    begun = time.monotonic()
    storage = address.open()
    load_table_config(storage)
    lock = open_lock(storage, lock_options)
    with lock:
        work = _Upgrade(address, storage, engine or LocalEngine(), lock, drop_indexes)
        report = work.run()
    return replace(report, seconds=round(time.monotonic() - begun, 3))


@dataclass
class _Upgrade:
    address: StorageAddress
    storage: Storage
    engine: Engine
    lock: TableLock
    drop_indexes: bool
    rolled_back: tuple[str, ...] = ()
    compacted: int = 0
    moved: Moved = Moved(0, 0)  # noqa: RUF009 - it never changes

    def run(self) -> UpgradeReport:
        config = load_table_config(self.storage)
        state = UpgradeState.load(self.storage)
        if config.version < TARGET_VERSION:
            state = self._switch(config, state)
        elif state is None:
            return UpgradeReport(config.name, config.version, config.version)
        self._build_indexes(state)
        if state.from_version <= _OLD_VERSION:
            remove_old(self.storage, state.archive_folder)
        self.storage.delete_folder(_SCRATCH)
        forget(self.storage)
        return UpgradeReport(
            table=config.name,
            from_version=state.from_version,
            to_version=TARGET_VERSION,
            instants=self.moved.instants,
            archived=self.moved.archived,
            compacted=self.compacted,
            indexes=tuple(sorted(state.groups)),
            dropped=state.dropped,
            rolled_back=self.rolled_back,
        )

    def _switch(self, config: TableConfig, state: UpgradeState | None) -> UpgradeState:
        """Everything up to the step from which on the table is of version 9."""
        snapshot = Snapshot.open(self.storage)
        check_table(snapshot)
        changes = property_changes(config)
        noted = self._noted(snapshot, state)
        if config.version > _OLD_VERSION:
            self.rolled_back = recover(self._locked(config))
        pending = Snapshot.open(self.storage).timeline.pending()
        check_pending(pending_besides(pending, noted.compaction), self.storage.root)
        noted.save(self.storage)
        if config.version <= _OLD_VERSION:
            noted = self._merge_logs(noted)
            self.lock.check()
            self.moved = stage_timeline(self.storage, config, self._clock(config)())
        self.lock.check()
        update_properties(self.storage, changes)
        return noted

    def _noted(self, snapshot: Snapshot, state: UpgradeState | None) -> UpgradeState:
        """What is to be done; the old metadata table may be gone already, as noted before."""
        config = snapshot.config
        if state is not None and not config.metadata_partitions:
            return state
        kept, dropped = split_indexes(config.metadata_partitions, drop=self.drop_indexes)
        definition = snapshot.definitions.get(RECORD_INDEX)
        return UpgradeState(
            from_version=config.version,
            groups={name: _group_count(snapshot, name) for name in kept},
            stat_columns=_stat_columns(snapshot),
            has_partitioned_record_index=definition is not None and definition.is_partitioned,
            dropped=tuple(dropped),
            archive_folder=config.archive_folder if config.version <= _OLD_VERSION else "",
            compaction=None if state is None else state.compaction,
        )

    def _merge_logs(self, state: UpgradeState) -> UpgradeState:
        """Merge log files until there are none, beginning with what was begun before."""
        snapshot = Snapshot.open(self.storage)
        pending = [each.requested_time for each in snapshot.timeline.pending()]
        if state.compaction in pending:
            plan = snapshot.timeline.compaction_plan(str(state.compaction))
            self._compact(snapshot, str(state.compaction), plan)
            snapshot = Snapshot.open(self.storage)
        plan_or_none = plan_compaction(snapshot)
        if plan_or_none is None:
            return state
        # The old metadata table would not know of the new base files, and hide them.
        none = {keys.METADATA_PARTITIONS: "", keys.METADATA_PARTITIONS_INFLIGHT: ""}
        update_properties(self.storage, none)
        snapshot = Snapshot.open(self.storage)
        plan_or_none = plan_compaction(snapshot)
        if plan_or_none is None:
            return state
        state = replace(state, compaction=self._clock(snapshot.config)())
        state.save(self.storage)
        request_compaction(self.storage, snapshot.config, str(state.compaction), plan_or_none)
        self._compact(Snapshot.open(self.storage), str(state.compaction), plan_or_none)
        return state

    def _compact(self, snapshot: Snapshot, instant: str, plan: CompactionPlan) -> None:
        self.lock.check()
        self.compacted += run_compaction(self.engine, self.address, snapshot, instant, plan)

    def _build_indexes(self, state: UpgradeState) -> None:
        if not state.groups:
            return
        snapshot = Snapshot.open(self.storage)
        plan = plan_groups(
            snapshot,
            snapshot.schema,
            state.groups,
            stat_columns=state.stat_columns,
            partitioned=state.has_partitioned_record_index,
        )
        facts = WriteContext(
            address=self.address,
            config=snapshot.config,
            schema=snapshot.schema,
            schema_text="",
            instant="",
            committed=CommittedInstants.of(snapshot.timeline),
            scratch=_SCRATCH,
        )
        self.lock.check()
        next_time = self._clock(snapshot.config)
        ensure_metadata(self.engine, facts, snapshot, plan, next_time=next_time)

    def _clock(self, config: TableConfig) -> Callable[[], str]:
        return InstantClock.load(self.storage, config).next

    def _locked(self, config: TableConfig) -> LockedTable:
        return LockedTable(
            self.storage,
            config,
            InstantClock.load(self.storage, config),
            self.lock.check,
            HeartbeatOptions(),
            Timeline.load(self.storage, config),
        )


def _group_count(snapshot: Snapshot, name: str) -> int:
    """The file groups of a partition, of each data partition where these have their own."""
    groups = snapshot.metadata.groups(name) if snapshot.metadata is not None else []
    numbers = [int(group.file_id.split("-")[-2]) for group in groups]
    return max(numbers) + 1 if numbers else metadata_kind(name).usual_file_groups


def _stat_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """The columns that have statistics now; where that is not said, the first ones."""
    flat = [
        field.name
        for field in snapshot.schema
        if not pa.types.is_nested(field.type) and field.name not in META_COLUMNS
    ]
    definition = snapshot.definitions.get("column_stats")
    if definition is not None and definition.source_fields:
        return (*_STAT_META_COLUMNS, *(name for name in definition.source_fields if name in flat))
    return (*_STAT_META_COLUMNS, *flat[:_MOST_STAT_COLUMNS])
