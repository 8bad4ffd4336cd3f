"""Cleans the metadata table: the last two versions of each file group stay, as Hudi keeps them.

A reader that began before the last compaction still finds the version before it. The clean stands
on the metadata table's own timeline; one that was cut short is carried out by the next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from lakedex.config.service_options import CleaningPolicy
from lakedex.errors import CorruptFile, FileMissing, UnsafePath
from lakedex.filegroup import Visibility, all_versions, parse_data_file
from lakedex.index.metadata_table import metadata_partition
from lakedex.storage import Storage, join, split
from lakedex.timeline import Action, Instant, State, Timeline, load_table_config
from lakedex.timeline.clean_plan import CleanPlan, clean_metadata
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.rollback import LockedTable, delete_files, remove_instant, write_once
from lakedex.upkeep.retained import last_clean

_KEPT_VERSIONS = 2
log = logging.getLogger("lakedex")


def clean_metadata_table(table: LockedTable) -> int:
    """Remove the files of old versions; answer how many. The lock of the data table is held."""
    opened = open_metadata_table(table.storage)
    if opened is None:
        return 0
    storage, config = opened
    timeline = Timeline.load(storage, config)
    pending = timeline.pending_of(Action.CLEAN)
    count = sum(_run(table, storage, timeline, each.requested_time) for each in pending)
    if not _has_compacted(timeline):
        return count
    files = _old_files(storage, timeline, table.timeline(), table)
    newest = timeline.last_completed
    if not files or newest is None:
        return count
    policy = CleaningPolicy.VERSIONS.value
    plan = CleanPlan(policy, None, newest.requested_time, files)
    instant = table.next_time()
    requested = Instant(instant, Action.CLEAN, State.REQUESTED)
    with table.claim(instant):
        write_once(storage, config, requested, plan.encode(storage.root))
    return count + _run(table, storage, timeline, instant)


def _has_compacted(timeline: Timeline) -> bool:
    """Whether a compaction was done since the last clean: only these make versions."""
    last = last_clean(timeline)
    compactions = [each for each in timeline.write_instants() if each.action is Action.COMMIT]
    return bool(compactions) and (last is None or compactions[-1] > last)


def _old_files(
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
            for version in versions[:-_KEPT_VERSIONS]
            for name in version.file_names
            if (partition, name) not in planned
        ]
        if names:
            found[partition] = tuple(sorted(names))
    return found


def _run(table: LockedTable, storage: Storage, timeline: Timeline, instant: str) -> int:
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
    files = _data_files(plan.files)
    paths = [join(partition, name) for partition, names in files.items() for name in names]
    table.check()
    delete_files(storage, paths)
    done = Instant(instant, Action.CLEAN, State.COMPLETED, table.next_time())
    taken_ms = int((time.monotonic() - begun) * 1000)
    write_once(storage, config, done, clean_metadata(plan, instant, files, taken_ms))
    return len(paths)


def _data_files(files: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {
        partition: tuple(name for name in names if parse_data_file(name, 0) is not None)
        for partition, names in files.items()
        if partition and not partition.startswith(".")
    }
