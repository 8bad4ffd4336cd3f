"""Compaction of the metadata table, of whole file groups or of their log blocks alone.

The log files of every file group go into a new base file. It is planned at one moment, under the
lock of the data table: its instant lies after the completion of every deltacommit that it takes in,
and before that of every later one. A plan whose work was cut short is carried out by the next
writer.

Log compaction makes one of many log blocks. It is cheaper, as base files are neither read nor
written, and keeps the number of blocks small that readers go through between two compactions. The
new block names the instants whose blocks it replaces; those stay in place until they are cleaned
away.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.config import keys as names
from lakedex.engine import Engine
from lakedex.errors import CorruptFile, FileMissing
from lakedex.filegroup.names import BaseFile, LogFile, base_file_name, parse_data_file
from lakedex.filegroup.slices import FileSlice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import HFileBuilder
from lakedex.index.metadata_table.group_files import (
    EXTENSION,
    HFILE_OPTIONS,
    MAX_KEY,
    MIN_KEY,
    TOKEN,
    GroupChange,
    GroupFile,
    publish,
    write_log,
    write_while_pending,
)
from lakedex.index.metadata_table.group_merge import log_changes, merged_records
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.index.metadata_table.instants import (
    FIRST_TIMES,
    MetadataStore,
    NextTime,
    base_stat,
    is_ahead,
    log_stat,
    planned_operation,
    require_version,
    shares_of_groups,
)
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import (
    Action,
    CompactionPlan,
    Instant,
    State,
    Timeline,
    WriteStat,
    load_table_config,
)

_log = logging.getLogger("lakedex")

_FIRST_LOG_BYTES = 80
"""The size of the log file by which a file group comes to be."""
_PATIENCE = 3
_OPERATION = "COMPACT"
_COMPACTOR = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
_LOG_OPERATION = "LOG_COMPACT"
_MOST_BYTES = 64 << 20
"""A block is made in memory, so groups with more bytes in log files wait for a compaction."""


def compact_if_due(
    address: StorageAddress,
    engine: Engine,
    *,
    max_delta_commits: int,
    next_time: NextTime,
    has_pending: bool,
) -> str | None:
    """Compact the metadata table when enough deltacommits have gathered.

    The caller holds the table's lock, and is not between the metadata table's deltacommit and the
    completion of its own instant. A compaction that was begun and cut short is finished first.

    Args:
        address: Where the data table lies.
        engine: Runs the workers that merge file groups.
        max_delta_commits: How many deltacommits since the last compaction make one due.
        next_time: Gives times that grow.
        has_pending: Whether other instants pend in the data table. Their metadata may be taken back
            soon, so compaction waits, but not for ever: three times as many deltacommits.

    Returns:
        The compaction's instant, or None when there was none.

    Raises:
        UnsupportedFeature: the table has an older version.
    """
    table = address.open()
    config = load_table_config(table)
    if not config.metadata_enabled:
        return None
    require_version(config)
    store = MetadataStore.open(address)
    if store.timeline.pending_of(Action.LOGCOMPACTION):
        drop_pending(store)  # case B44: metadata compaction behind a pending instant
        store = MetadataStore.open(address)
    data = Timeline.load(table, config)
    finished = _finish_pending(address, engine, store, data, next_time)
    if finished is not None:
        return finished
    is_due = is_compaction_due(
        store.timeline, data, max_delta_commits=max_delta_commits, has_pending=has_pending
    )
    if not is_due:
        return None
    slices = _slices(store, config, data)
    if not slices:
        return None
    time = next_time()
    plan = CompactionPlan(tuple(planned_operation(group) for group in slices))
    pending = store.begin(time, Action.COMPACTION, plan.encode())
    return _execute(address, engine, store, data, time, pending, slices, next_time)


def is_compaction_due(
    metadata: Timeline, data: Timeline, *, max_delta_commits: int, has_pending: bool
) -> bool:
    """Whether enough deltacommits have gathered; the arguments are those of `compact_if_due`."""
    due = max(1, max_delta_commits) * (_PATIENCE if has_pending else 1)
    gathered = _delta_commits(metadata, with_first=not has_pending)
    return gathered >= due and not is_ahead(metadata, data)


def _delta_commits(timeline: Timeline, *, with_first: bool) -> int:
    """How many deltacommits completed since the last compaction, as Hudi counts before a write.

    With `with_first` those that made the partitions count too, until the first compaction. One of
    them is left out, because Hudi does not count the write that has just completed.
    """
    completed = timeline.completed()
    compactions = [each.requested_time for each in completed if each.action is Action.COMMIT]
    last = max(compactions, default="")
    deltas = [
        each
        for each in completed
        if each.action is Action.DELTACOMMIT
        and timeline.requested_action(each.requested_time) is not Action.LOGCOMPACTION
        and (each.completion_time or each.requested_time) > last
    ]
    first = sum(each.requested_time.startswith(FIRST_TIMES) for each in deltas)
    made = max(0, first - 1) if with_first and not compactions else 0
    return len(deltas) - first + made


def _slices(store: MetadataStore, config: TableConfig, data: Timeline) -> list[FileSlice]:
    """The file groups that have log files with changes."""
    return [
        group
        for name in config.metadata_partitions
        for group in store.slices(name, data)
        if any(log.size_bytes > _FIRST_LOG_BYTES for log in group.logs)
    ]


def _finish_pending(
    address: StorageAddress,
    engine: Engine,
    store: MetadataStore,
    data: Timeline,
    next_time: NextTime,
) -> str | None:
    """Carry out what was planned and not completed; drop a plan that cannot be carried out."""
    finished = None
    for pending in store.timeline.pending_of(Action.COMPACTION):
        time = pending.requested_time
        try:
            slices = _planned(store, store.timeline.compaction_plan(time))
        except (CorruptFile, FileMissing):
            store.discard(time, Action.COMPACTION)
            continue
        if not _covers_all(store, data, time, slices):
            _log.warning(
                "the plan %s to compact the metadata table leaves out files; it is removed", time
            )
            store.discard(time, Action.COMPACTION)
            continue
        for partition in {group.partition for group in slices}:
            store.storage.remove_leftovers(partition)
        inflight = Instant(time, Action.COMPACTION, State.INFLIGHT)
        if pending.state is State.REQUESTED:
            store.storage.create(store.path_of(inflight), b"")
        path = store.path_of(inflight)
        finished = _execute(address, engine, store, data, time, path, slices, next_time)
    return finished


def _covers_all(
    store: MetadataStore, data: Timeline, time: str, planned: Sequence[FileSlice]
) -> bool:
    """Whether a plan has every file of its groups that is older than its instant.

    What it leaves out, the new base file would hide.
    """
    completion = store.timeline.completion_time_or_self
    current = {
        (group.partition, group.file_id): group
        for name in {each.partition for each in planned}
        for group in store.slices(name, data)
    }
    for each in planned:
        now = current.get((each.partition, each.file_id))
        if now is None:
            continue
        known = {log.name for log in each.logs}
        older = {log.name for log in now.logs if completion(log.instant_time) < time}
        if now.base != each.base or not older <= known:
            return False
    return True


def _planned(store: MetadataStore, plan: CompactionPlan) -> list[FileSlice]:
    """The file groups of a plan, with the files as they are there now.

    Raises:
        FileMissing: a file is gone.
        CorruptFile: a name is no file of such a group.
    """
    sizes: dict[str, dict[str, int]] = {}
    slices = []
    for operation in plan.operations:
        name = operation.partition_path
        if name not in sizes:
            listed = store.storage.list(name)
            sizes[name] = {info.path.rpartition("/")[2]: info.size_bytes for info in listed}
        files = [
            _parsed(file, sizes[name], name)
            for file in (operation.data_file, *operation.log_files)
            if file is not None
        ]
        logs = [file for file in files if isinstance(file, LogFile)]
        completion = store.timeline.completion_time_or_self
        logs.sort(key=lambda log: (completion(log.instant_time), log.version, log.token_parts))
        base = next((file for file in files if isinstance(file, BaseFile)), None)
        slices.append(
            FileSlice(name, operation.file_id, operation.base_instant_time or "", base, tuple(logs))
        )
    return slices


def _parsed(name: str, sizes: dict[str, int], partition: str) -> BaseFile | LogFile:
    if name not in sizes:
        raise FileMissing(f"{partition}/{name}, which a compaction is to read, is gone")
    parsed = parse_data_file(name, sizes[name])
    if parsed is None:
        raise CorruptFile(partition, 0, expected="a base or log file", actual=name)
    return parsed


def _execute(
    address: StorageAddress,
    engine: Engine,
    store: MetadataStore,
    data: Timeline,
    time: str,
    pending: str,
    slices: Sequence[FileSlice],
    next_time: NextTime,
) -> str:
    exact = store.exact(data, sorted({group.partition for group in slices}))
    committed = frozenset(log.instant_time for group in slices for log in group.logs)
    job = CompactionJob(address, time, pending, committed)
    shares = shares_of_groups(slices, engine.parallelism)
    answers = engine.map("compact the metadata table", partial(compact_groups, job), shares)
    before = {(group.partition, group.file_id): group for group in slices}
    stats = [
        _stat(file, before[file.partition, file.file_id]) for files in answers for file in files
    ]
    completed = Instant(time, Action.COMPACTION, State.COMPLETED, next_time())
    store.complete(completed, stats, _OPERATION, store.exact_note(data, exact, completed))
    return time


def _stat(file: GroupFile, before: FileSlice) -> WriteStat:
    stat = base_stat(file, before.base_instant)
    counted = {
        "totalLogFiles": len(before.logs),
        "totalLogFilesCompacted": len(before.logs),
        "totalLogSizeCompacted": sum(log.size_bytes for log in before.logs),
        "totalLogBlocks": len(before.logs),
        "totalLogRecords": file.records,
    }
    return replace(stat, other=counted, prev_base_file=before.base.name if before.base else None)


def log_compact_if_due(
    address: StorageAddress, engine: Engine, *, most_blocks: int, next_time: NextTime
) -> str | None:
    """Put the log blocks of file groups together that have so many.

    The caller holds the table's lock, and is not between the metadata table's deltacommit and the
    completion of its own instant.

    Args:
        address: Where the data table lies.
        engine: Runs the workers.
        most_blocks: How many log files since the last time make a group due.
        next_time: Gives times that grow.

    Returns:
        The instant, or None when no group was due.
    """
    table = address.open()
    config = load_table_config(table)
    if not config.metadata_enabled:
        return None
    require_version(config)
    store = MetadataStore.open(address)
    drop_pending(store)
    data = Timeline.load(table, config)
    if is_ahead(store.timeline, data):
        return None
    slices = [
        group
        for name in config.metadata_partitions
        for group in store.slices(name, data)
        if _fresh_logs(store.timeline, group) >= most_blocks
        and sum(log.size_bytes for log in group.logs) <= _MOST_BYTES
    ]
    if not slices:
        return None
    exact = store.exact(data, sorted({group.partition for group in slices}))
    time = next_time()
    strategy = {"compactorClassName": _COMPACTOR, "strategyParams": {}, "version": 1}
    operations = tuple(planned_operation(group) for group in slices)
    plan = CompactionPlan(operations, strategy=strategy, preserve_metadata=True)
    pending = store.begin(time, Action.LOGCOMPACTION, plan.encode())
    committed = frozenset(log.instant_time for group in slices for log in group.logs)
    job = CompactionJob(address, time, pending, committed)
    shares = shares_of_groups(slices, engine.parallelism)
    answers = engine.map("put log blocks together", partial(_merge_groups, job), shares)
    done = Instant(time, Action.LOGCOMPACTION, State.COMPLETED, next_time())
    stats = (log_stat(file, time) for own in answers for file in own)
    store.complete(done, stats, _LOG_OPERATION, store.exact_note(data, exact, done))
    return time


def drop_pending(store: MetadataStore) -> None:
    """Take back log compactions that were cut short: they can be planned anew at any time."""
    for instant in store.timeline.pending_of(Action.LOGCOMPACTION):
        store.discard(instant.requested_time, Action.LOGCOMPACTION)


def _fresh_logs(timeline: Timeline, group: FileSlice) -> int:
    """How many log files came after the last one that a log compaction wrote."""
    count = 0
    for log in reversed(group.logs):
        if timeline.requested_action(log.instant_time) is Action.LOGCOMPACTION:
            break
        count += 1
    return count


def _merge_groups(job: CompactionJob, groups: Sequence[FileSlice]) -> list[GroupFile]:
    """The worker: one new log file for each group."""
    storage = job.address.open().sub(names.METADATA_TABLE_FOLDER)
    files = []
    for group in groups:
        described = metadata_partition(group.partition)
        logs_only = replace(group, base=None)
        reader = GroupReader(storage, described, logs_only, job.committed.__contains__)
        changed = log_changes(described, reader)
        live = changed.values.is_valid()
        change = GroupChange(
            group.file_id,
            changed.keys.filter(live).cast(pa.string()),
            changed.values.filter(live).cast(pa.binary()),
            changed.keys.filter(pc.invert(live)).cast(pa.string()),
        )
        replaced = tuple(dict.fromkeys(block.instant_time for block in reader.log_blocks))
        write = partial(write_log, storage, group.partition, job.instant, change, replaces=replaced)
        files.append(write_while_pending(storage, job.instant, job.pending_path, write))
    return files


@dataclass(frozen=True)
class CompactionJob:
    """What all tasks of one compaction, or of one of log blocks alone, know."""

    address: StorageAddress
    instant: str
    pending_path: str
    """The inflight file of the compaction: once it is gone, nobody wants the files any more."""
    committed: frozenset[str]
    """The instants whose log blocks count."""


def compact_groups(job: CompactionJob, groups: Sequence[FileSlice]) -> list[GroupFile]:
    """Write the new base files of some file groups, one after the other."""
    storage = job.address.open().sub(names.METADATA_TABLE_FOLDER)
    return [_compact(storage, job, group) for group in groups]


def _compact(storage: Storage, job: CompactionJob, group: FileSlice) -> GroupFile:
    """Merge a group into a file of this machine, then put that in its place in one step."""
    described = metadata_partition(group.partition)
    reader = GroupReader(storage, described, group, job.committed.__contains__)
    with TemporaryFile(prefix="lakedex-base-") as file:
        builder = HFileBuilder(HFILE_OPTIONS, sink=file)
        for records in merged_records(described, reader):
            builder.add(records.keys, records.values)
        info = {"schema": METADATA_RECORD_SCHEMA.encode()}
        if builder.first_key is not None and builder.last_key is not None:
            info |= {MIN_KEY: builder.first_key, MAX_KEY: builder.last_key}
        builder.finish(file_info=info)
        file.flush()
        name = base_file_name(group.file_id, TOKEN, job.instant, EXTENSION)

        def write() -> GroupFile:
            with mmap(file.fileno(), 0, access=ACCESS_READ) as data, memoryview(data) as view:
                size = publish(storage, f"{group.partition}/{name}", view)
            counts = size, builder.entry_count
            return GroupFile(group.partition, group.file_id, name, *counts, is_log=False)

        return write_while_pending(storage, job.instant, job.pending_path, write)
