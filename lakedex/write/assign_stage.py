"""Assigns the rows of one attempt at a write to file groups.

In an ordered table new rows fill a small file group only if they do not widen its range: the rows
within the range of a small file go to that file, all others to new files. A file with rows from all
ranges would be read by every query. The indexes supply the ranges, so a file without statistics
takes no rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.config import TableType
from lakedex.engine import Engine
from lakedex.errors import ServicePends
from lakedex.expr.tree import Literal
from lakedex.filegroup import FileSlice, FileSliceId, Slices
from lakedex.format.spill import Segment
from lakedex.index.contract import IndexedTable, Question
from lakedex.index.file_bounds import slice_bounds
from lakedex.index.registry import range_key
from lakedex.table import Snapshot
from lakedex.txn.conflicts import CopiedGroups, pending_groups, service_conflict
from lakedex.txn.transaction import Transaction
from lakedex.write.assign import (
    FileSizes,
    Group,
    Placing,
    add_segment,
    arranged_groups,
    assign,
    row_bytes,
    small_groups,
    sort_new,
    takes,
)
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import NewBuckets
from lakedex.write.intake import IngestedRows
from lakedex.write.layout.arranging import Part, fit
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.ranges import Boxes
from lakedex.write.operation import Operation
from lakedex.write.result import StepClock
from lakedex.write.rows import TaggedPart
from lakedex.write.tag_stage import TagAnswer
from lakedex.write.write_target import Target

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
        stock = ExistingGroups(snapshot, slices, sizes, placing)
        new = fill_small_files(engine, facts, order.order, stock, groups, new)
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


@dataclass(frozen=True)
class Attempt:
    """One attempt at a write."""

    target: Target
    operation: Operation
    taken: IngestedRows
    transaction: Transaction
    scratch: str
    clock: StepClock


_MOST_FILLED = 64
"""So many small files of a partition are looked at, the smallest ones."""


@dataclass(frozen=True)
class ExistingGroups:
    """The file groups that are there, and how large they may become."""

    snapshot: Snapshot
    slices: Mapping[FileSliceId, FileSlice]
    sizes: FileSizes
    placing: Placing


def fill_small_files(
    engine: Engine,
    facts: WriteContext,
    order: RowOrder,
    stock: ExistingGroups,
    groups: list[Group],
    new: Sequence[TaggedPart],
) -> list[TaggedPart]:
    """Put new rows into small groups, which are added to `groups`; answers those that are left."""
    touched = {FileSliceId(group.partition, group.file_id): group for group in groups}
    partitions = {part.partition for part in new}
    small = small_groups(stock.slices, touched, stock.sizes, stock.placing, partitions)
    takers = {partition: own[:_MOST_FILLED] for partition, own in small.items()}
    boxes = _boxes(facts, stock.snapshot, order, takers)
    if not boxes:
        return list(new)
    parts = [Part(each.partition, each.segment) for each in new if each.partition in boxes]
    fitting: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for spread in fit(engine, facts, order, parts, boxes):
        fitting[spread.partition, spread.number].append(spread.segment)
    left = [each for each in new if each.partition not in boxes]
    for (partition, number), segments in sorted(fitting.items(), key=lambda each: each[0]):
        rest = segments
        if number < boxes[partition].count:
            group = takers[partition][number]
            rest = _filled(group, segments, stock.sizes, stock.placing)
            is_touched = FileSliceId(partition, group.file_id) in touched
            if len(rest) < len(segments) and not is_touched:
                groups.append(group)
        left += (TaggedPart(partition, None, segment) for segment in rest)
    return left


def _filled(
    group: Group, segments: Sequence[Segment], sizes: FileSizes, placing: Placing
) -> list[Segment]:
    """The segments that a group has no room for, after it took the others."""
    held = group.current.size_bytes if group.current else 0
    row_bytes = max(sizes.row_bytes, 1.0)
    room = int((sizes.most_bytes - held) / row_bytes)
    taken: list[Segment] = []
    rest: list[Segment] = []
    for segment in segments:
        fits = segment.rows <= room
        (taken if fits else rest).append(segment)
        room -= segment.rows if fits else 0
    rows = sum(segment.rows for segment in taken)
    if not taken or not takes(group, held, rows * row_bytes, sizes, placing):
        return list(segments)
    for segment in taken:
        add_segment(group, segment, 0, segment.rows)
    return rest


def _boxes(
    facts: WriteContext, snapshot: Snapshot, order: RowOrder, takers: Mapping[str, Sequence[Group]]
) -> dict[str, Boxes]:
    """What the indexes tell of some groups by partition; nothing unless of all names."""
    table = snapshot.indexed_table()
    groups = [group for own in takers.values() for group in own]
    slices = Slices(group.current for group in groups if group.current is not None)
    if table is None or not slices:
        return {}
    question = Question(Literal(value=True), slices, table)
    places = [_place(facts, table, order, name) for name in order.columns]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        return {}
    bounds = [slice_bounds(question, *place) for place in known]
    partition_of = np.array([each.partition for each in slices])
    return {
        partition: Boxes.of(
            order, [each.take(np.flatnonzero(partition_of == partition)) for each in bounds]
        )
        for partition in takers
    }


def _place(
    facts: WriteContext, table: IndexedTable, order: RowOrder, name: str
) -> tuple[str, str, pa.DataType] | None:
    """Where ranges of a name stand: the metadata partition, the column there, and their type."""
    expression = order.expression(name)
    if expression is None:
        key = range_key(table, name)
        return None if key is None else (*key, facts.schema.field(name).type)
    if expression.ranges is None or not table.is_live(expression.name):
        return None
    return *expression.ranges, expression.type
