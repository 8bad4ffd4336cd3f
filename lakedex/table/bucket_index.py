"""Recognises tables that Hudi writes with a bucket index.

A bucket index has no entry in the table's properties: the hash of a record key names the file group
of the record, and only the writer's options say so. A writer that puts a record into any other file
group creates a duplicate key. What such a table shows:

* `.hoodie/.bucket_index/consistent_hashing_metadata`: the ring of the engine CONSISTENT_HASHING;
* `.hoodie/.bucket_index/partition_bucket_index_meta`: bucket counts by partition (engine SIMPLE);
* file ids of the engine SIMPLE: a UUID whose first 8 characters are the bucket number, zero-padded
  (`00000003-6ddb-4dff-83ee-36af5292a301-0`);
* file ids of a first ring: UUIDs of a name, which no other table has;
* a clustering plan that resizes a ring: its groups name the nodes that take their place.

Random UUIDs begin with decimal digits too, so file ids count only where their number of low bucket
numbers is practically impossible by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakedex.config import keys
from lakedex.config.bucket_options import BucketEngineType
from lakedex.config.write_index import bucket_options
from lakedex.errors import CorruptFile, FileMissing
from lakedex.filegroup.bucket_ids import are_bucket_ids, begins_with_number, is_ring_id
from lakedex.storage import split
from lakedex.table.snapshot import Snapshot
from lakedex.timeline import Action, Instant, Timeline
from lakedex.timeline.plans import ClusteringPlan

_CONSISTENT_FOLDER: Final = "consistent_hashing_metadata"
_NODES_OF_GROUP: Final = "clustering.group.child.node"
_RESIZING_CLASS: Final = re.compile(r"Consistent(Bucket|Hashing)\w*$")
_COMMITS_READ: Final = 3
_FILES_READ: Final = 2_000
"""Of a larger commit so many files are as good as all of them."""


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """The bucket index of a table, with what shows it."""

    engine: BucketEngineType
    evidence: str
    resize: str | None = None
    """The instant of a pending plan that resizes the ring."""


def find_bucket_index(snapshot: Snapshot) -> BucketIndex | None:
    """The bucket index of a table of any writer; None for all other tables.

    Lists one folder and reads the newest commit; file slices only where that leaves a doubt.
    """
    folders = []
    if split(keys.BUCKET_INDEX_FOLDER)[1] in snapshot.meta_folders:
        folders = snapshot.storage.folders(keys.BUCKET_INDEX_FOLDER)
    resize = pending_resize(snapshot.timeline)
    if _CONSISTENT_FOLDER in folders or resize is not None:
        evidence = f"the plan {resize}" if not folders else _folder_of(folders)
        return BucketIndex(BucketEngineType.CONSISTENT_HASHING, evidence, resize)
    if folders:
        return BucketIndex(BucketEngineType.SIMPLE, _folder_of(folders))
    for name in bucket_options(snapshot.config.raw):
        return BucketIndex(BucketEngineType.SIMPLE, f"the property {name}")
    file_ids = _newest_file_ids(snapshot)
    ring_id = next((each for each in file_ids or () if is_ring_id(each)), None)
    if ring_id is not None:
        # Its hashing metadata are lost.
        return BucketIndex(BucketEngineType.CONSISTENT_HASHING, f"file ids such as {ring_id}")
    resized = _newest_resize(snapshot.timeline)
    if resized is not None:
        return BucketIndex(BucketEngineType.CONSISTENT_HASHING, f"the resize {resized}")
    bucket_id = _bucket_file_id(snapshot, file_ids)
    if bucket_id is None:
        return None
    return BucketIndex(BucketEngineType.SIMPLE, f"file ids such as {bucket_id}")


def pending_resize(timeline: Timeline) -> str | None:
    """The instant of a pending clustering that resizes a ring of Hudi's."""
    for instant in timeline.pending_of(Action.CLUSTERING, Action.REPLACECOMMIT):
        if is_resize(timeline, instant):
            return instant.requested_time
    return None


def is_resize(timeline: Timeline, instant: Instant) -> bool:
    """Whether an active instant, pending or completed, splits or merges buckets of a ring."""
    action = timeline.requested_action(instant.requested_time) or instant.action
    if action not in (Action.CLUSTERING, Action.REPLACECOMMIT):
        return False
    try:
        plan = timeline.requested_replace(instant.requested_time).clustering
    except (CorruptFile, FileMissing):
        return False
    return plan is not None and _resizes(plan)


def _newest_resize(timeline: Timeline) -> str | None:
    """The newest completed clustering, if it resized a ring."""
    replaces = [each for each in timeline.write_instants() if each.action is Action.REPLACECOMMIT]
    clusterings = (
        each for each in reversed(replaces) if timeline.commit_summary(each).is_clustering
    )
    newest = next(clusterings, None)
    if newest is None or not is_resize(timeline, newest):
        return None
    return newest.requested_time


def _bucket_file_id(snapshot: Snapshot, file_ids: list[str] | None) -> str | None:
    """A file id that names a bucket, if the table's file ids do; `file_ids` are the newest ones."""
    if file_ids is not None and are_bucket_ids(file_ids):
        return min(file_ids)
    if file_ids is not None and not (file_ids and all(map(begins_with_number, file_ids))):
        return None
    file_ids = [each.file_id for each in snapshot.slices]
    return min(file_ids) if are_bucket_ids(file_ids) else None


def _newest_file_ids(snapshot: Snapshot) -> list[str] | None:
    """File groups of the newest commit that wrote any; None where the newest ones did not."""
    timeline = snapshot.timeline
    writes = timeline.write_instants()
    for instant in writes[: -_COMMITS_READ - 1 : -1]:
        file_ids = timeline.written_file_ids(instant, _FILES_READ)
        if file_ids:
            return list(file_ids)
    return None if len(writes) > _COMMITS_READ else []


def _resizes(plan: ClusteringPlan) -> bool:
    if _RESIZING_CLASS.search(plan.strategy_class or ""):
        return True
    return any(_NODES_OF_GROUP in (group.extra or {}) for group in plan.groups)


def _folder_of(folders: Iterable[str]) -> str:
    return f"the folder {keys.BUCKET_INDEX_FOLDER}/{min(folders)}"
