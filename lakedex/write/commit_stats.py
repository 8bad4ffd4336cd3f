"""Written files as the commit metadata tells them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from lakedex.timeline import CommitMetadata, WriteStat
from lakedex.write.handles.work import WrittenFile
from lakedex.write.operation import COMPACT

_COMMIT_VERSION = 1


def commit_metadata(
    files: Iterable[WrittenFile],
    *,
    operation: str,
    schema_text: str,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    extra: Mapping[str, str] | None = None,
) -> CommitMetadata:
    """What a commit says of itself; the schema is that without meta columns."""
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for file in files:
        stats[file.partition].append(_write_stat(file))
    return CommitMetadata(
        {partition: tuple(entries) for partition, entries in stats.items()},
        {**(extra or {}), "schema": schema_text},
        operation_type=operation,
        replaced_file_ids=dict(replaced or {}),
        compacted=operation == COMPACT.name,
        version=_COMMIT_VERSION,
    )


def _write_stat(file: WrittenFile) -> WriteStat:
    log = {"log_version": 1, "log_offset": 0, "log_files": (file.name,)}
    log |= {"base_file": file.previous_base or ""}
    base = {"prev_base_file": file.previous_base}
    return WriteStat(
        file_id=file.file_id,
        path=f"{file.partition}/{file.name}" if file.partition else file.name,
        partition_path=file.partition,
        prev_commit=file.prev_commit,
        num_writes=file.num_writes,
        num_inserts=file.num_inserts,
        num_updates=file.num_updates,
        num_deletes=file.num_deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        file_size_bytes=file.size,
        other=dict(file.counters),
        **(log if file.is_log else base),
    )
