"""Which file groups a write puts its rows into, and how."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from lakedex.config import TableType
from lakedex.errors import ServicePends
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.table import Snapshot
from lakedex.txn.conflicts import CopiedGroups, pending_groups, service_conflict
from lakedex.write.assign import FileSizes, Group, Placing, arranged_groups, assign, sort_new
from lakedex.write.attempt import Attempt
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import NewBuckets
from lakedex.write.parts import TaggedPart
from lakedex.write.row_size import row_bytes
from lakedex.write.small_files import Stock, fill_in_order
from lakedex.write.tag_stage import TagAnswer

_TINY_FILE_BYTES = 1 << 20
_MOST_TINY_FILES = 256
"""About so many new files smaller than that does one write make."""


def assigned_groups(
    write: Attempt,
    facts: WriteContext,
    answers: Sequence[TagAnswer],
    replaced: Sequence[FileSlice],
    copies: CopiedGroups | None = None,
    new_buckets: Mapping[FileSliceId, NewBuckets] | None = None,
) -> list[Group]:
    """The file groups to write; none of them may be in the way of a service that pends.

    Args:
        write: The write.
        facts: The table.
        answers: The rows.
        replaced: The file slices that go.
        copies: The file groups whose rows new buckets of a resize get, too.
        new_buckets: Those of them that get virtual log files, with the buckets.
    """
    snapshot = write.transaction.snapshot
    parts = [part for answer in answers for part in answer.parts]
    replaced_ids = {current.id for current in replaced}
    slices = {current.id: current for current in snapshot.slices if current.id not in replaced_ids}
    groups = _groups(write, facts, parts, slices)
    for group in groups if new_buckets else ():
        group.new_buckets = (new_buckets or {}).get(FileSliceId(group.partition, group.file_id))
    own = [group for group in groups if group.copy is None]
    touched = {FileSliceId(group.partition, group.file_id) for group in own} | replaced_ids
    logged = {FileSliceId(group.partition, group.file_id) for group in groups if group.is_log}
    known = CopiedGroups() if copies is None else copies
    problem = service_conflict(snapshot.timeline, touched, touched - logged, copies=known)
    if problem is not None:
        # It would lose at its commit; nothing is to be written for that.
        raise ServicePends(f"{problem}; write again when that is done")
    if facts.early_look is not None:
        touched = touched.difference(known.written)
        write.transaction.look_early(touched, touched - logged)
    return groups


def _groups(
    write: Attempt,
    facts: WriteContext,
    parts: Sequence[TaggedPart],
    slices: Mapping[FileSliceId, FileSlice],
) -> list[Group]:
    """The file groups to write, with the rows of each."""
    snapshot, order = write.transaction.snapshot, write.taken.order
    sizes = _sizes(write, snapshot, parts_bytes=sum(part.segment.length for part in parts))
    new = [part for part in parts if part.file_id is None]
    placing = _placing(write, snapshot, {part.partition for part in new})
    if order is None or not order.across_files or placing.by_bucket:
        groups = assign(parts, slices, sizes, placing)
        if order is not None:
            sort_new(groups, order.order)
        return groups
    placed = [part for part in parts if part.file_id is not None]
    groups = assign(placed, slices, sizes, placing)
    engine = write.target.engine
    if placing.fill_small:
        stock = Stock(snapshot, slices, sizes, placing)
        new = fill_in_order(engine, facts, order.order, stock, groups, new)
    return groups + arranged_groups(order.arranged(engine, facts, new, sizes), order.order)


def _placing(write: Attempt, snapshot: Snapshot, partitions: set[str]) -> Placing:
    to_logs = snapshot.config.table_type is TableType.MERGE_ON_READ
    if write.target.options.buckets is not None:
        return Placing(to_logs=to_logs, fill_small=False, by_bucket=True)
    # A row that was not looked for may be of a key that is there, and a log would merge the two.
    looked_up = write.operation.looks_up and write.target.options.lookup_index.uses_record_index
    new_in_logs = to_logs and looked_up
    return Placing(
        to_logs=to_logs,
        fill_small=write.operation.fills_small,
        new_in_logs=new_in_logs,
        with_deletes=groups_with_deletes(snapshot, partitions) if new_in_logs else frozenset(),
        closed=pending_groups(snapshot.timeline),
    )


def _sizes(write: Attempt, snapshot: Snapshot, *, parts_bytes: int) -> FileSizes:
    options, rows = write.target.options, write.taken.rows
    each = row_bytes(snapshot, rows, parts_bytes)
    # A size of a few bytes gives every row a file, as in Hudi, but not thousands of them.
    least = min(_TINY_FILE_BYTES, rows * each / _MOST_TINY_FILES)
    return FileSizes(
        small_bytes=options.small_file_limit,
        most_bytes=max(options.max_file_size, int(least)),
        row_bytes=each,
    )


def groups_with_deletes(snapshot: Snapshot, partitions: Container[str]) -> frozenset[FileSliceId]:
    """Groups of some partitions whose newest slice has a log that may delete a record.

    A log whose commit is archived, or says nothing of deletes, may.
    """
    timeline = snapshot.timeline
    known = {instant.requested_time: instant for instant in timeline.write_instants()}
    harmless: dict[str, frozenset[str]] = {}
    found = set()
    for current in snapshot.slices:
        if current.partition not in partitions:
            continue
        for log in current.logs:
            time = log.instant_time
            if time not in harmless:
                stats = timeline.commit_metadata(known[time]).stats() if time in known else ()
                harmless[time] = frozenset(
                    name
                    for stat in stats
                    if stat.num_deletes == 0
                    for name in (stat.log_files or ())
                )
            if log.name not in harmless[time]:
                found.add(current.id)
                break
    return frozenset(found)
