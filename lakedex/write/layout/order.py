"""The order that rows are laid out in: by columns one after the other, or along a curve.

An expression index stands for what its expression gives. Rows that are equal in the order are
ordered by their key, so that no value is too frequent to be divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput, LakedexError
from lakedex.index.maintenance import ComputedColumn, MaintainedIndex
from lakedex.write.layout.curves import MOST_DIMENSIONS, bits_for, hilbert, zorder
from lakedex.write.layout.ranks import Ints, has_order, joined, quantiles, ranks
from lakedex.write.rows import KEY


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
