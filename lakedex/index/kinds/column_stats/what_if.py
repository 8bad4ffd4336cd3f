"""Column stats that do not exist: which file slices they would leave for a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.expr.bounds import ColumnBounds, merge_by_group
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.filegroup import FileSlice
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.what_if import HypotheticalIndex, Sampled, WhatIfQuery

_PARTITION = "column_stats"


def what_if(
    kind: MetadataIndexKind, columns: tuple[str, ...], schema: pa.Schema
) -> HypotheticalIndex:
    """Statistics of every column that a predicate names."""
    del kind, columns, schema
    return HypotheticalStats()


@dataclass(frozen=True, slots=True)
class HypotheticalStats:
    """Column stats of every column that the predicate names."""

    kind: str = _PARTITION
    name: str = _PARTITION
    lookups: int = 1

    def why_not(self, query: WhatIfQuery) -> str | None:
        """They answer comparisons of columns that have no statistics yet."""
        return None if self._columns(query) else "the table has statistics of these columns already"

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """The slices whose ranges allow the predicate."""
        del share  # What is left of a part stands for the whole.
        columns = self._columns(query)
        stats = query.ranges([each.name for each in columns], slices)
        places = {
            (each.partition, file.name): number
            for number, each in enumerate(slices)
            for file in (each.base, *each.logs)
            if file is not None
        }
        bounds: dict[Expr, ColumnBounds] = {
            column: _bounds(column, stats[column.name], places, len(slices))
            for column in columns
            if column.name in stats
        }
        keep = may_match(query.predicate, bounds, len(slices), time_zone=query.time_zone)
        return Sampled(keep, None, f"ranges of {', '.join(each.name for each in columns)}")

    @staticmethod
    def _columns(query: WhatIfQuery) -> list[Column]:
        definition = query.definitions.get(_PARTITION)
        known: tuple[str, ...] | None = ()
        if query.is_live(_PARTITION):
            known = definition.source_fields if definition else None
        return [
            column
            for column in columns_of(query.predicate)
            if column.type is not None and len(column.path) == 1
            if known is not None and column.name not in known
        ]


def _bounds(
    column: Column, stats: pa.Table, places: dict[tuple[str, str], int], count: int
) -> ColumnBounds:
    """Ranges of files as bounds of slices; a slice with a file of no range has none."""
    names = zip(stats["partition"].to_pylist(), stats["file"].to_pylist(), strict=True)
    slice_of = np.array([places[name] for name in names], dtype=np.int64)
    with_ranges = np.bincount(slice_of, minlength=count)
    of_slice = np.bincount(np.array(list(places.values()), dtype=np.int64), minlength=count)
    files = ColumnBounds(
        stats["minimum"].type,
        stats["minimum"].combine_chunks(),
        stats["maximum"].combine_chunks(),
        stats["null_count"].to_numpy(),
        stats["value_count"].to_numpy(),
        (with_ranges == of_slice)[slice_of],
    )
    return merge_by_group(files, slice_of, count)
