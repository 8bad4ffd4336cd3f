"""Removes old versions of files, as a clean on the timeline.

    plan       under the lock: T.clean.requested, T.clean.inflight
    delete     without the lock: no reader uses these files any more, and deleting twice is harmless
    complete   under the lock: the files leave the metadata table, then T_C.clean

A clean that was interrupted is pending; whichever engine planned it, the next clean runs it first.
Of the files in a plan only data files of the table that no present reader needs are deleted.

A version of a file group is removed when no reader as of a retained instant needs it: all versions
stay from the one on that was the newest just before the earliest retained instant, or, where
versions are counted, so many of the newest. Groups that were replaced before the earliest retained
instant are removed completely. The newest version of a group that is not replaced always stays.

The metadata table is cleaned on a timeline of its own: the last two versions of each file group
stay, as Hudi keeps them. A reader that began before the last compaction still finds the version
before it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.config.option_check import check_service_options, option_texts
from lakedex.config.service_options import CLEANING_OPTIONS, CleaningOptions, CleaningPolicy
from lakedex.config.write_options import LockOptions
from lakedex.errors import CorruptFile, FileMissing, UnsafePath
from lakedex.filegroup import (
    FileSlice,
    FileSliceId,
    Visibility,
    all_versions,
    latest_slices,
    parse_data_file,
)
from lakedex.index.builds import active_builds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.deltacommit import commit_removal
from lakedex.index.metadata_table import FILES_PAYLOAD, MetadataTable, metadata_partition
from lakedex.index.metadata_table.keys import partition_key
from lakedex.index.registry import remove_outdated_rings
from lakedex.storage import Storage, join, split
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    State,
    Timeline,
    instant_key,
    load_table_config,
)
from lakedex.timeline.clean_plan import (
    SAVEPOINTS_KEY,
    CleanPlan,
    clean_metadata,
    read_clean_plan,
)
from lakedex.txn.begin import locked_table, put_plan
from lakedex.txn.index_builds import remove_abandoned_indexes
from lakedex.txn.lock import open_lock
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.rollback_files import delete_files, remove_instant, write_once
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.completion_order import DataFile
from lakedex.upkeep.retained import (
    CleanScan,
    clean_outcome,
    earliest_retained,
    is_clean_due,
    last_clean,
    needed_files,
)

_WRITERS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)
Listed = dict[str, list[tuple[str, int]]]
_METADATA_VERSIONS = 2


def plan_clean(
    snapshot: Snapshot, options: CleaningOptions, now_ms: int, seen: CleanScan | None = None
) -> CleanPlan:
    """The plan of a clean of the newest snapshot; an empty one when there is nothing to do.

    `seen` is an earlier look that found nothing, or nothing that is still there.
    """
    timeline = snapshot.timeline
    newest = timeline.last_completed
    by_versions = options.policy is CleaningPolicy.VERSIONS
    earliest = None if by_versions else earliest_retained(timeline, options, now_ms)
    nothing = CleanPlan(options.policy.value, earliest, "")
    if newest is None or (earliest is None and not by_versions):
        return nothing
    partitions = _touched(timeline, earliest, seen) if options.incremental and earliest else None
    found = listed(snapshot, partitions)
    needed = needed_files(snapshot, found)
    replaced = _replaced(timeline, earliest)
    files: dict[str, tuple[str, ...]] = {}
    empty = []
    for partition in sorted(found):
        rules = _Rules(options, earliest, replaced, needed)
        groups = all_versions(partition, found[partition], snapshot.visibility)
        gone = sorted(name for versions in groups.values() for name in rules.removable(versions))
        if gone:
            files[partition] = tuple(gone)
        data = [name for name, _ in found[partition] if parse_data_file(name, 0) is not None]
        if partition and len(gone) == len(data):
            empty.append(partition)
    # A writer that goes on may be about to put a file there.
    dropped = () if timeline.pending_of(*_WRITERS) else tuple(empty)
    savepoints = ",".join(sorted(timeline.savepoints()))
    return CleanPlan(
        policy=options.policy.value,
        earliest=earliest,
        last_completed=newest.requested_time,
        files=files,
        partitions=dropped,
        extra={SAVEPOINTS_KEY: savepoints} if savepoints else {},
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    options: CleaningOptions
    earliest: Instant | None
    replaced: frozenset[FileSliceId]
    needed: frozenset[DataFile]

    def removable(self, versions: Sequence[FileSlice]) -> Iterable[str]:
        """The names of all files of a group that may go."""
        for version in self._old(versions):
            places = [(version.partition, name) for name in version.file_names]
            if not self.needed.intersection(places):
                yield from version.file_names

    def _old(self, versions: Sequence[FileSlice]) -> Sequence[FileSlice]:
        if versions[0].id in self.replaced:
            return versions
        if self.earliest is None:
            return versions[: max(0, len(versions) - self.options.versions)]
        limit = instant_key(self.earliest.requested_time)
        before = sum(instant_key(version.base_instant) < limit for version in versions)
        return versions[: max(0, before - 1)]


def _replaced(timeline: Timeline, earliest: Instant | None) -> frozenset[FileSliceId]:
    """The groups that were replaced before the earliest retained instant, or at all."""
    found: set[FileSliceId] = set()
    for instant in timeline.write_instants():
        if instant.action is Action.REPLACECOMMIT and (earliest is None or instant < earliest):
            for partition, ids in timeline.commit_summary(instant).replaced_file_ids.items():
                found.update(FileSliceId(partition, file_id) for file_id in ids)
    return frozenset(found)


def _touched(timeline: Timeline, earliest: Instant, seen: CleanScan | None) -> set[str] | None:
    """The partitions that may have got old versions since the last look; None means all."""
    look = _later(seen, _last_scan(timeline))
    if look is None or not look.savepoints <= set(timeline.savepoints()):
        return None
    first, done = instant_key(look.earliest), instant_key(look.at)
    partitions: set[str] = set()
    for instant in timeline.write_instants():
        is_late = instant_key(instant.completion_time or "") > done
        if instant < earliest and (instant_key(instant.requested_time) >= first or is_late):
            partitions |= _rewritten(timeline.commit_metadata(instant))
    return partitions


def _last_scan(timeline: Timeline) -> CleanScan | None:
    last = last_clean(timeline)
    if last is None:
        return None
    outcome = clean_outcome(timeline, last)
    if not outcome.earliest:
        return None
    return CleanScan(outcome.earliest, last.requested_time, outcome.savepoints)


def _later(one: CleanScan | None, other: CleanScan | None) -> CleanScan | None:
    found = [each for each in (one, other) if each is not None]
    return max(found, key=lambda each: (instant_key(each.at), each.earliest), default=None)


def _rewritten(metadata: CommitMetadata) -> set[str]:
    """The partitions in which a commit left an older version of a file group behind."""
    found = set(metadata.replaced_file_ids)
    for partition, stats in metadata.partition_to_stats.items():
        if metadata.compacted or any(
            not stat.log_files and stat.prev_commit not in (None, "null") for stat in stats
        ):
            found.add(partition)
    return found


def listed(snapshot: Snapshot, partitions: Collection[str] | None) -> Listed:
    """The data files of some partitions, or of all, with their sizes."""
    if partitions is None:
        return snapshot.listing.files
    if not partitions:
        return {}
    if snapshot.metadata is None:
        return {path: _on_store(snapshot, path) for path in partitions}
    return _in_metadata(snapshot.metadata, partitions)


def _on_store(snapshot: Snapshot, partition: str) -> list[tuple[str, int]]:
    found = snapshot.storage.list(partition)
    names = ((info.path.rpartition("/")[2], info.size_bytes) for info in found)
    return [(name, size) for name, size in names if parse_data_file(name, size) is not None]


def _in_metadata(metadata: MetadataTable, partitions: Collection[str]) -> Listed:
    by_key: Mapping[str, str] = {partition_key(path): path for path in partitions}
    records = metadata.lookup("files", pa.array(list(by_key), pa.string()))
    found: Listed = {}
    maps = records[FILES_PAYLOAD].to_pylist()
    for key, entries in zip(records["key"].to_pylist(), maps, strict=True):
        found[by_key[key]] = [(name, info["size"]) for name, info in entries or ()]
    return found


_METAFILE = ".hoodie_partition_metadata"
_META_FOLDER = ".hoodie"
_FEW_FILES = 200
Files = Mapping[str, Sequence[str]]
_last_scans: dict[str, CleanScan] = {}
"""By the root of a table: looks of this process that found nothing, and so left no instant."""
log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What a clean came to; `instants` is empty when there was nothing to remove."""

    instants: tuple[str, ...] = ()
    files: int = 0
    partitions: tuple[str, ...] = ()
    earliest_retained: str | None = None

    def as_dict(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "instants": list(self.instants),
            "files": self.files,
            "partitions": list(self.partitions),
            "earliest_retained": self.earliest_retained,
        }


