"""New rows of an ordered table that go to small file groups: only where they make none wider.

A small file takes the rows that lie in its own range, by the order of the table. All others go to
new files: a file with rows from all over would be read by every query. Ranges are those that the
indexes tell, so a file that they say nothing of takes no rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.engine import Engine
from lakedex.expr.tree import Literal
from lakedex.filegroup import FileSlice, FileSliceId, Slices
from lakedex.format.spill import Segment
from lakedex.index.contract import IndexedTable, Question
from lakedex.index.file_bounds import slice_bounds
from lakedex.index.registry import range_key
from lakedex.table import Snapshot
from lakedex.write.assign import FileSizes, Group, Placing, add_segment, small_groups, takes
from lakedex.write.context import WriteContext
from lakedex.write.layout.arranging import fit
from lakedex.write.layout.boxes import Boxes
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.parts import Part
from lakedex.write.parts import TaggedPart

_MOST_FILLED = 64
"""So many small files of a partition are looked at, the smallest ones."""


@dataclass(frozen=True)
class Stock:
    """The file groups that are there, and how large they may become."""

    snapshot: Snapshot
    slices: Mapping[FileSliceId, FileSlice]
    sizes: FileSizes
    placing: Placing


def fill_in_order(
    engine: Engine,
    facts: WriteContext,
    order: RowOrder,
    stock: Stock,
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
