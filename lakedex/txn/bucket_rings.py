"""Hashing metadata of bucket indexes as writes are taken back, archived and cleaned.

A version of a ring belongs to the instant that made it, whether that splits and merges buckets or
puts other file groups in their place:

* what takes the instant back removes the version, and the one before it counts again;
* before the instant is archived the version gets its mark, as the timeline no longer says that it
  is complete;
* when no reader and no savepoint can see the table as it was before the next version, it goes.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby

from lakedex.errors import CommitConflict
from lakedex.index.kinds.bucket.hashing_metadata import HashingMetadata
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.storage import Storage
from lakedex.timeline import Action, Timeline, instant_key

_MAKERS = (Action.CLUSTERING, Action.REPLACECOMMIT)


def check_rings(storage: Storage, timeline: Timeline, rings: Collection[HashRing]) -> None:
    """Refuse rings that were made from another one than the present one of their partition.

    Raises:
        CommitConflict: another writer has changed a ring meanwhile.
    """
    metadata = HashingMetadata(storage, timeline)
    for ring in rings:
        now = metadata.load(ring.partition)
        if now is None or now.sequence + 1 != ring.sequence or not _is_before(now, ring):
            raise CommitConflict(
                f"another writer changed the buckets of partition {ring.partition!r} meanwhile"
            )


def store_rings(storage: Storage, timeline: Timeline, rings: Collection[HashRing]) -> None:
    """Write the rings that a write makes, as the last thing before it completes."""
    metadata = HashingMetadata(storage, timeline)
    for ring in rings:
        metadata.store(ring)


def discard_rings(storage: Storage, timeline: Timeline, instant: str, action: Action) -> None:
    """Remove the versions that an instant made which is taken back, while it pends."""
    if action in _MAKERS:
        HashingMetadata(storage, timeline).discard(instant)


def mark_rings(storage: Storage, timeline: Timeline, instants: Collection[str]) -> None:
    """Mark the versions of completed instants that are about to be archived."""
    metadata = HashingMetadata(storage, timeline)
    unmarked = {
        each.partition
        for each in metadata.versions()
        if each.instant in instants and not each.is_marked
    }
    for partition in sorted(unmarked):
        metadata.mark(partition)


def remove_outdated_rings(storage: Storage, timeline: Timeline, earliest: str) -> int:
    """Remove the versions that no reader as of an instant, or of a later one, needs.

    Args:
        storage: The table.
        timeline: Its timeline.
        earliest: The earliest instant that can still be read, restored or rolled back to.

    Returns:
        How many versions were removed.
    """
    metadata, limit = HashingMetadata(storage, timeline), instant_key(earliest)
    count = 0
    for partition, found in groupby(metadata.versions(), lambda each: each.partition):
        counting = [each for each in found if metadata.counts(each)]
        old = [each for each in counting if _done(timeline, each.instant) < limit]
        if len(old) < 2:
            continue
        # Hudi knows the present version by its mark once its instant is archived.
        metadata.mark(partition)
        for each in old[:-1]:
            metadata.remove(each)
            count += 1
    return count


def _is_before(one: HashRing, other: HashRing) -> bool:
    return instant_key(one.instant) < instant_key(other.instant)


def _done(timeline: Timeline, instant: str) -> str:
    """When an instant completed; one that is archived did so before all that can be read."""
    found = timeline.find(instant)
    return instant_key(instant if found is None else found.completion_time or instant)