def clean_table(
    address: StorageAddress,
    options: Mapping[str, str] | None = None,
    *,
    patience: TransactionOptions | None = None,
) -> CleanResult:
    """Carry out cleans that pend, then plan one and carry that out.

    Args:
        address: The address of the table.
        options: Hudi's options `hoodie.clean.*`; others are those that the table keeps.
        patience: How long to wait for the lock; by default what the options say.

    Raises:
        InvalidInput: an option is wrong.
        UnsupportedFeature: the table has a version that is only read.
        CommitConflict: other writers held the lock all the time.
    """
    given, storage = option_texts(options or {}), address.open()
    check_service_options(load_table_config(storage), given, CLEANING_OPTIONS, "clean")
    settings = {**read_own_properties(storage), **given}
    waits = patience or TransactionOptions.of(LockOptions.resolve(settings))
    return clean(address, CleaningOptions.resolve(settings), waits)


def clean(
    address: StorageAddress, options: CleaningOptions, patience: TransactionOptions
) -> CleanResult:
    """The same with options that are resolved already."""
    storage = address.open()
    result = run_pending_cleans(address, patience)
    begun = time.monotonic()
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        recover(table)
        remove_abandoned_indexes(storage, table.config)
        snapshot = Snapshot.open(storage)
        instant, plan = _schedule(table, snapshot, options)
        if instant is None:
            return result
        if plan.count <= _FEW_FILES:
            # Sooner done than the lock is taken once more. Where the plan came late others did not
            # see it, and may need what it names: then the next clean looks again.
            table.check()
            _begin(storage, table.config, instant)
            removed = _delete(storage, plan.files)
            return _joined(result, _complete(address, table, instant, plan, removed, begun))
    return _joined(result, _run(address, instant, patience))


