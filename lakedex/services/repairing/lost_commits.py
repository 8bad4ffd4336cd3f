"""Puts instants back on the timeline whose files are all gone.

The metadata table has every completed write and clean under its own instant time, with the files
that it added or removed; those files are read as for a commit whose own file is damaged
(`commit_files.py`). Which file groups a write replaced is told by the record index, which has no
entry of them any more. What none of these tells is named, and nothing is written then.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.config import TableType
from lakedex.errors import TimelineDamaged
from lakedex.filegroup import FileSlice, FileSliceId, parse_data_file
from lakedex.filegroup.names import LogFile
from lakedex.index.metadata_table import NON_PARTITIONED_KEY, Kind, metadata_partition
from lakedex.index.metadata_table.group_reader import GroupReader, Selection
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.index.metadata_table.partitions import FILES_PAYLOAD
from lakedex.index.registry import live_file_groups
from lakedex.services.repairing.commit_files import rebuilt_commit
from lakedex.storage import Storage, join, split
from lakedex.table import Snapshot
from lakedex.table.lost_instants import is_timeline_lost, lost_instants
from lakedex.timeline import (
    Action,
    CompactionPlan,
    Instant,
    RequestedReplace,
    State,
    Timeline,
    encode_commit_metadata,
    instant_key,
)
from lakedex.timeline.clean_plan import CleanPlan, clean_metadata
from lakedex.timeline.instant_time import next_instant_time
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.rollback import LockedTable
from lakedex.txn.rollback_files import write_once

_FILES = Kind.FILES.value
_COMMIT_TIME = "_hoodie_commit_time"
_POLICY = "KEEP_LATEST_COMMITS"
_FilesByPartition: TypeAlias = dict[str, list[str]]
_log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class _Lost:
    """An instant that is to be put back, and the files that it added and removed, by partition."""

    instant: Instant
    added: Mapping[str, Sequence[str]]
    removed: Mapping[str, Sequence[str]]
    planned: Action
    """The action that it was requested as: `compaction` for its `commit`."""


def rebuild_lost_instants(table: LockedTable) -> tuple[str, ...]:
    """Put lost instants back on the timeline; which these are.

    Raises:
        TimelineDamaged: what an instant did cannot be told; nothing was written.
    """
    opened, data = open_metadata_table(table.storage), table.timeline()
    if opened is None or not table.config.metadata_enabled:
        if is_timeline_lost(data, None):
            raise _cannot(data, "only a metadata table could show which writes completed")
        return ()
    store = MetadataStore(*opened, Timeline.load(*opened))
    times = lost_instants(data, store.timeline)
    if not times:
        if is_timeline_lost(data, store.timeline):
            raise _cannot(data, "the metadata table does not have the instants that wrote the data")
        return ()
    lost = [_of_metadata(table, store, time) for time in sorted(times, key=instant_key)]
    snapshot = _with_instants(table, data, lost)
    lost = [_with_replaced(snapshot, each) for each in lost]
    snapshot = _with_instants(table, data, lost)
    bodies = [_body(snapshot, each) for each in lost]
    for each, (plan, body) in zip(lost, bodies, strict=True):
        _log.warning("%s is put back on the timeline", each.instant.requested_time)
        table.check()
        for state, content in ((State.REQUESTED, plan), (State.INFLIGHT, b"")):
            begun = Instant(each.instant.requested_time, each.planned, state)
            write_once(table.storage, table.config, begun, content)
        write_once(table.storage, table.config, each.instant, body)
    return tuple(each.instant.requested_time for each in lost)


def _cannot(data: Timeline, problem: str) -> TimelineDamaged:
    return TimelineDamaged(
        data.config.timeline_folder, f"it cannot be rebuilt, as {problem}", can_be_rebuilt=False
    )


def _of_metadata(table: LockedTable, store: MetadataStore, time: str) -> _Lost:
    """What an instant did to the files of the table, as the metadata table has it."""
    found = store.timeline.find(time)
    done = next_instant_time((found and found.completion_time) or time)
    added, removed = _changed_files(store.storage, time)
    planned = _action(table, time, added, is_clean=bool(removed) and not added)
    completed = Instant(time, planned.completed, State.COMPLETED, done)
    return _Lost(completed, added, removed, planned)


def _changed_files(
    storage: Storage, time: str
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The data files that an instant added and removed, by partition."""
    added: dict[str, list[str]] = defaultdict(list)
    removed: dict[str, list[str]] = defaultdict(list)
    for info in storage.list(_FILES):
        log = parse_data_file(split(info.path)[1], info.size_bytes)
        if not isinstance(log, LogFile) or log.instant_time != time:
            continue
        group = FileSlice(_FILES, log.file_id, time, None, (log,))
        reader = GroupReader(storage, metadata_partition(_FILES), group, lambda _time: True)
        for batch in reader.batches(Selection()):
            if batch.records is None:
                continue
            maps = batch.records[FILES_PAYLOAD].to_pylist()
            for key, entries in zip(batch.keys.to_pylist(), maps, strict=True):
                name = key.decode() if isinstance(key, bytes) else key
                partition = "" if name == NON_PARTITIONED_KEY else name
                for file, told in entries or ():
                    if parse_data_file(file, 0) is not None:
                        (removed if told["isDeleted"] else added)[partition].append(file)
    return dict(added), dict(removed)


