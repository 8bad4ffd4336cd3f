"""An expression index as writers keep it up to date: what is computed of the rows of each file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.table_config import OWN_EXPRESSION_PREFIX
from lakedex.config.write_option_names import EXPRESSION_TIME_ZONE
from lakedex.errors import IndexUnusable, UnsupportedFeature
from lakedex.expr.arrays import MICROS_PER_DAY
from lakedex.expr.bind import bound_type
from lakedex.expr.evaluate import evaluate
from lakedex.expr.time_zones import LARGEST_SHIFT, fixed_offset
from lakedex.expr.tree import Expr, columns_of
from lakedex.index.definitions import IndexDefinition
from lakedex.index.expressions import source_names
from lakedex.index.kinds.expression.definition import (
    BLOOM_FLAVOUR,
    depends_on_zone,
    indexed_expression,
)

PREFIX: Final = "expr_index_"
_ANY_ZONE = "UTC"
_MOST_SHIFTED_DAYS = 800
"""Days that clocks and the starts of years may lie away from a date."""


def given_name(name: str) -> str:
    """The name that an expression index was given, from that of its partition.

    Example:
        >>> given_name("expr_index_own-total"), given_name("expr_index_day")
        ('total', 'day')
    """
    return name.removeprefix(OWN_EXPRESSION_PREFIX).removeprefix(PREFIX)


@dataclass(frozen=True, slots=True)
class ExpressionTarget:
    """One expression index, bound to the columns of its table."""

    definition: IndexDefinition
    expression: Expr
    zone: str | None
    """The time zone that it is computed in; None where no zone changes what comes out."""

    @property
    def name(self) -> str:
        """The name of its metadata partition."""
        return self.definition.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads, without the fields inside."""
        return source_names(columns_of(self.expression))

    @property
    def is_bloom(self) -> bool:
        """Whether files have filters of the values, and not their ranges."""
        return self.definition.index_type == BLOOM_FLAVOUR

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return bound_type(self.expression)

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """What the expression gives for some rows.

        Raises:
            UnsupportedFeature: It is not known what Spark gives for one of them.
        """
        for column in columns_of(self.expression):
            first, *inner = column.path
            _check_in_range(pc.struct_field(rows[first], inner) if inner else rows[first])
        return certain_values(self.expression, rows, self.zone or _ANY_ZONE)

    @classmethod
    def of(
        cls, definition: IndexDefinition, schema: pa.Schema, zones: Mapping[str, str], own_zone: str
    ) -> ExpressionTarget:
        """The index that a definition tells.

        Args:
            definition: What is indexed.
            schema: The columns of the table.
            zones: The zones that indexes are computed in, as far as they are known.
            own_zone: The zone of the writer for the others, empty where it does not say one.

        Raises:
            IndexUnusable: it cannot be computed here.
        """
        zone = zones.get(definition.name) or own_zone
        found = indexed_expression(definition, schema, zone or _ANY_ZONE)
        if isinstance(found, str):
            raise IndexUnusable(
                f"the index {definition.name} cannot be kept up to date: {found}; drop it first"
            )
        if not depends_on_zone(found):
            return cls(definition, found, None)
        if not zone:
            raise IndexUnusable(
                f"the index {definition.name} depends on a time zone, and the table does not store "
                "which; give that of the sessions that wrote it as the option "
                f"{EXPRESSION_TIME_ZONE.name}, such as UTC"
            )
        return cls(definition, found, zone)


def certain_values(expression: Expr, rows: pa.Table, zone: str) -> pa.ChunkedArray:
    """What an expression gives for some rows, in a time zone.

    Raises:
        UnsupportedFeature: It is not known what Spark gives for one of them.
    """
    found = evaluate(expression, rows, time_zone=zone, certain=True)
    result = found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
    if depends_on_zone(expression) and fixed_offset(zone) is None:
        for column in columns_of(expression):
            first, *inner = column.path
            values = pc.struct_field(rows[first], inner) if inner else rows[first]
            _check_since_1970(values, zone)
        _check_since_1970(result, zone)
    return result


def _check_since_1970(values: pa.ChunkedArray, zone: str) -> None:
    """Refuse earlier moments where a region decides: time zone databases differ in them.

    A whole number may be a count of seconds since then.
    """
    kind = values.type
    if not (pa.types.is_temporal(kind) or pa.types.is_signed_integer(kind)):
        return
    smallest = pc.min(values).cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if smallest.is_valid and smallest.as_py() < 0:
        raise UnsupportedFeature(f"a moment before 1970 in the time zone {zone}")


def _check_in_range(values: pa.ChunkedArray) -> None:
    """Refuse moments whose wall-clock time does not fit into 64 bits."""
    if pa.types.is_timestamp(values.type):
        ends = pc.min_max(values.cast(pa.int64()))
        limit = np.iinfo(np.int64).max - LARGEST_SHIFT
    elif pa.types.is_date32(values.type):
        ends = pc.min_max(values.cast(pa.int32()))
        limit = np.iinfo(np.int64).max // MICROS_PER_DAY - _MOST_SHIFTED_DAYS
    else:
        return
    if any(end.is_valid and abs(end.as_py()) > limit for end in ends.values()):
        raise UnsupportedFeature("a moment at the very end of time")
