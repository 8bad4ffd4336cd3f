"""Which file groups changed without a secondary index being told.

Hudi 1.2.0 keeps up only one of several secondary indexes of a merge-on-read table: an update of
the other column leaves the old entry and adds no new one. Nothing in the index shows that, but
the timelines do: a commit that changed rows and has no write to the index in its metadata
commit either left the column alone or forgot the index. On such tables the file groups of these
commits are not covered by the index.
"""

from __future__ import annotations

from lakedex.config import TableType
from lakedex.filegroup import FileSliceId
from lakedex.index.answer import IndexedTable
from lakedex.timeline import CommitMetadata, Instant, Timeline, instant_key

_PREFIX = "secondary_index_"
_CLUSTER = "CLUSTER"


def groups_not_kept_up(table: IndexedTable, name: str) -> frozenset[FileSliceId]:
    """The file groups whose rows the index may be wrong about."""
    known = f"{name}_not_kept_up"
    if known not in table.kept:
        table.kept[known] = _find(table, name) if _may_forget(table) else frozenset()
    found: frozenset[FileSliceId] = table.kept[known]
    return found


def _may_forget(table: IndexedTable) -> bool:
    config = table.read.config
    several = [part for part in config.metadata_partitions if part.startswith(_PREFIX)]
    return config.table_type is TableType.MERGE_ON_READ and len(several) > 1


def _find(table: IndexedTable, name: str) -> frozenset[FileSliceId]:
    built, told = _metadata_commits(table.metadata.timeline, name)
    forgotten: set[FileSliceId] = set()
    for instant in table.timeline.between(None):
        metadata = table.timeline.commit_metadata(instant)
        written = {
            FileSliceId(partition, stat.file_id or "")
            for partition, stats in metadata.partition_to_stats.items()
            for stat in stats
        }
        if metadata.operation_type == _CLUSTER:
            # Clustering moves rows as they are: what was forgotten moves along.
            if not forgotten.isdisjoint(_replaced(metadata)):
                forgotten |= written
        elif not (
            metadata.compacted or instant.requested_time in told or _is_before(instant, built)
        ):
            forgotten |= written
    return frozenset(forgotten)


def _replaced(metadata: CommitMetadata) -> set[FileSliceId]:
    return {
        FileSliceId(partition, file_id)
        for partition, file_ids in metadata.replaced_file_ids.items()
        for file_id in file_ids
    }


def _metadata_commits(timeline: Timeline, name: str) -> tuple[str | None, set[str]]:
    """When the index was built, and the instants of the commits that wrote to it."""
    built: str | None = None
    told: set[str] = set()
    for instant in timeline.write_instants():
        metadata = timeline.commit_metadata(instant)
        if metadata.compacted or name not in metadata.partition_to_stats:
            continue
        told.add(instant.requested_time)
        completed = instant.completion_time
        if completed is not None and (built is None or completed < built):
            built = completed
    return built, told


def _is_before(instant: Instant, built: str | None) -> bool:
    completed = instant.completion_time
    if built is None or completed is None:
        return False
    return instant_key(completed) < instant_key(built)
