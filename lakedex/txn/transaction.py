"""One write of a table, from its instant time to its completion, or to nothing at all.

    begin           under the lock: clear after dead writers, take a time, requested file
    start_writing   inflight file; from now on workers write data files, markers first
    commit          under the lock: still ours? conflicts? metadata table; completed file
    abort           under the lock: roll back what there is of it

A plan that was scheduled apart begins with `resume`, and what fails then leaves it scheduled.

A reader sees the write when its completed file is there, and not before. Whatever fails in
between is rolled back at once, or by the next writer if this process is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType

from lakedex.config import TableConfig
from lakedex.config.write_options import LockOptions as LockSettings
from lakedex.errors import (
    AlreadyExists,
    CommitConflict,
    LakedexError,
    StorageError,
)
from lakedex.filegroup import FileSliceId
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    State,
    Timeline,
    encode_commit_metadata,
    file_name,
    load_table_config,
)
from lakedex.txn.begin import forget_request, locked_table, take_instant, take_up
from lakedex.txn.conflicts import (
    Commit,
    CopiedGroups,
    commits_since,
    compaction_conflict,
    group_conflict,
    property_conflict,
    restore_conflict,
)
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions
from lakedex.txn.lock import LockOptions, TableLock, open_lock
from lakedex.txn.recovery import Leftovers, clear_leftovers, recover
from lakedex.txn.rollback import LockedTable, forget, roll_back, rollback_of
from lakedex.txn.rollback_files import delete_orphan_files
from lakedex.txn.working_folders import spill_folder

Groups = Collection[FileSliceId]
_log = logging.getLogger("lakedex")
_LEAST_RENEWALS = 2
"""So often a lock is renewed within its lease at least."""


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """How patient a writer is, and how it shows that it lives."""

    lock: LockOptions = field(default_factory=LockOptions)
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)

    @classmethod
    def of(cls, settings: LockSettings) -> TransactionOptions:
        """How patient a writer is, by the options of a write."""
        lease, pause = float(settings.validity_s), settings.retry_wait_ms
        return cls(
            lock=LockOptions(
                wait_seconds=settings.wait_ms / 1000,
                lease_seconds=lease,
                renew_seconds=min(float(settings.renewal_s), lease / _LEAST_RENEWALS),
                poll_seconds=LockOptions().poll_seconds if pause is None else pause / 1000,
            ),
            heartbeat=HeartbeatOptions(
                interval_seconds=settings.heartbeat_ms / 1000,
                tolerable_misses=settings.heartbeat_misses,
            ),
        )


@dataclass(frozen=True, slots=True)
class CommitScope:
    """The table while a commit holds its lock."""

    storage: Storage
    timeline: Timeline
    """As it is now; this write pends on it."""
    snapshot: Snapshot
    """The newest snapshot, commits of others since the beginning included."""
    metadata: Timeline | None
    """The timeline of the metadata table."""
    concurrent: tuple[Commit, ...]
    """The writes that completed since this one began, in order."""
    next_time: Callable[[], str]
    """A time after all times of the table, while the lease of the lock lasts."""
    check: Callable[[], None]
    """Raises `CommitConflict` when the lock was lost."""


class Transaction:
    """One write of a table; `with` aborts it unless it was committed."""

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot,
        instant: Instant,
        lock: TableLock,
        heartbeat: Heartbeat,
        options: TransactionOptions,
        *,
        keeps_plan: bool = False,
    ) -> None:
        """Use `begin` or `resume`; this only keeps what it is given."""
        self.snapshot = snapshot
        """The table as of the beginning, after dead writers were cleared away."""
        self.instant = instant.requested_time
        self.action = instant.action
        self._storage = storage
        self._config: TableConfig = snapshot.config
        self._requested = instant
        self._lock = lock
        self._heartbeat = heartbeat
        self._options = options
        self._keeps_plan = keeps_plan
        self._is_open = True
        self._has_started = False
        self._has_spilled = False

    @classmethod
    def begin(
        cls,
        address: StorageAddress,
        *,
        action: Action,
        operation: str,
        options: TransactionOptions | None = None,
        plan: Callable[[Snapshot], bytes] | None = None,
        before: Snapshot | None = None,
    ) -> Transaction:
        """Take an instant time for a write, and put it on the timeline.

        Args:
            address: Where the table lies.
            action: COMMIT, DELTACOMMIT, REPLACECOMMIT or CLUSTERING.
            operation: The operation by its name in commit metadata, such as UPSERT.
            options: How patient to be.
            plan: Called under the lock with the table as of the beginning; answers the content of
                the requested file. When it raises, nothing is put on the timeline.
            before: The table as the caller has read it: what did not change is not read again.

        Raises:
            CommitConflict: other writers held the lock all the time.
            TableNotFound: there is no table.
            UnsupportedFeature: the table has a version that is only read.
        """
        chosen = options or TransactionOptions()
        storage = address.open()
        if before is None:
            load_table_config(storage)  # where there is no table, no lock file is to be made
        lock = open_lock(storage, chosen.lock)
        with lock:
            # Leftovers are listed before the timeline: an instant is on it before it has markers.
            left = Leftovers.load(storage, chosen.heartbeat)
            table = locked_table(
                storage, lock, chosen.heartbeat, before=before, claims=left.life.writers
            )
            if clear_leftovers(table, left).is_table_changed:
                table = locked_table(storage, lock, chosen.heartbeat, before=before)
            snapshot = table.snapshot(before)
            if before is not None:
                # Without the lock a listing may show an index while another one takes its place.
                snapshot.list_metadata()
            body = None if plan is None else plan(snapshot)
            instant, heartbeat = take_instant(table, action, operation, body)
        return cls(storage, snapshot, instant, lock, heartbeat, chosen)

    @classmethod
    def resume(
        cls,
        address: StorageAddress,
        instant: str,
        *,
        action: Action,
        options: TransactionOptions | None = None,
    ) -> Transaction:
        """Take up a compaction or clustering that pends, whoever scheduled it.

        What an earlier run of it left is rolled back first.

        Args:
            address: Where the table lies.
            instant: The time of the plan.
            action: COMPACTION or CLUSTERING.
            options: How patient to be.

        Raises:
            InvalidInput: no such plan pends.
            CommitConflict: another process is at work on it.
        """
        chosen = options or TransactionOptions()
        storage = address.open()
        load_table_config(storage)
        lock = open_lock(storage, chosen.lock)
        with lock:
            table = locked_table(storage, lock, chosen.heartbeat)
            recover(table)
            planned, heartbeat = take_up(table, instant, action)
            snapshot = Snapshot.open(storage)
        return cls(storage, snapshot, planned, lock, heartbeat, chosen, keeps_plan=True)

    @property
    def scratch(self) -> str:
        """The folder for spill files, removed at the end."""
        self._has_spilled = True
        return spill_folder(self.instant)

    @property
    def inflight_path(self) -> str:
        """The file that is there while this write goes on; late tasks look for it."""
        inflight = Instant(self.instant, self.action, State.INFLIGHT)
        name = file_name(inflight, self._config.timeline_layout)
        return f"{self._config.timeline_folder}/{name}"

    def start_writing(self) -> None:
        """Put the write on the timeline as inflight; data files may be written after this."""
        self._has_started = True
        try:
            self._storage.create(self.inflight_path, b"")
        except AlreadyExists:
            return  # the answer to our own request was lost, and it was repeated

    def look_early(self, touched: Groups, rewritten: Groups) -> None:
        """Give up before the work is done where others have been first already.

        Args:
            touched: The file groups that the write is about to change, new ones aside.
            rewritten: Those of them that get a new base file.

        Raises:
            CommitConflict: another write of them has completed, or a service is to run on them.
        """
        timeline = Timeline.load(self._storage, self._config)
        concurrent = commits_since(self.snapshot.timeline, timeline)
        problem = self._group_problem(timeline, concurrent, touched, rewritten)
        if problem is not None:
            raise CommitConflict(f"{self.instant} was not written: {problem}")

    def adopt_properties(self) -> None:
        """Take the table's properties as they are now for those that this write goes by."""
        self._config = load_table_config(self._storage)

    def commit(
        self,
        prepare: Callable[[CommitScope], CommitMetadata],
        *,
        touched: Groups | Callable[[], Groups],
        rewritten: Groups | None = None,
        then: Callable[[], None] | None = None,
        may_have_orphans: bool = True,
        copies: CopiedGroups | None = None,
    ) -> str:
        """Make the write visible; returns its completion time.

        Args:
            prepare: Called under the lock when there is no conflict: writes the metadata table's
                deltacommit and answers what the write did. When it raises, all is rolled back.
            touched: The file groups that the write changed, new ones aside.
            rewritten: Those of them that got a new base file; None means all.
            then: Called after it, with the lock still held; the next writer can do without.
            may_have_orphans: Whether tasks may have made files that the metadata do not name.
            copies: The file groups that a resize of buckets and writes beside it may both change.

        Raises:
            CommitConflict: another writer was first; this write is rolled back.
        """
        if not self._is_open:
            raise CommitConflict(f"the write {self.instant} has ended already")
        try:
            with self._lock:
                scope, table = self._check_commit(touched, rewritten, copies)
                metadata = prepare(scope)
                if may_have_orphans:
                    delete_orphan_files(self._storage, self.instant, metadata)
                completion = self._complete(metadata, table)
                if then is not None:
                    then()
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        self._forget()
        return completion

    def abort(self) -> None:
        """Roll the write back; when that fails it is left to the next writer."""
        if not self._is_open:
            return
        self._is_open = False
        is_undone = False
        try:
            with self._lock:
                table = locked_table(
                    self._storage, self._lock, self._options.heartbeat, may_lack_instants=True
                )
                # One that others took off the timeline may have left a trace after that.
                if self._has_started:
                    if not table.timeline().is_completed(self.instant):
                        begun = Instant(self.instant, self.action, State.INFLIGHT)
                        roll_back(table, begun, keeps_plan=self._keeps_plan)
                elif not self._keeps_plan:
                    # Nothing was written: the table shall look as if nobody had asked.
                    forget_request(table, self._requested)
                is_undone = True
        except Exception as error:  # noqa: BLE001 - whatever led here must not be hidden
            _log.warning("%s is left to the next writer to roll back: %s", self.instant, error)
        if is_undone:
            self._forget()
            return
        try:
            self._heartbeat.stop()
        except LakedexError as error:
            _log.warning("the heartbeat of %s was not removed: %s", self.instant, error)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    def _check_commit(
        self,
        touched: Groups | Callable[[], Groups],
        rewritten: Groups | None,
        copies: CopiedGroups | None,
    ) -> tuple[CommitScope, LockedTable]:
        """The table under the lock, where nothing is in the way of this write."""
        table = locked_table(
            self._storage, self._lock, self._options.heartbeat, before=self.snapshot
        )
        timeline = table.data
        concurrent = commits_since(self.snapshot.timeline, timeline)
        groups = touched() if callable(touched) else touched
        problem = (
            self._ownership_problem(table, timeline)
            or property_conflict(self._config, table.config)
            or restore_conflict(self.snapshot.timeline, timeline)
            or self._group_problem(timeline, concurrent, groups, rewritten, copies)
        )
        if problem is not None:
            raise CommitConflict(f"{self.instant} was not committed: {problem}")
        scope = CommitScope(
            storage=self._storage,
            timeline=timeline,
            snapshot=table.snapshot(self.snapshot, own=self.instant),
            metadata=table.metadata,
            concurrent=concurrent,
            next_time=table.next_hidden_time,
            check=table.check,
        )
        return scope, table

    def _group_problem(
        self,
        timeline: Timeline,
        concurrent: tuple[Commit, ...],
        groups: Groups,
        rewritten: Groups | None,
        copies: CopiedGroups | None = None,
    ) -> str | None:
        if self.action is Action.COMPACTION:
            return compaction_conflict(timeline, concurrent, groups)
        rewritten = groups if rewritten is None else rewritten
        known = CopiedGroups() if copies is None else copies
        return group_conflict(timeline, concurrent, groups, rewritten, self.instant, known)

    def _complete(self, metadata: CommitMetadata, table: LockedTable) -> str:
        """Create the completed file, the one step that makes the write visible."""
        data = encode_commit_metadata(metadata, action=self.action)
        # Case B58: half a lease is left after this check, and the next step takes a moment.
        completion = table.next_time()
        done = Instant(self.instant, self.action, State.COMPLETED, completion)
        path = f"{table.config.timeline_folder}/{file_name(done, table.config.timeline_layout)}"
        try:
            self._storage.create(path, data)
        except StorageError:
            # The answer may have been lost on its way; what is there decides.
            if not self._holds(path, data):
                raise
        if not self._storage.exists(self.inflight_path):
            # This process slept through its lease, and others rolled the write back meanwhile.
            self._storage.delete(path)
            raise CommitConflict(f"{self.instant} was rolled back by another writer")
        return completion

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self._storage.read(path) == data
        except StorageError:
            return False

    def _ownership_problem(self, table: LockedTable, timeline: Timeline) -> str | None:
        found = timeline.find(self.instant)
        if found is None:
            return "another writer rolled it back"
        if found.state is not State.INFLIGHT or found.action is not self.action:
            return f"it is {found.state.name.lower()} as {found.action.value}, not inflight"
        rollback = rollback_of(table, timeline, self.instant)
        if rollback is not None:
            return f"another writer began to roll it back as {rollback}"
        return None

    def _forget(self) -> None:
        """Remove what lies beside the table; what stays is swept up by the next writer."""
        try:
            self._heartbeat.stop()
            forget(self._storage, self.instant, is_stopped=True, has_spilled=self._has_spilled)
        except LakedexError as error:
            _log.warning("left over from %s for the next writer: %s", self.instant, error)
