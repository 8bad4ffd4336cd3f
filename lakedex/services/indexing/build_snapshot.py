"""The snapshot that the build of an index reads, and what was committed after it."""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.filegroup.names import base_file_name
from lakedex.index.builds import IndexBuild, has_kept
from lakedex.index.metadata_table.group_files import EXTENSION, TOKEN, GroupFile
from lakedex.index.metadata_table.instants import MetadataStore, base_stat
from lakedex.services.indexing.claims import Claim
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, State, Timeline, WriteStat
from lakedex.txn.conflicts import commits_since, restore_conflict
from lakedex.txn.index_builds import name_run
from lakedex.txn.recovery import is_being_run
from lakedex.txn.rollback import LockedTable
from lakedex.write.write_schema import StoredSchema

_OPERATION = "UPSERT_PREPPED"
_WRITES = (
    Action.COMMIT,
    Action.DELTACOMMIT,
    Action.REPLACECOMMIT,
    Action.CLUSTERING,
    Action.COMPACTION,
)


@dataclass(frozen=True)
class BuildSnapshot:
    """A snapshot, and the instant of the metadata table that its base files have.

    Every commit of the snapshot completed before that instant, and every later one after it. So
    the base files take the place of all that commits wrote to the index before the view.
    """

    number: int
    snapshot: Snapshot
    base: str


def take_build_snapshot(table: LockedTable, claim: Claim, number: int) -> BuildSnapshot:
    """BuildSnapshot at the table, with its lock held."""
    snapshot = Snapshot(table.storage, table.config, table.timeline())
    base = table.next_time()
    # The run tells of the instant, should this be cut short.
    name_run(table.storage, claim.build, claim.run, base)
    store = MetadataStore.at(table.storage)
    store.begin(base, Action.DELTACOMMIT)
    done = Instant(base, Action.DELTACOMMIT, State.COMPLETED, table.next_time())
    # It is complete before its files are there: other engines roll back what pends.
    store.complete(done, _planned(store, claim.build, base), _OPERATION)
    return BuildSnapshot(number, snapshot, base)


def _planned(store: MetadataStore, build: IndexBuild, base: str) -> list[WriteStat]:
    """The base files that will be there, whose sizes are not known yet."""
    return [
        base_stat(GroupFile(name, file_id, base_file_name(file_id, TOKEN, base, EXTENSION), 0, 0))
        for name in build.names
        for file_id in store.group_ids(name)
    ]


def earlier_writers(table: LockedTable, build: IndexBuild) -> list[str]:
    """The writes that began before a build and may still complete: they do not know of it."""
    return [
        each.requested_time
        for each in table.timeline().pending_of(*_WRITES)
        if each.requested_time < build.begun and is_being_run(table, each)
    ]


def is_current(table: LockedTable, build: IndexBuild, view: BuildSnapshot) -> bool:
    """Whether everything since a view was written to the index too, and nothing was taken back."""
    before, now = view.snapshot.timeline, table.timeline()
    if _is_taken_back(before, now):
        return False
    if not all(has_kept(metadata.extra, build) for _, metadata in commits_since(before, now)):
        return False
    snapshot = Snapshot(table.storage, table.config, now)
    is_same = StoredSchema.of(snapshot).columns == StoredSchema.of(view.snapshot).columns
    if not is_same or snapshot.history != view.snapshot.history:
        return False
    return all(_is_based_on(table, now, name, view) for name in build.names)


def _is_taken_back(before: Timeline, now: Timeline) -> bool:
    if restore_conflict(before, now) is not None:
        return True
    known = {each.requested_time for each in now.write_instants()}
    gone = (i.requested_time for i in before.write_instants() if i.requested_time not in known)
    return not all(now.has_completed(time) for time in gone)


def _is_based_on(table: LockedTable, now: Timeline, name: str, view: BuildSnapshot) -> bool:
    """Whether every file group begins with a base file of the view: others may have compacted."""
    store = MetadataStore.at(table.storage)
    groups = store.slices(name, now)
    based = [each for each in groups if each.base is not None and each.base_instant == view.base]
    return bool(groups) and len(based) == len(groups)
