"""Cuts the rows of a partition into ranges of one order, about equally many rows in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.write.layout.cuts import cut_sorted
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.ranks import Ints, joined, joint_ranks


@dataclass(frozen=True)
class Ranges:
    """The least values of all ranges but the first, found from a sample.

    Example:
        >>> keys = pa.array(["a", "b", "c", "d"])
        >>> sample = pa.table({"x": [10, 20, 30, 40], "_hoodie_record_key": keys})
        >>> ranges = Ranges.of(RowOrder(("x",)), sample, 2)
        >>> rows = pa.table({"x": [35, 1, 30], "_hoodie_record_key": ["q", "r", "z"]})
        >>> ranges.numbers(rows).tolist()
        [1, 0, 1]
    """

    order: RowOrder
    sample: pa.Table
    bounds: tuple[pa.ChunkedArray, ...]

    @classmethod
    def of(cls, order: RowOrder, sample: pa.Table, count: int) -> Ranges:
        """About `count` ranges with as many sample rows in each."""
        in_order = pa.array(order.positions(sample))
        columns = [column.take(in_order) for column in order.sort_columns(sample, sample)]
        return cls(order, sample, cut_sorted(columns, count))

    def numbers(self, rows: pa.Table) -> Ints:
        """The number of each row's range.

        Column after column is compared with the bounds, the later ones only for the rows that are
        equal to a bound so far.
        """
        found = np.zeros(len(rows), dtype=np.int64)
        left = np.arange(len(rows))
        of_bounds = np.zeros(len(self.bounds[0]), dtype=np.int64)
        of_rows = np.zeros(len(rows), dtype=np.int64)
        for bounds, column in zip(
            self.bounds, self.order.sort_columns(rows, self.sample), strict=True
        ):
            if not len(left) or not len(bounds):
                break
            ranked = joint_ranks(bounds, column.take(pa.array(left)))
            both = joined(np.concatenate([of_bounds, of_rows]), np.concatenate(ranked))
            of_bounds, of_rows = both[: len(bounds)], both[len(bounds) :]
            first = np.searchsorted(of_bounds, of_rows, side="left")
            found[left] = last = np.searchsorted(of_bounds, of_rows, side="right")
            is_equal = first != last
            left, of_rows = left[is_equal], of_rows[is_equal]
        return found
