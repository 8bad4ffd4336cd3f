"""Merges the log files of a version 6 table into base files, on its own timeline.

In version 6 the name of a log file says to which base file it belongs; from version 8 on it says
which deltacommit wrote it. So before a table is taken over every slice must be a base file alone.
The work is an ordinary compaction: killed half-way it is pending, with a plan that any engine can
carry out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.engine import Engine
from lakedex.errors import AlreadyExists, FileMissing
from lakedex.filegroup import FileSlice, parse_data_file, read_slice
from lakedex.filegroup.names import BaseFile, LogFile, base_file_name
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    CommitMetadata,
    CompactionOperation,
    CompactionPlan,
    Instant,
    State,
    WriteStat,
    write_instant,
)
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.markers import MarkerKind, create_marker
from lakedex.txn.working_folders import marker_folder
from lakedex.write.context import WriteContext
from lakedex.write.handles.base_file import encode_base_file
from lakedex.write.handles.incoming import with_file_name
from lakedex.write.write_schema import StoredSchema, WriteSchema

_PLAN_VERSION = 2


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    instant: str
    file_slice: FileSlice
    token: str


def plan_compaction(snapshot: Snapshot) -> CompactionPlan | None:
    """The plan that merges all log files; None when there are none."""
    operations = tuple(
        CompactionOperation(
            file_id=each.file_id,
            partition_path=each.partition,
            base_instant_time=each.base_instant,
            data_file=None if each.base is None else each.base.name,
            log_files=tuple(log.name for log in each.logs),
        )
        for each in snapshot.slices
        if each.logs
    )
    return CompactionPlan(operations, version=_PLAN_VERSION) if operations else None


def request_compaction(
    storage: Storage, config: TableConfig, instant: str, plan: CompactionPlan
) -> None:
    """Put a compaction on the timeline."""
    requested = Instant(instant, Action.COMPACTION, State.REQUESTED)
    write_instant(storage, config, requested, plan.encode())


def run_compaction(
    engine: Engine, address: StorageAddress, snapshot: Snapshot, instant: str, plan: CompactionPlan
) -> int:
    """Carry out a compaction that is on the timeline; answer how many slices it merged."""
    storage, config = snapshot.storage, snapshot.config
    with suppress(AlreadyExists):
        write_instant(storage, config, Instant(instant, Action.COMPACTION, State.INFLIGHT), b"")
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    facts = WriteContext(
        address=address,
        config=config,
        schema=snapshot.schema,
        schema_text=schema.file_text,
        instant=instant,
        committed=CommittedInstants.of(snapshot.timeline),
        scratch="",
    )
    slices = [_planned_slice(snapshot, operation) for operation in plan.operations]
    tasks = [_Task(facts, instant, each, f"{number}-0-0") for number, each in enumerate(slices)]
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for stat in engine.map("merge the log files", _merge_slice, tasks):
        stats[stat.partition_path or ""].append(stat)
    metadata = CommitMetadata(
        {partition: tuple(entries) for partition, entries in stats.items()},
        {"schema": schema.text},
        operation_type="COMPACT",
        compacted=True,
    )
    completed = Instant(instant, Action.COMPACTION, State.COMPLETED)
    write_instant(storage, config, completed, _as_json(metadata))
    storage.delete_folder(marker_folder(instant))
    return len(slices)


def _planned_slice(snapshot: Snapshot, operation: CompactionOperation) -> FileSlice:
    """The slice of a plan, with the sizes that its files have."""
    partition = operation.partition_path
    sizes = dict(snapshot.listing.files.get(partition, ()))
    names = [*([operation.data_file] if operation.data_file else []), *operation.log_files]
    base: BaseFile | None = None
    logs = []
    for name in names:
        if name not in sizes:
            raise FileMissing(f"{partition}/{name} is to be compacted, but it is not there")
        parsed = parse_data_file(name, sizes[name])
        if isinstance(parsed, BaseFile):
            base = parsed
        elif isinstance(parsed, LogFile):
            logs.append(parsed)
    start = operation.base_instant_time or ""
    return FileSlice(partition, operation.file_id, start, base, tuple(logs))


def _merge_slice(task: _Task) -> WriteStat:
    """The worker: one slice into one base file; a marker first, so that a rollback finds it."""
    context = task.facts.read_context()
    current, storage = task.file_slice, context.storage
    names = context.schema.names
    parts = list(read_slice(context, current, names, batch_rows=None))
    rows = pa.concat_tables(parts) if parts else context.schema.empty_table()
    name = base_file_name(current.file_id, task.token, task.instant, "parquet")
    data = encode_base_file(task.facts, with_file_name(rows, name)).data
    path = current.path_of(name)
    kind = MarkerKind.CREATE if current.base is None else MarkerKind.MERGE
    create_marker(storage, task.instant, path, kind)
    _create(storage, path, data)
    size = storage.size(path)
    return WriteStat(
        file_id=current.file_id,
        path=path,
        partition_path=current.partition,
        prev_commit=current.base_instant,
        num_writes=rows.num_rows,
        num_inserts=0,
        num_updates=0,
        num_deletes=0,
        total_write_bytes=size,
        total_write_errors=0,
        file_size_bytes=size,
        prev_base_file=None if current.base is None else current.base.name,
    )


def _create(storage: Storage, path: str, data: bytes) -> None:
    """Equal rows under an equal name: an earlier attempt may have been first."""
    with suppress(AlreadyExists):
        storage.create(path, data)


def _as_json(metadata: CommitMetadata) -> bytes:
    """Commit metadata as layout 1 has it."""
    record = {
        "partitionToWriteStats": {
            partition: [_present(stat.to_wire()) for stat in entries]
            for partition, entries in metadata.partition_to_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "operationType": metadata.operation_type,
    }
    return json.dumps(record, indent=2).encode()


def _present(wire: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in wire.items() if value is not None}


def pending_besides(pending: Sequence[Instant], own: str | None) -> list[Instant]:
    """The pending instants but the compaction that the upgrade itself began."""
    return [
        each
        for each in pending
        if not (each.action is Action.COMPACTION and each.requested_time == own)
    ]
