"""The order that rows are laid out in: by columns one after the other, or along a curve.

An expression index stands for what its expression gives. Rows that are equal in the order are
ordered by their key, so that no value is too frequent to be divided.

Values become integer ranks in the same order: null first, NaN last, strings and bytes compared byte
by byte. The Z-order and Hilbert curves run through a grid of such ranks; points that are near on
the curve are near in all dimensions. Coordinates are columns of integers below 2**bits, a position
on the curve is one integer of bits times dimensions bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, LakedexError
from lakedex.index.maintenance import ComputedColumn, MaintainedIndex
from lakedex.write.rows import KEY

Ints = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array | pa.ChunkedArray"


def has_order(data_type: pa.DataType) -> bool:
    """Whether rows can be sorted by a column of this type."""
    return not (pa.types.is_nested(data_type) or pa.types.is_null(data_type))


def ranks(values: Column) -> Ints:
    """The rank of each value, the same for equal ones and without gaps; that of null is 0.

    Example:
        >>> ranks(pa.array(["b", None, "a", "b"])).tolist()
        [2, 0, 1, 2]
    """
    found: Ints = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy()
    found = found.astype(np.int64)
    if values.null_count:
        found[pc.is_null(values).to_numpy(zero_copy_only=False).astype(np.bool_)] = 0
    return found


def joint_ranks(first: Column, second: Column) -> tuple[Ints, Ints]:
    """The ranks of the values of two columns among each other."""
    both = ranks(pa.chunked_array([*_chunks(first), *_chunks(second)], first.type))
    return both[: len(first)], both[len(first) :]


def quantiles(values: Column, sample: Column, bits: int) -> Ints:
    """Where each value lies among those of a sample, from 0 to 2**bits - 1.

    As many sample rows lie in each stretch of numbers of one length, however values are spread;
    equal values have one number.

    Example:
        >>> quantiles(pa.array([5, 900, -1]), pa.array([1, 5, 7, 1000]), 4).tolist()
        [4, 12, 0]
    """
    count = len(sample)
    if not count:
        return np.zeros(len(values), dtype=np.int64)
    known, found = joint_ranks(sample, values)
    less = np.searchsorted(np.sort(known), found, side="left")
    return (np.minimum(less, count - 1) << bits) // count


def joined(first: Ints, second: Ints) -> Ints:
    """Ranks of pairs: by the first number, then by the second; small as long as both are."""
    pairs = first * (int(second.max(initial=0)) + 1) + second
    numbered: Ints = np.unique(pairs, return_inverse=True)[1]
    return numbered.astype(np.int64, copy=False)


def _chunks(values: Column) -> list[pa.Array]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]


Places = npt.NDArray[np.uint64]
MOST_DIMENSIONS = 32
_PLACE_BITS = 64
_MOST_BITS = 16


def bits_for(dimensions: int) -> int:
    """How many bits a coordinate may have, so that places fit their type."""
    return min(_MOST_BITS, _PLACE_BITS // dimensions)


def zorder(coordinates: Sequence[Ints | Places], bits: int) -> Places:
    """Places on the Z-order curve: the bits of the coordinates in turn, highest first.

    Example:
        >>> zorder([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], 1).tolist()
        [0, 1, 2, 3]
    """
    axes = [axis.astype(np.uint64) for axis in coordinates]
    places = np.zeros(len(axes[0]), dtype=np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for axis in axes:
            places = (places << one) | ((axis >> np.uint64(bit)) & one)
    return places


def hilbert(coordinates: Sequence[Ints], bits: int) -> Places:
    """Places on the Hilbert curve, whose neighbours differ by one in one coordinate.

    The coordinates are turned by Skilling's transform, so that their bits in turn are the place.

    Example:
        >>> hilbert([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], 1).tolist()
        [0, 1, 2, 3]
    """
    axes = [axis.astype(np.uint64) for axis in coordinates]
    top = 1 << (bits - 1)
    _turn(axes, top)
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    step = top
    while step > 1:
        is_set = (axes[-1] & np.uint64(step)) != 0
        flips = np.where(is_set, flips ^ np.uint64(step - 1), flips)
        step >>= 1
    return zorder([axis ^ flips for axis in axes], bits)


def _turn(axes: list[Places], top: int) -> None:
    """Turn and mirror the cubes inside of each cube, from the largest to the smallest."""
    step = top
    while step > 1:
        below = np.uint64(step - 1)
        for number, axis in enumerate(axes):
            is_set = (axis & np.uint64(step)) != 0
            swapped = (axes[0] ^ axis) & below
            first = np.where(is_set, axes[0] ^ below, axes[0] ^ swapped)
            if number:
                axes[number] = np.where(is_set, axis, axis ^ swapped)
            axes[0] = first
        step >>= 1


class Strategy(Enum):
    """How several columns become one order."""

    LINEAR = "linear"
    """By the first column, then by the second: best where filters name the first one."""
    ZORDER = "zorder"
    """Along a Z-order curve: filters on any of the columns leave out files."""
    HILBERT = "hilbert"
    """Along a Hilbert curve, which makes no jumps; dearer to compute than Z-order."""

    @classmethod
    def parse(cls, text: object) -> Strategy:
        """A strategy by its name, in any case, with or without Hudi's hyphen.

        Example:
            >>> Strategy.parse("Z-ORDER")
            <Strategy.ZORDER: 'zorder'>

        Raises:
            InvalidInput: there is none of this name.
        """
        if isinstance(text, cls):
            return text
        plain = text.strip().lower().replace("-", "") if isinstance(text, str) else ""
        for strategy in cls:
            if strategy.value == plain:
                return strategy
        known = ", ".join(strategy.value for strategy in cls)
        raise InvalidInput(f"rows are laid out by one of {known}, not by {text!r}")


def _spelled(name: object, known: Sequence[str]) -> object:
    """A name as the table has it; capital and small letters are the same, as in all of SQL."""
    if name in known or not isinstance(name, str):
        return name
    alike = [each for each in known if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that rows are ordered by, and how.

    Example:
        >>> rows = pa.table({"x": [2, 1, 2], "_hoodie_record_key": ["b", "c", "a"]})
        >>> RowOrder(("x",)).positions(rows).tolist()
        [1, 2, 0]
    """

    columns: tuple[str, ...]
    """The names of columns, or of expression indexes."""
    strategy: Strategy = Strategy.LINEAR
    computed: tuple[ComputedColumn, ...] = ()
    """The expression indexes among them."""

    @classmethod
    def of(
        cls,
        names: Sequence[object],
        strategy: Strategy,
        schema: pa.Schema,
        indexes: Sequence[MaintainedIndex] = (),
    ) -> RowOrder:
        """An order by columns of a table, and by expression indexes that it has.

        Raises:
            InvalidInput: a column is not there, has no order, or stands there twice.
        """
        if not names:
            raise InvalidInput("name at least one column to lay rows out by")
        if len(names) > MOST_DIMENSIONS:
            raise InvalidInput(f"rows are laid out by at most {MOST_DIMENSIONS} columns")
        columns = [each.computed for each in indexes if each.computed is not None]
        known = {each.name: each for each in columns}
        known |= {each.given_name: each for each in columns}
        names = [_spelled(name, (*schema.names, *known)) for name in names]
        for number, name in enumerate(names):
            if not isinstance(name, str) or not (name in schema.names or name in known):
                raise InvalidInput(
                    f"the table has no column {name!r} to lay rows out by, and no such expression "
                    "index: create that first, or name others"
                )
            if name in names[:number]:
                raise InvalidInput(f"the column {name!r} stands twice in the order")
            is_stored = name in schema.names
            data_type = schema.field(name).type if is_stored else known[name].type
            if not has_order(data_type):
                raise InvalidInput(f"rows cannot be sorted by {name!r}, which is {data_type}")
        curve = strategy if len(names) > 1 else Strategy.LINEAR
        chosen = tuple(map(str, names))
        computed = (known[name] for name in chosen if name not in schema.names)
        return cls(chosen, curve, tuple(computed))

    @property
    def stored(self) -> list[str]:
        """The columns of the table that it is about, those inside of expressions too."""
        found: list[str] = []
        for name in self.columns:
            computed = self.expression(name)
            if computed is None:
                found.append(name)
            else:
                found += computed.sources
        return list(dict.fromkeys(found))

    @property
    def needed(self) -> list[str]:
        """The columns that tell the order of rows."""
        return list(dict.fromkeys((*self.stored, KEY)))

    def expression(self, name: str) -> ComputedColumn | None:
        """The expression index of a name in the order; None for a column."""
        return next((e for e in self.computed if name in (e.name, e.given_name)), None)

    def values(self, rows: pa.Table, name: str) -> pa.ChunkedArray:
        """What rows are compared by under a name of the order."""
        computed = self.expression(name)
        if computed is None:
            return rows[name]
        try:
            return computed.values(rows)
        except LakedexError:
            # It is not known what the expression gives for some row: such rows come first.
            return pa.chunked_array([pa.nulls(rows.num_rows, computed.type)])

    def sort_columns(self, rows: pa.Table, sample: pa.Table) -> list[pa.ChunkedArray]:
        """Columns that rows are sorted by one after the other.

        A place on a curve is one among the rows of a sample: only places by one sample compare.
        """
        if self.strategy is Strategy.LINEAR:
            named = list(dict.fromkeys((*self.columns, KEY)))
            return [self.values(rows, name) for name in named]
        bits = bits_for(len(self.columns))
        axes = [
            quantiles(self.values(rows, name), self.values(sample, name), bits)
            for name in self.columns
        ]
        curve = zorder if self.strategy is Strategy.ZORDER else hilbert
        return [pa.chunked_array([curve(axes, bits)]), rows[KEY]]

    def positions(self, rows: pa.Table) -> Ints:
        """The rows of one file in their order, by number."""
        first, *rest = self.sort_columns(rows, rows)
        codes = ranks(first)
        for column in rest:
            if len(np.unique(codes)) == len(codes):
                break
            codes = joined(codes, ranks(column))
        return np.argsort(codes, kind="stable")


def column_names(given: object) -> list[object]:
    """One name or several, as a list.

    Example:
        >>> column_names("city"), column_names(("city", "ts"))
        (['city'], ['city', 'ts'])

    Raises:
        InvalidInput: it is neither.
    """
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Sequence):
        raise InvalidInput(f"name a column or a list of columns, not {given!r}")
    return list(given)
