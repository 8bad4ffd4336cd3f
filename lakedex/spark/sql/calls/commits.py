"""What commits wrote: show_commits and its like, of the active timeline and of the archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakedex.errors import InvalidInput
from lakedex.spark.sql.calls.procedure import Parameters, Procedure, Rows, Values, table_of
from lakedex.spark.sql.context import Context
from lakedex.spark.table import SparkTable
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
    told = f"Source {source.name} is {what} by {len(missing)} commits."
    yield (f"{told} Commits to catch up - [{', '.join(missing)}]",)


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
