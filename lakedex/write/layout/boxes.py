"""Ranges of files that are there, for rows that may join them without making them wider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bounds import ColumnBounds
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.ranks import Ints

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Boxes:
    """What each of some files holds, by the names of an order.

    Example:
        >>> days = ColumnBounds(pa.int64(), pa.array([1, 5]), pa.array([3, 9]),
        ...     np.array([0, 0]), np.array([9, 9]), np.array([True, True]))
        >>> boxes = Boxes.of(RowOrder(("day",)), [days])
        >>> boxes.numbers(pa.table({"day": [2, 4, 9]})).tolist()
        [0, 2, 1]
    """

    order: RowOrder
    minima: tuple[pa.Array, ...]
    maxima: tuple[pa.Array, ...]
    has_nulls: tuple[Mask, ...]
    count: int

    @classmethod
    def of(cls, order: RowOrder, bounds: Sequence[ColumnBounds]) -> Boxes:
        """The boxes of files, with the bounds of each name of the order."""
        return cls(
            order,
            tuple(each.minimum for each in bounds),
            tuple(each.maximum for each in bounds),
            tuple(each.known & (each.null_count > 0) for each in bounds),
            len(bounds[0]),
        )

    def numbers(self, rows: pa.Table) -> Ints:
        """The first box that holds each row; the number of boxes where none does."""
        found = np.full(rows.num_rows, self.count, dtype=np.int64)
        values = [self.order.values(rows, name) for name in self.order.columns]
        for number in reversed(range(self.count)):
            held = np.ones(rows.num_rows, dtype=np.bool_)
            for place, column in enumerate(values):
                held &= self._holds(place, number, column)
            found[held] = number
        return found

    def _holds(self, place: int, number: int, values: pa.ChunkedArray) -> Mask:
        low, high = self.minima[place][number], self.maxima[place][number]
        held = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        told: Mask = pc.fill_null(held, fill_value=False).to_numpy().astype(np.bool_)
        if self.has_nulls[place][number]:
            told |= pc.is_null(values).to_numpy().astype(np.bool_)
        return told
