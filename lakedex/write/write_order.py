"""How a write sorts its new rows, and the file groups that come of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config.service_options import BulkSort, LayoutOptions
from lakedex.engine import Engine
from lakedex.format.spill import Segment
from lakedex.index.maintenance import MaintainedIndex
from lakedex.write.assign import FileSizes
from lakedex.write.context import WriteContext
from lakedex.write.layout.arranging import Arranged, Unarranged, arrange
from lakedex.write.layout.order import RowOrder, Strategy
from lakedex.write.layout.parts import Part
from lakedex.write.operation import Operation
from lakedex.write.parts import TaggedPart
from lakedex.write.rows import KEY


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """The order of new rows, inside of files or across all files of a partition."""

    order: RowOrder
    across_files: bool

    @classmethod
    def of(
        cls,
        operation: Operation,
        options: LayoutOptions,
        schema: pa.Schema,
        indexes: Sequence[MaintainedIndex] = (),
    ) -> WriteOrder | None:
        """What the options ask for; None leaves rows as they come.

        Raises:
            InvalidInput: the table lacks a column, or rows cannot be sorted by it.
        """
        names, sort = options.write_columns, BulkSort.NONE
        if operation.sorts:
            names, sort = options.bulk_columns or names, options.bulk_sort
        if operation.is_delete or not (names or sort is not BulkSort.NONE):
            return None
        order = RowOrder.of(names or (KEY,), Strategy.parse(options.strategy), schema, indexes)
        return cls(order, across_files=sort is not BulkSort.IN_FILES)

    def arranged(
        self, engine: Engine, facts: WriteContext, parts: Sequence[TaggedPart], sizes: FileSizes
    ) -> list[Arranged]:
        """The rows of each new file."""
        segments: dict[str, list[Segment]] = defaultdict(list)
        for part in parts:
            segments[part.partition].append(part.segment)
        partitions = {}
        for path, own in segments.items():
            rows = sum(segment.rows for segment in own)
            files = -(-rows // sizes.most_rows())
            partitions[path] = Unarranged(tuple(Part(path, each) for each in own), rows, files)
        return arrange(engine, facts, self.order, partitions)