def _action(
    table: LockedTable, time: str, added: Mapping[str, Sequence[str]], *, is_clean: bool
) -> Action:
    """The action of an instant, by its files."""
    if is_clean:
        return Action.CLEAN
    if table.config.table_type is TableType.COPY_ON_WRITE:
        return Action.COMMIT
    return Action.COMPACTION if _moves_rows(table.storage, added, time) else Action.DELTACOMMIT


def _moves_rows(storage: Storage, added: Mapping[str, Sequence[str]], time: str) -> bool:
    """Whether an instant wrote base files that only hold rows of older instants."""
    names = [(path, name) for path, found in added.items() for name in found]
    is_log = any(isinstance(parse_data_file(name, 0), LogFile) for _, name in names)
    return (
        bool(names) and not is_log and not any(_has_rows_of(storage, join(*n), time) for n in names)
    )


def _has_rows_of(storage: Storage, path: str, time: str) -> bool:
    """Whether a base file has rows of the instant that wrote it: a rewrite keeps their times."""
    if not storage.exists(path):
        return False
    with storage.open_parquet_input(path) as handle, pq.ParquetFile(handle) as file:
        if _COMMIT_TIME not in file.schema_arrow.names:
            return True
        times = file.read(columns=[_COMMIT_TIME], use_threads=False)[_COMMIT_TIME]
    return bool(pc.any(pc.equal(times, time)).as_py())


def _with_instants(table: LockedTable, data: Timeline, lost: Sequence[_Lost]) -> Snapshot:
    """The table as it is once the instants are there again."""
    planned = [Instant(each.instant.requested_time, each.planned, State.REQUESTED) for each in lost]
    instants = [*data.instants, *planned, *(each.instant for each in lost)]
    return Snapshot(table.storage, table.config, Timeline(table.storage, table.config, instants))


def _with_replaced(snapshot: Snapshot, lost: _Lost) -> _Lost:
    """A write as replacecommit, where file groups that were there before it are gone since."""
    time = lost.instant.requested_time
    if lost.planned not in (Action.COMMIT, Action.DELTACOMMIT, Action.COMPACTION):
        return lost
    if not _replaced(snapshot, time, lost.added):
        return lost
    done = replace(lost.instant, action=Action.REPLACECOMMIT)
    return replace(lost, instant=done, planned=Action.REPLACECOMMIT)


def _replaced(
    snapshot: Snapshot, time: str, added: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The file groups that a write took the place of: the record index has no entry of them.

    Raises:
        TimelineDamaged: there may be such, and no record index tells.
    """
    before: dict[FileSliceId, None] = {}
    for partition, names in added.items():
        own = {p.file_id for name in names if (p := parse_data_file(name, 0)) is not None}
        older = _groups_before(snapshot, partition, time)
        if own - older:
            before |= {FileSliceId(partition, file_id): None for file_id in sorted(older - own)}
    if not before:
        return {}
    metadata = snapshot.metadata
    live = None
    if metadata is not None:
        live = live_file_groups(metadata, snapshot.config.metadata_partitions)
    if live is None:
        raise _cannot(
            snapshot.timeline,
            f"{time} wrote new file groups, and without a record index nobody knows whether it "
            f"took away others, such as {next(iter(before)).file_id}",
        )
    found: dict[str, list[str]] = defaultdict(list)
    for group in before:
        if group not in live:
            found[group.partition].append(group.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}


def _groups_before(snapshot: Snapshot, partition: str, time: str) -> set[str]:
    """The file groups of a partition with files that are older than an instant."""
    parsed = (parse_data_file(name, 0) for name, _ in snapshot.listing.files.get(partition, ()))
    return {
        each.file_id
        for each in parsed
        if each is not None and instant_key(each.instant_time) < instant_key(time)
    }


def _body(snapshot: Snapshot, lost: _Lost) -> tuple[bytes, bytes]:
    """The content of the requested file and of the completed one."""
    instant, time = lost.instant, lost.instant.requested_time
    if lost.planned is Action.CLEAN:
        before = [e for e in snapshot.timeline.write_instants() if e < instant]
        plan = CleanPlan(_POLICY, None, before[-1].requested_time if before else "", lost.removed)
        return plan.encode(snapshot.storage.root), clean_metadata(plan, time, plan.files, 0)
    replaced, is_clustering = {}, False
    if instant.action is Action.REPLACECOMMIT:
        replaced = _replaced(snapshot, time, lost.added)
        is_clustering = _moves_rows(snapshot.storage, lost.added, time)
    metadata = rebuilt_commit(snapshot, instant, replaced, is_clustering=is_clustering)
    requested = {
        Action.REPLACECOMMIT: RequestedReplace().encode,
        Action.COMPACTION: CompactionPlan(()).encode,
    }.get(lost.planned, bytes)
    return requested(), encode_commit_metadata(metadata, action=instant.action)
