"""Removes old versions of files, as a clean on the timeline.

    plan       under the lock: T.clean.requested, T.clean.inflight
    delete     without the lock: nobody reads these files any more, and a second try does no harm
    complete   under the lock: the metadata table forgets the files, then T_C.clean

A clean that was cut short pends, whoever planned it; the next clean carries it out first. Names in
a plan are believed only as far as they name data files of the table that no present reader needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakedex.config import TableConfig
from lakedex.config.option_check import check_options, option_texts
from lakedex.config.upkeep_options import CleaningOptions
from lakedex.errors import CorruptFile, FileMissing, UnsafePath
from lakedex.filegroup import latest_slices, parse_data_file
from lakedex.index.builds import active_builds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.removal import commit_removal
from lakedex.storage import Storage, join, split
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import Action, Instant, State, Timeline
from lakedex.timeline.clean_plan import (
    SAVEPOINTS_KEY,
    CleanPlan,
    clean_metadata,
    read_clean_plan,
)
from lakedex.txn.begin import locked_table, put_plan
from lakedex.txn.file_index_builders import remove_abandoned_indexes
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.rollback_files import delete_files, remove_instant, write_once
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.clean_planning import listed, plan_clean
from lakedex.upkeep.needed_files import needed_files
from lakedex.upkeep.retained import Look, is_clean_due

_METAFILE = ".hoodie_partition_metadata"
_META_FOLDER = ".hoodie"
_FEW_FILES = 200
Files = Mapping[str, Sequence[str]]
_looks: dict[str, Look] = {}
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
        address: Where the table lies.
        options: Hudi's options `hoodie.clean.*`; others are those that the table keeps.
        patience: How long to wait for the lock.

    Raises:
        InvalidInput: an option is wrong.
        UnsupportedFeature: the table has a version that is only read.
        CommitConflict: other writers held the lock all the time.
    """
    given = option_texts(options or {})
    check_options(given)
    kept = read_own_properties(address.open())
    chosen = CleaningOptions.resolve({**kept, **given})
    return clean(address, chosen, patience or TransactionOptions())


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
    plan = plan_clean(snapshot, options, time.time_ns() // 1_000_000, _looks.get(storage.root))
    if plan.is_empty:
        if plan.earliest is not None:
            savepoints = frozenset(snapshot.timeline.savepoints())
            _looks[storage.root] = Look(plan.earliest.requested_time, table.next_time(), savepoints)
        return None, plan
    return put_plan(table, Action.CLEAN, plan.encode(storage.root)), plan


def run_pending_cleans(address: StorageAddress, patience: TransactionOptions) -> CleanResult:
    """Carry out the cleans that somebody planned and did not finish."""
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
            return CleanResult()  # somebody else was faster
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
    count = sum(len(names) for names in removed.values())
    log.info("cleaned %s at %s: %d files", table.storage.root, instant, count)
    return CleanResult((instant,), count, tuple(dropped), earliest)


def _give_up(
    address: StorageAddress, instant: str, patience: TransactionOptions, reason: str
) -> CleanResult:
    """Take a clean off the timeline whose plan cannot be read: nobody can ever carry it out."""
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
    """Remove the folders of partitions that are empty, while nobody writes."""
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
    return is_clean_due(timeline, options, _looks.get(address.open().root))


def forget_looks(storage: Storage) -> None:
    """Let the next clean of a table look at all of it, as after a restore."""
    _looks.pop(storage.root, None)