def schedule_clean(
    address: StorageAddress, options: CleaningOptions, patience: TransactionOptions
) -> str | None:
    """Put the plan of a clean on the timeline; None when there is nothing to remove."""
    storage = address.open()
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        recover(table)
        return _schedule(table, Snapshot.open(storage), options)[0]


def _schedule(
    table: LockedTable, snapshot: Snapshot, options: CleaningOptions
) -> tuple[str | None, CleanPlan]:
    storage = table.storage
    plan = plan_clean(snapshot, options, time.time_ns() // 1_000_000, _last_scans.get(storage.root))
    if plan.is_empty:
        if plan.earliest is not None:
            savepoints = frozenset(snapshot.timeline.savepoints())
            _last_scans[storage.root] = CleanScan(
                plan.earliest.requested_time, table.next_time(), savepoints
            )
        return None, plan
    return put_plan(table, Action.CLEAN, plan.encode(storage.root)), plan


def run_pending_cleans(address: StorageAddress, patience: TransactionOptions) -> CleanResult:
    """Carry out the cleans that were planned and not completed."""
    snapshot = Snapshot.open(address.open())
    result = CleanResult()
    for pending in snapshot.timeline.pending_of(Action.CLEAN):
        result = _joined(result, _run(address, pending.requested_time, patience))
    return result


def drop_unreadable_cleans(
    address: StorageAddress, patience: TransactionOptions
) -> tuple[str, ...]:
    """Take pending cleans off the timeline whose plans cannot be read; answers their times."""
    timeline = Snapshot.open(address.open()).timeline
    dropped = []
    for pending in timeline.pending_of(Action.CLEAN):
        try:
            read_clean_plan(timeline, pending.requested_time)
        except (CorruptFile, FileMissing, UnsafePath) as error:
            _give_up(address, pending.requested_time, patience, str(error))
            dropped.append(pending.requested_time)
    return tuple(dropped)


def _run(address: StorageAddress, instant: str, patience: TransactionOptions) -> CleanResult:
    begun = time.monotonic()
    storage = address.open()
    snapshot = Snapshot.open(storage)
    try:
        plan = read_clean_plan(snapshot.timeline, instant)
    except (CorruptFile, FileMissing, UnsafePath) as error:
        return _give_up(address, instant, patience, str(error))
    saved = ",".join(sorted(snapshot.timeline.savepoints()))
    plan = replace(plan, extra={**plan.extra, SAVEPOINTS_KEY: saved} if saved else plan.extra)
    _begin(storage, snapshot.config, instant)
    removed = _delete(storage, _safe(snapshot, plan))
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        found = table.timeline().find(instant)
        if found is None or found.is_completed:
            return CleanResult()  # another process was faster
        return _complete(address, table, instant, plan, removed, begun)


def _begin(storage: Storage, config: TableConfig, instant: str) -> None:
    write_once(storage, config, Instant(instant, Action.CLEAN, State.INFLIGHT), b"")


def _delete(storage: Storage, files: Files) -> Files:
    delete_files(storage, [join(folder, name) for folder, names in files.items() for name in names])
    return files


def _complete(
    address: StorageAddress,
    table: LockedTable,
    instant: str,
    plan: CleanPlan,
    removed: Files,
    begun: float,
) -> CleanResult:
    dropped = _drop_partitions(table, plan)
    building: dict[str, IndexDefinition | None] = {}
    for build in active_builds(table.timeline(), table.config):
        building |= build.definitions_or_none
    commit_removal(address, instant, removed, dropped, next_time=table.next_time, building=building)
    taken_ms = int((time.monotonic() - begun) * 1000)
    done = Instant(instant, Action.CLEAN, State.COMPLETED, table.next_time())
    data = clean_metadata(plan, instant, removed, taken_ms, dropped)
    write_once(table.storage, table.config, done, data)
    earliest = plan.earliest.requested_time if plan.earliest else None
    if earliest is not None:
        timeline = table.timeline()
        kept = min([earliest, *timeline.savepoints()], key=instant_key)
        remove_outdated_rings(table.storage, timeline, kept)
    count = sum(len(names) for names in removed.values())
    log.info("cleaned %s at %s: %d files", table.storage.root, instant, count)
    return CleanResult((instant,), count, tuple(dropped), earliest)


def _give_up(
    address: StorageAddress, instant: str, patience: TransactionOptions, reason: str
) -> CleanResult:
    """Take a clean off the timeline whose plan cannot be read, so that it can never run."""
    storage = address.open()
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        found = table.timeline().find(instant)
        if found is not None and not found.is_completed:
            log.warning("dropping the pending clean %s: %s", instant, reason)
            remove_instant(storage, table.config, instant, Action.CLEAN)
    return CleanResult()


def _safe(snapshot: Snapshot, plan: CleanPlan) -> dict[str, tuple[str, ...]]:
    """The files of a plan that may go: data files of completed writes that no reader sees now.

    Nor does a savepoint keep them, or a plan name them, that was made after this one.
    """
    there = listed(snapshot, plan.files.keys())
    needed = needed_files(snapshot, there)
    read = {
        (partition, name)
        for partition, files in there.items()
        for current in latest_slices(partition, files, snapshot.visibility)
        for name in current.file_names
    }
    found: dict[str, tuple[str, ...]] = {}
    for partition, names in plan.files.items():
        kept = []
        for name in dict.fromkeys(names):
            parsed = parse_data_file(name, 0)
            is_inside = parsed is not None and partition.partition("/")[0] != _META_FOLDER
            if parsed is None or not is_inside:
                log.warning("passing over %r of the clean plan: it is no data file", name[:200])
            elif (partition, name) in read or (partition, name) in needed:
                log.warning("passing over %s/%s of the clean plan: it is needed", partition, name)
            elif snapshot.timeline.is_committed_write(parsed.instant_time):
                kept.append(name)
        if kept:
            found[partition] = tuple(kept)
    return found


def _drop_partitions(table: LockedTable, plan: CleanPlan) -> list[str]:
    """Remove the folders of partitions that are empty, while no writer is active."""
    if any(each.action.is_write for each in table.timeline().pending()):
        return []
    gone = []
    for partition in plan.partitions:
        if not partition or partition.partition("/")[0] == _META_FOLDER:
            continue
        left = {split(info.path)[1] for info in table.storage.list_recursive(partition)}
        if left <= {_METAFILE}:
            table.check()
            table.storage.delete_folder(partition)
            gone.append(partition)
    return gone


def _joined(one: CleanResult, other: CleanResult) -> CleanResult:
    return CleanResult(
        (*one.instants, *other.instants),
        one.files + other.files,
        (*one.partitions, *other.partitions),
        other.earliest_retained or one.earliest_retained,
    )


def is_due(address: StorageAddress, timeline: Timeline, options: CleaningOptions) -> bool:
    """Whether enough was committed since the last clean, or since the last look for one."""
    return is_clean_due(timeline, options, _last_scans.get(address.open().root))


def forget_scans(storage: Storage) -> None:
    """Let the next clean of a table look at all of it, as after a restore."""
    _last_scans.pop(storage.root, None)


def clean_metadata_table(table: LockedTable) -> int:
    """Remove the files of old versions; answer how many. The lock of the data table is held."""
    opened = open_metadata_table(table.storage)
    if opened is None:
        return 0
    storage, config = opened
    timeline = Timeline.load(storage, config)
    pending = timeline.pending_of(Action.CLEAN)
    count = sum(_run_in_metadata(table, storage, timeline, each.requested_time) for each in pending)
    if not _has_compacted(timeline):
        return count
    files = _old_metadata_files(storage, timeline, table.timeline(), table)
    newest = timeline.last_completed
    if not files or newest is None:
        return count
    policy = CleaningPolicy.VERSIONS.value
    plan = CleanPlan(policy, None, newest.requested_time, files)
    instant = table.next_time()
    requested = Instant(instant, Action.CLEAN, State.REQUESTED)
    with table.claim(instant):
        write_once(storage, config, requested, plan.encode(storage.root))
    return count + _run_in_metadata(table, storage, timeline, instant)


def _has_compacted(timeline: Timeline) -> bool:
    """Whether a compaction was done since the last clean: only these make versions."""
    last = last_clean(timeline)
    compactions = [each for each in timeline.write_instants() if each.action is Action.COMMIT]
    return bool(compactions) and (last is None or compactions[-1] > last)


def _old_metadata_files(
    storage: Storage, timeline: Timeline, data: Timeline, table: LockedTable
) -> dict[str, tuple[str, ...]]:
    visibility = Visibility(
        is_visible=lambda time: timeline.is_committed_write(time) and not data.is_pending(time),
        completion_time=timeline.completion_time_or_self,
        logs_name_own_instant=True,
    )
    planned = {
        (operation.partition_path, name)
        for pending in timeline.pending_of(Action.COMPACTION, Action.LOGCOMPACTION)
        for operation in timeline.compaction_plan(pending.requested_time).operations
        for name in (operation.data_file, *operation.log_files)
    }
    found: dict[str, tuple[str, ...]] = {}
    for partition in load_table_config(table.storage).metadata_partitions:
        prefix = metadata_partition(partition).file_id_prefix
        listed = [(split(info.path)[1], info.size_bytes) for info in storage.list(partition)]
        names = [
            name
            for file_id, versions in all_versions(partition, listed, visibility).items()
            if file_id.startswith(prefix)
            for version in versions[:-_METADATA_VERSIONS]
            for name in version.file_names
            if (partition, name) not in planned
        ]
        if names:
            found[partition] = tuple(sorted(names))
    return found


def _run_in_metadata(table: LockedTable, storage: Storage, timeline: Timeline, instant: str) -> int:
    begun = time.monotonic()
    config = timeline.config
    requested = Instant(instant, Action.CLEAN, State.REQUESTED)
    try:
        plan = CleanPlan.decode(timeline.read(requested), path=f"clean {instant}")
    except (CorruptFile, FileMissing, UnsafePath) as error:
        log.warning("dropping the clean %s of the metadata table: %s", instant, error)
        remove_instant(storage, config, instant, Action.CLEAN)
        return 0
    write_once(storage, config, Instant(instant, Action.CLEAN, State.INFLIGHT), b"")
    files = _metadata_files(plan.files)
    paths = [join(partition, name) for partition, names in files.items() for name in names]
    table.check()
    delete_files(storage, paths)
    done = Instant(instant, Action.CLEAN, State.COMPLETED, table.next_time())
    taken_ms = int((time.monotonic() - begun) * 1000)
    write_once(storage, config, done, clean_metadata(plan, instant, files, taken_ms))
    return len(paths)


def _metadata_files(files: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {
        partition: tuple(name for name in names if parse_data_file(name, 0) is not None)
        for partition, names in files.items()
        if partition and not partition.startswith(".")
    }
