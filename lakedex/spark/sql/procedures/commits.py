"""Commits and what they wrote: show_commits and similar, also of the archived timeline.

Also the log files of merge-on-read tables, by block and by record.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.filegroup.log_changes import read_changes, read_log
from lakedex.filegroup.names import LogFile
from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    decode_avro_block,
    decode_delete_block,
    decode_parquet_block,
    read_blocks,
)
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.procedure import (
    PLACE,
    Parameters,
    Procedure,
    Rows,
    Values,
    table_of,
)
from lakedex.spark.table import SparkTable
from lakedex.table import Snapshot
from lakedex.timeline import CommitMetadata, Instant, WriteStat
from lakedex.timeline.commit_metadata import decode_commit_metadata

_NO_COMMIT = (None, "null")
_TOTALS = (
    "total_bytes_written long, total_files_added long, total_files_updated long, "
    "total_partitions_written long, total_records_written long, "
    "total_update_records_written long, total_errors long"
)
_STATS = (
    "commit_time string, state_transition_time string, action string, partition string, "
    "file_id string, previous_commit string, num_writes long, num_inserts long, "
    "num_deletes long, num_update_writes long, total_errors long, total_log_blocks long, "
    "total_corrupt_log_blocks long, total_rollback_blocks long, total_log_records long, "
    "total_updated_records_compacted long, total_bytes_written long"
)
_LOG_COUNTS = (
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "totalLogRecords",
    "totalUpdatedRecordsCompacted",
)


def _active(context: Context, values: Values) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The completed writes of the active timeline, newest first."""
    timeline = table_of(context, values).snapshot.timeline
    for instant in reversed(timeline.write_instants()):
        yield instant, timeline.commit_metadata(instant)


