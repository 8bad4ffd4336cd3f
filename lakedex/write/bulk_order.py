"""How a bulk insert sorts its rows, and the file groups that come of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config.layout_options import BulkSort, LayoutOptions
from lakedex.engine import Engine
from lakedex.format.spill import Segment
from lakedex.write.assign import FileSizes
from lakedex.write.facts import TableFacts
from lakedex.write.layout.arranging import Arranged, Unarranged, arrange
from lakedex.write.layout.order import RowOrder, Strategy
from lakedex.write.layout.parts import Part
from lakedex.write.parts import TaggedPart
from lakedex.write.rows import KEY


@dataclass(frozen=True, slots=True)
class BulkOrder:
    """The order of a bulk insert, inside of files or across all files of a partition."""

    order: RowOrder
    across_files: bool

    @classmethod
    def of(cls, options: LayoutOptions, schema: pa.Schema) -> BulkOrder | None:
        """What the options ask for; None leaves rows as they come.

        Raises:
            InvalidInput: the table lacks a column, or rows cannot be sorted by it.
        """
        if options.bulk_sort is BulkSort.NONE:
            return None
        names = options.bulk_columns or (KEY,)
        order = RowOrder.of(names, Strategy.parse(options.strategy), schema)
        return cls(order, options.bulk_sort is BulkSort.ACROSS_FILES)

    def arranged(
        self, engine: Engine, facts: TableFacts, parts: Sequence[TaggedPart], sizes: FileSizes
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
