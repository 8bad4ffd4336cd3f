"""Whether a table has a bucket index, as queries find out: from what is listed anyway.

Writers read the newest commit for that; a query has the file slices. Only where their file ids may
be those of a ring, a folder is listed. A ring of Hudi that has been resized in every partition has
random file ids, as ordinary tables have; it has had a clustering then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lakedex.config import TableConfig, TableType
from lakedex.config.bucket_options import BucketEngineType, BucketProperties
from lakedex.filegroup import FileSlice, Slices
from lakedex.filegroup.bucket_ids import are_bucket_ids, begins_with_number, is_name_uuid
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER
from lakedex.storage import split
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Timeline

_FEW: Final = 32
_MANY: Final = 2_000
_OLD_TIMELINE: Final = 10
"""A timeline of so many writes may have archived a clustering."""
_BUCKET_SUFFIX: Final = "-0"


def shown_engine(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    slices: Slices,
    kept: Callable[[], Mapping[str, str]],
) -> BucketEngineType | None:
    """The engine that the files of a table show, CONSISTENT_HASHING for any ring; else None.

    Args:
        storage: Where the table lies.
        config: Its properties.
        timeline: Its timeline.
        slices: The file slices of a snapshot.
        kept: Reads what the table keeps for its writers, where the files leave a doubt.
    """
    few = _spread(slices, _FEW)
    if few and all(begins_with_number(each.file_id) for each in few):
        if are_bucket_ids(each.file_id for each in _spread(slices, _MANY)):
            return BucketEngineType.SIMPLE
        stated = BucketProperties.of(kept())
        return (stated.engine or BucketEngineType.SIMPLE) if stated.is_bucket else None
    if not _may_be_ring(config, timeline, few):
        return None
    folder, name = split(FOLDER)
    return BucketEngineType.CONSISTENT_HASHING if name in storage.folders(folder) else None


def _may_be_ring(config: TableConfig, timeline: Timeline, few: Sequence[FileSlice]) -> bool:
    if not all(each.file_id.endswith(_BUCKET_SUFFIX) for each in few):
        return False
    if any(is_name_uuid(each.file_id) for each in few):
        return True
    if config.table_type is not TableType.MERGE_ON_READ or not few:
        return False
    clusterings = (Action.CLUSTERING, Action.REPLACECOMMIT)
    return len(timeline.write_instants()) >= _OLD_TIMELINE or any(
        instant.action in clusterings for instant in timeline
    )


def _spread(slices: Slices, count: int) -> Sequence[FileSlice]:
    """At most so many of the slices, from all over the table."""
    return slices[:: max(1, -(-len(slices) // count))]
