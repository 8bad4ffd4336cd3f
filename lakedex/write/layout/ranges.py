"""Cuts the rows of a partition into ranges of one order, about equally many rows in each.

`Boxes` are the ranges of existing files, which may take rows that do not widen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bounds import ColumnBounds
from lakedex.write.layout.order import Ints, RowOrder, joined, joint_ranks, ranks


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


_LEEWAY = 0.2
"""How far a cut may move, in lengths of a range."""


def cut_sorted(columns: Sequence[pa.ChunkedArray], count: int) -> tuple[pa.ChunkedArray, ...]:
    """The least values that rows of all ranges but the first have, of sorted columns.

    What a cut leaves open is null, which comes first: with the first column alone given, all rows
    that have its value belong to the range.

    Example:
        >>> x = pa.chunked_array([[1, 1, 1, 1, 1, 1, 2, 2, 3, 4]])
        >>> key = pa.chunked_array([list("abcdefghij")])
        >>> [column.to_pylist() for column in cut_sorted([x, key], 2)]
        [[2], [None]]
    """
    is_curve = pa.types.is_uint64(columns[0].type)
    changed = _first_changes([ranks(column) for column in columns])
    steps = len(columns) - changed
    if is_curve:
        places = columns[0].to_numpy()
        # The first two columns are the place and the key, which makes the least step.
        steps = np.where(changed == 0, _differing_bits(places) + 1, steps)
    at = _cuts(steps, count)
    bounds = [column.take(pa.array(at)) for column in columns]
    if is_curve:
        # The part of the grid that begins here, whichever of its points are in the sample.
        kept = _differing_bits(places)[at]
        top = np.where(kept > 0, (places[at] >> (kept - 1)) << (kept - 1), places[at])
        bounds[0] = pa.chunked_array([pa.array(top.astype(np.uint64))])
    return tuple(
        pc.if_else(pa.array(changed[at] < number), pa.nulls(len(at), bound.type), bound)
        for number, bound in enumerate(bounds)
    )


def _first_changes(columns: Sequence[Ints]) -> Ints:
    """For each row the number of the first column that differs from the row before."""
    count = len(columns[0])
    found = np.full(count, len(columns), dtype=np.int64)
    for number in reversed(range(len(columns))):
        differs = np.diff(columns[number], prepend=-1) != 0
        found[differs] = number
    return found


def _differing_bits(places: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """How many low bits of each place hold all in which it differs from the one before."""
    rest = np.zeros(len(places), dtype=np.uint64)
    rest[1:] = places[1:] ^ places[:-1]
    bits = np.zeros(len(places), dtype=np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        is_above = rest >= np.uint64(1 << step)
        bits[is_above] += np.uint64(step)
        rest = np.where(is_above, rest >> np.uint64(step), rest)
    return bits + (rest > 0)


def _cuts(steps: npt.NDArray[np.generic], count: int) -> Ints:
    """The rows that ranges begin with, but for the first range."""
    rows = len(steps)
    leeway = int(_LEEWAY * rows / count)
    found = []
    for number in range(1, count):
        even = number * rows // count
        low, high = max(1, even - leeway), min(rows, even + leeway + 1)
        if low < high:
            window = steps[low:high]
            largest = low + np.flatnonzero(window == window.max())
            found.append(int(largest[np.abs(largest - even).argmin()]))
    return np.unique(np.array(found, dtype=np.int64))


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
