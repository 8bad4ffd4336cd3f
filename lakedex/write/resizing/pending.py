"""What pending resizes are about to do to the buckets of a partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakedex.errors import CorruptFile, FileMissing
from lakedex.filegroup import LogFile, parse_data_file
from lakedex.index.kinds.bucket.ring import (
    NODES_KEY,
    PARTITION_KEY,
    HashNode,
    HashRing,
    NodeTag,
    nodes_of_plan,
)
from lakedex.table import Snapshot
from lakedex.table.bucket_index import is_resize
from lakedex.timeline import Action, Instant, Timeline, load_table_config


class ResizeWatch:
    """Sees which resizes were completed since a write began, which is then moved to the new ring.

    There is no limit to these attempts, as each needs another resize that completed.
    """

    def __init__(self, timeline: Timeline) -> None:
        """Take what is complete now for known."""
        self._timeline = timeline
        self._known = {each.requested_time for each in _replaces(timeline)}

    def has_new(self) -> bool:
        """Whether a resize was completed since the last call."""
        storage = self._timeline.storage
        timeline = Timeline.load(storage, load_table_config(storage), before=self._timeline)
        new = [each for each in _replaces(timeline) if each.requested_time not in self._known]
        self._known.update(each.requested_time for each in new)
        return any(is_resize(timeline, each) for each in new)


def _replaces(timeline: Timeline) -> list[Instant]:
    return [each for each in timeline.write_instants() if each.action is Action.REPLACECOMMIT]


@dataclass(frozen=True)
class PendingRing:
    """The ring of a partition once a pending resize is complete."""

    instant: str
    """That of the resize."""
    ring: HashRing
    leaving: frozenset[str]
    """The file groups of the buckets that it takes away."""
    versions: Mapping[str, int]
    """How many log files the new file groups have already, at most."""


def pending_ring(snapshot: Snapshot, ring: HashRing) -> PendingRing | None:
    """What a pending resize makes of a ring; None where none does, or its plan is outdated."""
    leaving = leaving_buckets(snapshot.timeline, ring)
    instants = set(leaving.values())
    if len(instants) != 1:
        return None
    instant = min(instants)
    nodes = [
        node
        for time, partition, own in _planned(snapshot.timeline)
        if time == instant and partition == ring.partition
        for node in own
    ]
    then = ring.resized(nodes, instant)
    new = {node.file_id for node in then.nodes} - {node.file_id for node in ring.nodes}
    versions: dict[str, int] = dict.fromkeys(new, 0)
    for name, size in snapshot.listing.files.get(ring.partition, ()):
        log = parse_data_file(name, size)
        if isinstance(log, LogFile) and log.file_id in versions:
            versions[log.file_id] = max(versions[log.file_id], log.version)
    return PendingRing(instant, then, frozenset(leaving), versions)


def leaving_buckets(timeline: Timeline, ring: HashRing) -> dict[str, str]:
    """The file groups of buckets that pending resizes take away, with the instant of the resize.

    Empty buckets are among them, which the slices of a plan do not name.
    """
    found = {}
    for instant, partition, nodes in _planned(timeline):
        if partition != ring.partition:
            continue
        values = {node.value for node in nodes}
        found.update({node.file_id: instant for node in ring.nodes if node.value in values})
    return found


def planned_changes(timeline: Timeline, ring: HashRing) -> list[tuple[str, tuple[int, ...], int]]:
    """The groups of pending resizes: the instant, the buckets, how many take their place."""
    found = []
    for instant, partition, nodes in _planned(timeline):
        values = {node.value for node in nodes}
        numbers = tuple(n for n, node in enumerate(ring.nodes) if node.value in values)
        if partition == ring.partition and numbers:
            kept = sum(node.tag is not NodeTag.DELETE for node in nodes)
            found.append((instant, numbers, kept))
    return found


def _planned(timeline: Timeline) -> Iterator[tuple[str, str, list[HashNode]]]:
    for pending in timeline.pending_of(Action.CLUSTERING, Action.REPLACECOMMIT):
        if not is_resize(timeline, pending):
            continue
        try:
            plan = timeline.requested_replace(pending.requested_time).clustering
        except (FileMissing, CorruptFile):
            continue  # taken back since the timeline was read
        for group in plan.groups if plan is not None else ():
            extra = group.extra or {}
            text = extra.get(NODES_KEY, "[]")
            nodes = nodes_of_plan(text, path=f"the clustering plan {pending.requested_time}")
            yield pending.requested_time, extra.get(PARTITION_KEY, ""), nodes