def _archived(context: Context, values: Values) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The writes of the archive in a range of times, newest first."""
    archive = table_of(context, values).snapshot.timeline.archived
    begin, end = values["start_ts"] or None, values["end_ts"] or None
    for instant in reversed(archive.instants(begin, end)):
        if instant.action.is_write:
            data = archive.metadata(instant.requested_time) or b""
            yield instant, decode_commit_metadata(data, path=instant.requested_time)


def _show_commits(context: Context, values: Values) -> Rows:
    for instant, metadata in _active(context, values):
        times = instant.requested_time, instant.completion_time
        yield *times, instant.action.value, *totals(list(metadata.stats()))


def _show_archived(context: Context, values: Values) -> Rows:
    for instant, metadata in _archived(context, values):
        times = instant.requested_time, instant.completion_time
        yield *times, *totals(list(metadata.stats()))


def _show_commits_metadata(context: Context, values: Values) -> Rows:
    for instant, metadata in _active(context, values):
        yield from _by_file(instant, metadata)


def _show_archived_metadata(context: Context, values: Values) -> Rows:
    for instant, metadata in _archived(context, values):
        yield from _by_file(instant, metadata)


def _by_file(instant: Instant, metadata: CommitMetadata) -> Rows:
    for stat in metadata.stats():
        yield (
            instant.requested_time,
            instant.completion_time,
            instant.action.value,
            stat.partition_path,
            stat.file_id,
            stat.prev_commit,
            stat.num_writes,
            stat.num_inserts,
            stat.num_deletes,
            stat.num_updates,
            stat.total_write_errors,
            *(stat.other.get(name) or 0 for name in _LOG_COUNTS),
            stat.total_write_bytes,
        )


def totals(stats: Sequence[WriteStat]) -> tuple[int, ...]:
    """What a commit wrote, in numbers."""
    return (
        sum(stat.total_write_bytes or 0 for stat in stats),
        *_files(stats),
        len({stat.partition_path for stat in stats}),
        sum(stat.num_writes or 0 for stat in stats),
        sum(stat.num_updates or 0 for stat in stats),
        sum(stat.total_write_errors or 0 for stat in stats),
    )


def _files(stats: Sequence[WriteStat]) -> tuple[int, int]:
    """How many file groups were made, and how many there were before."""
    made = sum(stat.prev_commit in _NO_COMMIT for stat in stats)
    return made, len(stats) - made


def _commit(context: Context, values: Values) -> tuple[Instant, CommitMetadata]:
    """The commit that a call names, or the newest."""
    table = table_of(context, values)
    timeline = table.snapshot.timeline
    time = values["instant_time"]
    found = timeline.last_completed if time is None else timeline.find(time)
    if found is None or not found.is_completed or not found.action.is_write:
        raise InvalidInput(f"table {table.name} has no commit {time or ''} in its active timeline")
    return found, timeline.commit_metadata(found)


def _show_extra_metadata(context: Context, values: Values) -> Rows:
    instant, metadata = _commit(context, values)
    wanted = values["metadata_key"]
    for name, value in sorted(metadata.extra.items()):
        if wanted in (None, name):
            yield instant.requested_time, instant.action.value, name, value


def _show_files(context: Context, values: Values) -> Rows:
    instant, metadata = _commit(context, values)
    for stat in metadata.stats():
        yield (
            instant.action.value,
            stat.partition_path,
            stat.file_id,
            stat.prev_commit,
            stat.num_updates,
            stat.num_writes,
            stat.total_write_bytes,
            stat.total_write_errors,
            stat.file_size_bytes,
        )


def _show_partitions(context: Context, values: Values) -> Rows:
    instant, metadata = _commit(context, values)
    for partition, stats in sorted(metadata.partition_to_stats.items()):
        yield (
            instant.action.value,
            partition,
            *_files(stats),
            sum(stat.num_inserts or 0 for stat in stats),
            sum(stat.num_updates or 0 for stat in stats),
            sum(stat.total_write_bytes or 0 for stat in stats),
            sum(stat.total_write_errors or 0 for stat in stats),
        )


def _show_write_stats(context: Context, values: Values) -> Rows:
    instant, metadata = _commit(context, values)
    stats = list(metadata.stats())
    size = sum(stat.total_write_bytes or 0 for stat in stats)
    count = sum(stat.num_writes or 0 for stat in stats)
    yield instant.action.value, size, count, -(-size // count) if count else 0


def _compare(context: Context, values: Values) -> Rows:
    """How far a table is behind or before its copy at another path."""
    source = context.open(context.names.named(values["table"]))
    copy = context.lake.table_at(values["path"])
    ours, theirs = _times(source), _times(copy)
    if not ours or (theirs and ours[-1] < theirs[-1]):
        missing = [time for time in theirs if not ours or time > ours[-1]]
        what = "behind"
    else:
        missing = [time for time in ours if not theirs or time > theirs[-1]]
        what = "ahead"
    text = f"Source {source.name} is {what} by {len(missing)} commits."
    yield (f"{text} Commits to catch up - [{', '.join(missing)}]",)


def _times(table: SparkTable) -> list[str]:
    snapshot = table.snapshot
    snapshot.check_timeline()
    return [each.requested_time for each in snapshot.timeline.write_instants()]


def _write_amplification(context: Context, values: Values) -> Rows:
    upserted = written = 0
    for instant, metadata in reversed(list(_active(context, values))):
        stats = list(metadata.stats())
        updates = sum(stat.num_updates or 0 for stat in stats)
        writes = sum(stat.num_writes or 0 for stat in stats)
        upserted, written = upserted + updates, written + writes
        yield instant.requested_time, updates, writes, _factor(writes, updates)
    yield "Total", upserted, written, _factor(written, upserted)


def _factor(written: int, upserted: int) -> str:
    return f"{written / upserted:.2f}" if upserted else "0"


_LATEST: Parameters = {"table": str, "limit": 10, "path": str}
_ARCHIVE: Parameters = {"table": str, "limit": 10, "start_ts": "", "end_ts": "", "path": str}
_ONE: Parameters = {"table": str, "limit": 10, "instant_time": str, "path": str}
_NEEDED = ("instant_time",)
COMMITS = {
    "show_commits": Procedure(
        _LATEST,
        f"commit_time string, state_transition_time string, action string, {_TOTALS}",
        _show_commits,
    ),
    "show_commits_metadata": Procedure(_LATEST, _STATS, _show_commits_metadata),
    "show_commit_extra_metadata": Procedure(
        {"table": str, "limit": 100, "instant_time": str, "metadata_key": str, "path": str},
        "instant_time string, action string, metadata_key string, metadata_value string",
        _show_extra_metadata,
    ),
    "show_commit_files": Procedure(
        _ONE,
        "action string, partition_path string, file_id string, previous_commit string, "
        "total_records_updated long, total_records_written long, total_bytes_written long, "
        "total_errors long, file_size long",
        _show_files,
        needs=_NEEDED,
    ),
    "show_commit_partitions": Procedure(
        _ONE,
        "action string, partition_path string, total_files_added long, total_files_updated long, "
        "total_records_inserted long, total_records_updated long, total_bytes_written long, "
        "total_errors long",
        _show_partitions,
        needs=_NEEDED,
    ),
    "show_commit_write_stats": Procedure(
        _ONE,
        "action string, total_bytes_written long, total_records_written long, avg_record_size long",
        _show_write_stats,
        needs=_NEEDED,
    ),
    "show_archived_commits": Procedure(
        _ARCHIVE, f"commit_time string, state_transition_time string, {_TOTALS}", _show_archived
    ),
    "show_archived_commits_metadata": Procedure(_ARCHIVE, _STATS, _show_archived_metadata),
    "commits_compare": Procedure(
        {"table": str, "path": str}, "compare_detail string", _compare, needs=("table", "path")
    ),
    "stats_wa": Procedure(
        _LATEST,
        "commit_time string, total_upserted long, total_written long, "
        "write_amplification_factor string",
        _write_amplification,
    ),
}


_SCHEME = "file:"


def _show_blocks(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    snapshot = table.snapshot
    for partition, log in _logs(table, snapshot, values):
        for block in _blocks(snapshot, partition, log):
            header = json.dumps({key.name: value for key, value in block.header.items()})
            yield log.instant_time, _count(block), f"{block.kind.name}_BLOCK", header, "{}"


def _show_records(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    snapshot = table.snapshot
    found = list(_logs(table, snapshot, values))
    parts = _merged(snapshot, found) if values["merge"] else _as_written(snapshot, found)
    for rows in parts:
        for row in rows.to_pylist():
            yield (json.dumps(row, default=str),)


def _as_written(
    snapshot: Snapshot, logs: list[tuple[str, LogFile]]
) -> Iterator[pa.Table | pa.RecordBatch]:
    for partition, log in logs:
        path = "/".join(part for part in (partition, log.name) if part)
        for block in read_log(snapshot.storage, path, log.size_bytes):
            if block.kind is BlockKind.AVRO_DATA:
                yield decode_avro_block(block)
            elif block.kind is BlockKind.PARQUET_DATA:
                yield decode_parquet_block(block)


def _merged(snapshot: Snapshot, logs: list[tuple[str, LogFile]]) -> Iterator[pa.Table]:
    """The newest version of each record in the logs of each file group."""
    groups: dict[tuple[str, str], list[LogFile]] = defaultdict(list)
    for partition, log in logs:
        groups[partition, log.file_id].append(log)
    for (partition, file_id), group in sorted(groups.items()):
        alone = FileSlice(partition, file_id, group[0].instant_time, None, tuple(group))
        yield read_changes(snapshot.read_context, alone, snapshot.schema).inserts()


def _logs(table: SparkTable, snapshot: Snapshot, values: Values) -> Iterator[tuple[str, LogFile]]:
    """The log files whose path matches the pattern of a call, by partition and name."""
    pattern = values["log_file_path_pattern"].removeprefix(_SCHEME)
    if pattern.startswith("/"):
        pattern = f"/{pattern.lstrip('/')}"
    found = False
    for partition, files in sorted(snapshot.listing.files.items()):
        for name, size in sorted(files):
            log = parse_data_file(name, size)
            path = "/".join(part for part in (partition, name) if part)
            wanted = fnmatchcase(f"{table.path}/{path}", pattern) or fnmatchcase(path, pattern)
            if isinstance(log, LogFile) and not log.is_cdc and wanted:
                found = True
                yield partition, log
    if not found:
        raise InvalidInput(f"there is no log file {values['log_file_path_pattern']!r}")


def _blocks(snapshot: Snapshot, partition: str, log: LogFile) -> list[LogBlock]:
    path = "/".join(part for part in (partition, log.name) if part)
    return read_blocks(snapshot.storage.source(path, log.size_bytes))


def _count(block: LogBlock) -> int:
    if block.kind is BlockKind.AVRO_DATA:
        return int(decode_avro_block(block).num_rows)
    if block.kind is BlockKind.PARQUET_DATA:
        return int(decode_parquet_block(block).num_rows)
    return len(decode_delete_block(block)) if block.kind is BlockKind.DELETE else 0


LOGS = {
    "show_logfile_metadata": Procedure(
        {**PLACE, "log_file_path_pattern": str, "limit": 10, "filter": ""},
        "instant_time string, record_count int, block_type string, header_metadata string, "
        "footer_metadata string",
        _show_blocks,
        needs=("log_file_path_pattern",),
    ),
    "show_logfile_records": Procedure(
        {**PLACE, "log_file_path_pattern": str, "merge": False, "limit": 10, "filter": ""},
        "records string",
        _show_records,
        needs=("log_file_path_pattern",),
    ),
}
