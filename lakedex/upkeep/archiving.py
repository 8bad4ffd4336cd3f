"""Moves old instants from the active timeline into the history, of the data and metadata table.

1. the instants go into a file of the history, and a new version of it names the file;
2. their files go from the active timeline, the oldest instant first, and of each the completed file
   last: without it the instant would seem to pend. What is older than the first instant that is
   left counts as committed, so at no moment does a committed file seem uncommitted;
3. levels of the history that have many files are merged.

Cut short after 1, instants stand in both places, and the next archiving goes on with 2.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakedex.config import TableConfig
from lakedex.config.option_check import check_options, option_texts
from lakedex.config.upkeep_options import ArchivingOptions, CleaningOptions
from lakedex.storage import Storage, split
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import Action, Instant, State, Timeline, instant_key, parse_instant_file
from lakedex.timeline.history_writer import (
    ArchivedInstant,
    append_history,
    merge_levels,
    remove_old_versions,
)
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.archive_selection import (
    data_instants_to_archive,
    is_archive_due,
    metadata_instants_to_archive,
)

_AGAIN_AFTER = 5
"""So many commits after archiving found nothing to move it is tried again, or fewer, if fewer are
between the two numbers of commits to keep."""
_in_vain: dict[str, int] = {}
"""By the root of a table: how many commits it had when nothing could go, last in this process."""
log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """How many instants left the active timelines."""

    instants: int = 0
    metadata_instants: int = 0

    def as_dict(self) -> dict[str, object]:
        """The same as plain values."""
        return {"instants": self.instants, "metadata_instants": self.metadata_instants}


def archive_table(
    address: StorageAddress,
    options: Mapping[str, str] | None = None,
    *,
    patience: TransactionOptions | None = None,
) -> ArchiveResult:
    """Move the instants that are old enough into the history.

    Args:
        address: Where the table lies.
        options: Hudi's options, such as `hoodie.keep.max.commits`; others are those that the
            table keeps.
        patience: How long to wait for the lock.

    Raises:
        InvalidInput: an option is wrong.
        UnsupportedFeature: the table has a version that is only read.
    """
    given = option_texts(options or {})
    check_options(given)
    storage, chosen = address.open(), patience or TransactionOptions()
    settings = {**read_own_properties(storage), **given}
    archiving, cleaning = ArchivingOptions.resolve(settings), CleaningOptions.resolve(settings)
    with open_lock(storage, chosen.lock) as lock:
        table = locked_table(storage, lock, chosen.heartbeat)
        recover(table)
        return archive(table, archiving, cleaning)


def is_due(storage: Storage, timeline: Timeline, options: ArchivingOptions) -> bool:
    """Whether there are too many commits, and more than when it was last tried in vain."""
    after = min(_AGAIN_AFTER, options.most - options.least)
    least = _in_vain.get(storage.root, -after) + after
    return is_archive_due(timeline, options) and len(timeline.write_instants()) >= least


def archive(
    table: LockedTable, archiving: ArchivingOptions, cleaning: CleaningOptions
) -> ArchiveResult:
    """The same while the lock is held."""
    storage = table.storage
    snapshot = Snapshot.open(storage)
    now_ms = time.time_ns() // 1_000_000
    found = data_instants_to_archive(snapshot, archiving, cleaning, now_ms)
    moved = _move(table, storage, snapshot.timeline, found, archiving)
    if moved:
        _in_vain.pop(storage.root, None)
    else:
        _in_vain[storage.root] = len(snapshot.timeline.write_instants())
    return ArchiveResult(moved, archive_metadata(table, archiving))


def archive_left_behind(table: LockedTable, instant: str) -> int:
    """Archive a commit that archiving passed by for its savepoint; before that is deleted.

    Without the savepoint the active timeline would seem to begin with it, and whatever was archived
    since would seem uncommitted.
    """
    timeline = table.timeline()
    left, first = timeline.find(instant), timeline.first_active
    if left is None or first is None or first <= left:
        return 0
    passed = timeline.archived.instants(instant, first.requested_time)
    if all(instant_key(each.requested_time) <= instant_key(instant) for each in passed):
        return 0
    return _move(table, table.storage, timeline, [left], ArchivingOptions())


def archive_metadata(table: LockedTable, options: ArchivingOptions) -> int:
    """Move old instants of the metadata table; answer how many. The lock is held."""
    opened = open_metadata_table(table.storage)
    if opened is None:
        return 0
    storage, config = opened
    timeline = Timeline.load(storage, config)
    found = metadata_instants_to_archive(timeline, table.timeline(), options)
    return _move(table, storage, timeline, found, options)


def _move(
    table: LockedTable,
    storage: Storage,
    timeline: Timeline,
    instants: Sequence[Instant],
    options: ArchivingOptions,
) -> int:
    if not instants:
        return 0
    config = timeline.config
    folder = config.history_folder
    times = {each.requested_time for each in instants}
    files = _files(storage, config, times)
    known = {each.requested_time for each in timeline.archived.instants(min(times), max(times))}
    news = [
        _archived(storage, each, files[each.requested_time])
        for each in instants
        if each.requested_time not in known
    ]
    table.check()
    append_history(storage, folder, news)
    for instant in instants:
        table.check()
        for path in _in_order_of_removal(instant, files[instant.requested_time]):
            storage.delete(path)
    merge_levels(storage, folder, options.files_a_level)
    remove_old_versions(storage, folder)
    log.info("archived %d instants of %s", len(instants), storage.root)
    return len(instants)


_Files = Mapping[str, list[tuple[Instant, str]]]


def _files(storage: Storage, config: TableConfig, times: set[str]) -> _Files:
    """The files of some instants in the active timeline, savepoints left aside."""
    found: dict[str, list[tuple[Instant, str]]] = defaultdict(list)
    for info in storage.list(config.timeline_folder):
        parsed = parse_instant_file(split(info.path)[1], config.timeline_layout)
        if parsed is None or parsed.action is Action.SAVEPOINT:
            continue
        if parsed.requested_time in times:
            found[parsed.requested_time].append((parsed, info.path))
    return found


def _archived(
    storage: Storage, instant: Instant, files: Sequence[tuple[Instant, str]]
) -> ArchivedInstant:
    own = [(each, path) for each, path in files if each.action.completed is instant.action]
    completed = next(path for each, path in own if each.is_completed)
    requested = [path for each, path in own if each.state is State.REQUESTED]
    plan = storage.read(requested[0]) if requested else b""
    return ArchivedInstant(
        instant.requested_time,
        instant.completion_time or instant.requested_time,
        instant.action,
        storage.read(completed),
        plan or None,
    )


def _in_order_of_removal(instant: Instant, files: Sequence[tuple[Instant, str]]) -> list[str]:
    own = [(each, path) for each, path in files if each.action.completed is instant.action]
    return [path for each, path in sorted(own, key=lambda entry: entry[0].state.value)]
