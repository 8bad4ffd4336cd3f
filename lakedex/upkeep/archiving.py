"""Moves old instants from the active timeline into the history, of the data and metadata table.

1. the instants go into a file of the history, and a new version of it names the file;
2. their files go from the active timeline, the oldest instant first, and of each the completed file
   last: without it the instant would seem to pend. What is older than the first instant that is
   left counts as committed, so at no moment does a committed file seem uncommitted;
3. levels of the history that have many files are merged.

After an interruption between 1 and 2, instants are in both places, and the next archiving does 2.

The oldest instants leave the active timeline, without a gap, while enough stay: what is older than
the active timeline counts as committed. A commit with a savepoint may be left behind, as it does
not determine where the timeline begins. Instants stay that are still looked up in the active
timeline: by a write in progress, a savepoint, the next clean, the next compaction, which counts
deltacommits, readers that must know which file groups were replaced, and the metadata table, whose
log files are valid by the instants of the data table until they are compacted.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakedex.config import TableConfig, TableType
from lakedex.config.option_check import check_service_options, option_texts
from lakedex.config.service_options import (
    ARCHIVING_OPTIONS,
    CLEANING_OPTIONS,
    ArchivingOptions,
    CleaningOptions,
)
from lakedex.config.write_options import LockOptions
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.index.registry import mark_rings
from lakedex.storage import Storage, split
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import (
    Action,
    Instant,
    State,
    Timeline,
    instant_key,
    load_table_config,
    parse_instant_file,
)
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
from lakedex.upkeep.retained import clean_outcome, earliest_retained, last_clean

_SERVICES = (Action.CLEAN, Action.ROLLBACK)
_SPARE = 2
"""Beside the commits that a clean retains Hudi keeps so many."""
_NOT_WAITED_FOR = (Action.SAVEPOINT, Action.INDEXING)
"""A build that is never resumed may be pending for ever (case B44)."""


def is_archive_due(timeline: Timeline, options: ArchivingOptions) -> bool:
    """Whether there are so many commits that some should go; no file is read for that."""
    return len(timeline.write_instants()) > options.most


def data_instants_to_archive(
    snapshot: Snapshot, archiving: ArchivingOptions, cleaning: CleaningOptions, now_ms: int
) -> list[Instant]:
    """The instants of a data table that may go, oldest first."""
    timeline = snapshot.timeline
    commits = timeline.write_instants()
    least, most = archiving.least, archiving.most
    earliest = earliest_retained(timeline, cleaning, now_ms)
    if earliest is not None:
        needed = sum(each > earliest for each in commits) + _SPARE
        if least < needed:
            least, most = needed, most + needed - least
    if len(commits) <= most:
        return []
    saved = timeline.savepoints()
    bounds = [_before_pending(timeline), _cleaned_up_to(timeline), _metadata_bound(snapshot)]
    if snapshot.config.table_type is TableType.MERGE_ON_READ and archiving.delta_commits:
        bounds.append(_counted_by_compaction(timeline, archiving.delta_commits))
    if not archiving.beyond_savepoints:
        bounds += saved
    candidates = _before(commits[: len(commits) - least], bounds)
    candidates = _before(candidates, [_first_uncleaned(snapshot, candidates)])
    return _with_services(timeline, [c for c in candidates if c.requested_time not in saved])


def metadata_instants_to_archive(
    timeline: Timeline, data: Timeline, options: ArchivingOptions
) -> list[Instant]:
    """The instants of a metadata table that may go, oldest first.

    Those stay that the data table still has, and those that the last two versions of its file
    groups are made of.
    """
    commits = timeline.write_instants()
    if len(commits) <= options.most:
        return []
    compactions = [each for each in commits if each.action is Action.COMMIT]
    if len(compactions) < _SPARE:
        return []
    first = data.first_active
    bounds = [
        _before_pending(timeline),
        compactions[-_SPARE].requested_time,
        None if first is None else first.requested_time,
        *(each.requested_time for each in _waited_for(data)[:1]),
        *(() if options.beyond_savepoints else data.savepoints()),
    ]
    candidates = _before(commits[: len(commits) - options.least], bounds)
    return _with_services(timeline, candidates)


def _before(commits: Iterable[Instant], bounds: Iterable[str | None]) -> list[Instant]:
    limits = [instant_key(bound) for bound in bounds if bound is not None]
    limit = min(limits, default=None)
    return [c for c in commits if limit is None or instant_key(c.requested_time) < limit]


def _waited_for(timeline: Timeline) -> list[Instant]:
    return [each for each in timeline.pending() if each.action not in _NOT_WAITED_FOR]


def _before_pending(timeline: Timeline) -> str | None:
    """The last commit before anything that pends, which a writer may have begun with."""
    pending = _waited_for(timeline)
    if not pending:
        return None
    before = [each for each in timeline.write_instants() if each < pending[0]]
    return before[-1].requested_time if before else pending[0].requested_time


def _cleaned_up_to(timeline: Timeline) -> str | None:
    """The next clean looks at what was written since the instant that the last one retained."""
    last = last_clean(timeline)
    return (clean_outcome(timeline, last).earliest or None) if last is not None else None


def _counted_by_compaction(timeline: Timeline, count: int) -> str | None:
    """The first instant that the next compaction counts from, or the oldest that it still needs."""
    commits = timeline.write_instants()
    compactions = [each for each in commits if each.action is Action.COMMIT]
    last = compactions[-1] if compactions else None
    deltas = [c for c in commits if c.action is Action.DELTACOMMIT and (last is None or last < c)]
    if len(deltas) >= count:
        return deltas[-count].requested_time
    first = last or (deltas[0] if deltas else None)
    return None if first is None else first.requested_time


def _metadata_bound(snapshot: Snapshot) -> str | None:
    """The last compaction of the metadata table; before the first one nothing goes at all."""
    if not snapshot.config.metadata_enabled:
        return None
    if snapshot.metadata is None:
        return ""
    writes = snapshot.metadata.timeline.write_instants()
    compactions = [each.requested_time for each in writes if each.action is Action.COMMIT]
    return compactions[-1] if compactions else ""


def _first_uncleaned(snapshot: Snapshot, candidates: Iterable[Instant]) -> str | None:
    """The first commit whose replaced file groups still have files (case B49)."""
    live: set[FileSliceId] | None = None
    for instant in candidates:
        if instant.action is not Action.REPLACECOMMIT:
            continue
        if live is None:
            live = _live_groups(snapshot.listing.files)
        replaced = snapshot.timeline.commit_summary(instant).replaced_file_ids
        groups = {FileSliceId(path, file_id) for path, ids in replaced.items() for file_id in ids}
        if groups & live:
            return instant.requested_time
    return None


def _live_groups(files: Mapping[str, Iterable[tuple[str, int]]]) -> set[FileSliceId]:
    found = set()
    for partition, listed in files.items():
        for name, size in listed:
            parsed = parse_data_file(name, size)
            if parsed is not None:
                found.add(FileSliceId(partition, parsed.file_id))
    return found


def _with_services(timeline: Timeline, commits: list[Instant]) -> list[Instant]:
    """The commits with the cleans and rollbacks that were done before the last of them."""
    if not commits:
        return []
    done = max(instant_key(each.completion_time or each.requested_time) for each in commits)
    newest_clean = last_clean(timeline)
    services = [
        each
        for each in timeline.completed()
        if each.action in _SERVICES
        and each != newest_clean
        and instant_key(each.completion_time or each.requested_time) < done
    ]
    return sorted([*commits, *services])


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
        address: The address of the table.
        options: Hudi's options, such as `hoodie.keep.max.commits`; others are those that the
            table keeps.
        patience: How long to wait for the lock; by default what the options say.

    Raises:
        InvalidInput: an option is wrong.
        UnsupportedFeature: the table has a version that is only read.
    """
    given = option_texts(options or {})
    storage = address.open()
    obeyed = (*ARCHIVING_OPTIONS, *CLEANING_OPTIONS)
    check_service_options(load_table_config(storage), given, obeyed, "run of archiving")
    settings = {**read_own_properties(storage), **given}
    chosen = patience or TransactionOptions.of(LockOptions.resolve(settings))
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
    mark_rings(storage, snapshot.timeline, found)
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
    mark_rings(table.storage, timeline, [left])
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
