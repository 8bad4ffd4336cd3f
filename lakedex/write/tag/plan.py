"""Plans tagging in the driver: looks keys up in file slices, or finds the record index."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

from lakedex.config.write_index import RecordIndexWindow, WriteIndex
from lakedex.engine import Engine
from lakedex.errors import IndexUnusable
from lakedex.filegroup import FileSlice
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.kinds.windowed.lookup import WindowAccess
from lakedex.index.metadata_table import MetadataTable
from lakedex.index.metadata_table.partitions import no_groups
from lakedex.keys import escape_path_value
from lakedex.table.snapshot import Snapshot
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.conflicts import pending_groups
from lakedex.write.context import WriteContext
from lakedex.write.tag.index_lookup import (
    RECORD_INDEX,
    RecordIndexAccess,
    VisibleInstants,
    look_up_window,
)
from lakedex.write.tag.lookup import find_matches, lookup_tasks, with_hints
from lakedex.write.tag.stored_rows import spill_slices
from lakedex.write.tag.tag_rows import TagPlan
from lakedex.write.windowed_index import plan_windowed_lookup

_DASHES_IN_PARTITION_GROUP = 4
"""`record-index-<escaped partition>-0000-0`; the escape leaves no dash in a partition."""


def plan_tagging(  # noqa: PLR0913 (keywords)
    engine: Engine,
    facts: WriteContext,
    snapshot: Snapshot,
    index: WriteIndex,
    *,
    update_partition_path: bool,
    buckets: Sequence[Sequence[Segment]],
    partitions: Sequence[str],
    use_metadata: bool = True,
    window: RecordIndexWindow | None = None,
) -> TagPlan:
    """Find out what `tag_bucket` needs; SIMPLE and BLOOM lookups run here, in workers.

    Args:
        engine: Where lookups run.
        facts: The table, for workers.
        snapshot: The table as the write found it.
        index: The table's write index.
        update_partition_path: Whether global indexes move a record whose partition changed.
        buckets: The spilled rows; all rows of a key are in one bucket.
        partitions: The partition paths that the rows have.
        use_metadata: Whether BLOOM lookups ask the metadata table before footers.
        window: Where a windowed record index knows some slices; the others are looked through.

    Raises:
        IndexUnusable: the table's record index cannot be read, or is of the other kind.
    """
    if RECORD_INDEX not in snapshot.config.metadata_partitions:
        # The write that asks for the index makes it; until then keys are found in the files.
        index = index.without_record_index
    slices: Sequence[FileSlice] = snapshot.slices
    if not index.is_global:
        own = frozenset(partitions)
        slices = [file_slice for file_slice in slices if file_slice.partition in own]
    access = _record_index(snapshot, index, partitions) if index.uses_record_index else None
    matches: list[list[Segment]] = [[] for _ in buckets]
    searched, known = slices, None
    if window is not None:
        found_out = plan_windowed_lookup(facts, snapshot, window, slices)
        searched, known = found_out.searched, found_out.access
        if known is not None and searched and index.is_global:
            buckets = _without_found(engine, facts, known, buckets, matches)
            known = None
    if searched and any(buckets) and not index.uses_record_index:
        worker = partial(find_matches, facts, index, buckets)
        tasks = lookup_tasks(searched, engine.parallelism)
        if use_metadata and index in (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM):
            prefix = f"{facts.scratch}/filters-{uuid.uuid4().hex}"
            tasks = with_hints(snapshot, tasks, SpillWriter(facts.address.open(), prefix))
        for found in engine.map("find keys in files", worker, tasks):
            for bucket, segment in found:
                matches[bucket].append(segment)
    pending = pending_groups(snapshot.timeline)
    catalog = None
    if slices and (index.is_global or index.uses_record_index):
        catalog = spill_slices(facts.address.open(), facts.scratch, slices)
    return TagPlan(
        index=index,
        update_partition_path=update_partition_path,
        matches=tuple(map(tuple, matches)),
        record_index=access if slices else None,
        slices=catalog,
        # A deleted record comes back in a new base file, which would hide the service's one.
        closed=frozenset(f"{group.partition}/{group.file_id}" for group in pending),
        window=known,
    )


def _without_found(
    engine: Engine,
    facts: WriteContext,
    window: WindowAccess,
    buckets: Sequence[Sequence[Segment]],
    matches: list[list[Segment]],
) -> list[list[Segment]]:
    """Ask the windowed index first, and answer the keys that it does not find, by bucket."""
    asked = [number for number, segments in enumerate(buckets) if segments]
    tasks = [tuple(buckets[number]) for number in asked]
    answers = engine.map("find keys in the index", partial(look_up_window, facts, window), tasks)
    rest: list[list[Segment]] = [[] for _ in buckets]
    for number, answer in zip(asked, answers, strict=True):
        matches[number].append(answer.places)
        rest[number] = [] if answer.rest is None else [answer.rest]
    return rest


def _record_index(
    snapshot: Snapshot, index: WriteIndex, partitions: Sequence[str]
) -> RecordIndexAccess | None:
    """Where the index lies; None in a table without rows, which may not have one yet."""
    if not snapshot.slices:
        return None
    metadata = snapshot.metadata
    if metadata is None:
        reason = f" ({snapshot.metadata_problem})" if snapshot.metadata_problem else ""
        raise IndexUnusable(
            f"table {snapshot.config.name} has no usable record index{reason}, which the write "
            f"index {index.value} needs"
        )
    definition = snapshot.definitions.get(RECORD_INDEX)
    is_partitioned = definition is not None and definition.is_partitioned
    if is_partitioned is index.is_global:
        kind = "per partition" if is_partitioned else "over the whole table"
        raise IndexUnusable(
            f"the record index of table {snapshot.config.name} is {kind}, so that the write index "
            f"{index.value} cannot use it"
        )
    groups = tuple(metadata.groups(RECORD_INDEX))
    if not groups:
        raise IndexUnusable(f"table {snapshot.config.name}: {no_groups(RECORD_INDEX)}")
    visible = _visible(metadata, snapshot, groups)
    if index.is_global:
        return RecordIndexAccess(visible, groups=groups, stamps=metadata.small_stamps(RECORD_INDEX))
    by_name: dict[str, list[FileSlice]] = {}
    for group in groups:
        if group.file_id.count("-") == _DASHES_IN_PARTITION_GROUP:
            by_name.setdefault(group.file_id.rsplit("-", 2)[0], []).append(group)
    found = {}
    for partition in partitions:
        name = f"record-index-{escape_path_value(partition, for_file_name=True)}"
        if name in by_name:
            found[partition] = tuple(by_name[name])
    return RecordIndexAccess(visible, by_partition=found)


def global_record_index(snapshot: Snapshot) -> RecordIndexAccess | None:
    """Where the record index over the whole table lies; None where there is none to be read."""
    definition = snapshot.definitions.get(RECORD_INDEX)
    if definition is not None and definition.is_partitioned:
        return None
    return all_index_groups(snapshot)


def all_index_groups(snapshot: Snapshot) -> RecordIndexAccess | None:
    """Every file group of the record index, whichever its kind; None where there is none."""
    metadata = snapshot.metadata
    if metadata is None or RECORD_INDEX not in snapshot.config.metadata_partitions:
        return None
    groups = tuple(metadata.groups(RECORD_INDEX))
    if not groups:
        return None
    return RecordIndexAccess(_visible(metadata, snapshot, groups), groups=groups)


def _visible(
    metadata: MetadataTable, snapshot: Snapshot, groups: Sequence[FileSlice]
) -> VisibleInstants:
    timelines = (metadata.timeline, snapshot.timeline)
    times = {instant.requested_time for each in timelines for instant in each.instants}
    times.update(log.instant_time for group in groups for log in group.logs)
    refused = frozenset(time for time in times if not metadata.is_visible(time))
    return VisibleInstants(CommittedInstants.of(metadata.timeline), refused)
