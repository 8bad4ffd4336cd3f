"""Cheap facts about a table: from its properties, timeline and file listing; no data is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.filegroup import FileSlice
from lakedex.table import Snapshot
from lakedex.timeline import Instant, Timeline


def table_facts(snapshot: Snapshot) -> dict[str, Any]:
    """What the table is: its name, kind, keys and metadata partitions."""
    config = snapshot.config
    has_metadata = snapshot.metadata is not None
    return {
        "name": config.name,
        "database": config.database,
        "path": snapshot.storage.root,
        "type": config.table_type.value,
        "version": config.version,
        "timeline_layout": config.timeline_layout,
        "timeline_time_zone": config.timezone.value,
        "record_key_fields": list(config.record_key_fields),
        "partition_fields": list(config.partition_fields),
        "ordering_fields": list(config.ordering_fields),
        "merge_mode": config.merge_mode.name,
        "base_file_format": config.base_file_format,
        "metadata_table": has_metadata,
        "metadata_partitions": list(config.metadata_partitions),
        "metadata_partitions_inflight": list(config.metadata_partitions_inflight),
        "metadata_problem": snapshot.metadata_problem,
        "as_of": snapshot.as_of,
        "last_instant": _last_instant(snapshot.timeline),
    }


def file_facts(slices: Iterable[FileSlice]) -> dict[str, int]:
    """How many files a full read reads, and how large they are."""
    found = list(slices)
    return {
        "partitions": len({each.partition for each in found}),
        "file_slices": len(found),
        "base_files": sum(each.base is not None for each in found),
        "log_files": sum(len(each.logs) for each in found),
        "bytes": sum(each.size_bytes for each in found),
    }


def size_facts(slices: Iterable[FileSlice]) -> list[dict[str, Any]]:
    """The same by partition, largest first."""
    by_partition: dict[str, list[FileSlice]] = defaultdict(list)
    for each in slices:
        by_partition[each.partition].append(each)
    rows: list[dict[str, Any]] = []
    for partition, members in by_partition.items():
        counts = file_facts(members)
        del counts["partitions"]
        rows.append({"partition": partition, **counts})
    return sorted(rows, key=lambda row: (-row["bytes"], row["partition"]))


def schema_facts(schema: pa.Schema) -> list[dict[str, Any]]:
    """Every column with its Arrow type."""
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in schema
    ]


def timeline_facts(timeline: Timeline, limit: int | None) -> list[dict[str, Any]]:
    """The active instants in order of time, or the newest ones only."""
    instants = timeline.instants
    if limit is not None:
        instants = instants[max(len(instants) - limit, 0) :]
    return [_instant_facts(timeline, instant) for instant in instants]


def _instant_facts(timeline: Timeline, instant: Instant) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "time": instant.requested_time,
        "action": instant.action.value,
        "state": instant.state.name.lower(),
        "completion_time": instant.completion_time,
        "operation": None,
        "files_written": None,
        "rows_written": None,
        "rows_inserted": None,
        "rows_updated": None,
        "rows_deleted": None,
        "problem": None,
    }
    if not (instant.is_completed and instant.action.is_write):
        return facts
    try:
        metadata = timeline.commit_metadata(instant)
    except LakedexError as error:
        return facts | {"problem": str(error)}
    stats = list(metadata.stats())
    return facts | {
        "operation": metadata.operation_type,
        "files_written": len(stats),
        "rows_written": sum(stat.num_writes or 0 for stat in stats),
        "rows_inserted": sum(stat.num_inserts or 0 for stat in stats),
        "rows_updated": sum(stat.num_updates or 0 for stat in stats),
        "rows_deleted": sum(stat.num_deletes or 0 for stat in stats),
    }


def _last_instant(timeline: Timeline) -> dict[str, str | None] | None:
    last = timeline.last_completed
    if last is None:
        return None
    return {
        "time": last.requested_time,
        "action": last.action.value,
        "completion_time": last.completion_time,
    }
