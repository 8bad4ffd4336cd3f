"""Log compaction of the metadata table: many log blocks of a file group become one.

It is cheaper than a compaction, as base files are neither read nor written, and keeps the number of
blocks small that readers go through between two compactions. The new block names the instants whose
blocks it replaces; those stay in place until they are cleaned away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import keys as names
from lakedex.engine import Engine
from lakedex.filegroup.slices import FileSlice
from lakedex.index.metadata_table.compaction_worker import CompactionJob
from lakedex.index.metadata_table.group_files import (
    GroupChange,
    GroupFile,
    write_log,
    write_while_pending,
)
from lakedex.index.metadata_table.group_merge import log_changes
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.index.metadata_table.instants import (
    MetadataStore,
    NextTime,
    is_ahead,
    log_stat,
    planned_operation,
    require_version,
    shares_of_groups,
)
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.storage.open import StorageAddress
from lakedex.timeline import (
    Action,
    CompactionPlan,
    Instant,
    State,
    Timeline,
    load_table_config,
)

_COMPACTOR = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
_OPERATION = "LOG_COMPACT"
_MOST_BYTES = 64 << 20
"""A block is made in memory, so groups with more bytes in log files wait for a compaction."""


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
    store.complete(done, stats, _OPERATION, store.exact_note(data, exact, done))
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
