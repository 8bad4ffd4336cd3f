"""Which keys of a secondary index a predicate asks for: those of some values, or ranges.

Values lead to the file groups that hold them. Ranges and prefixes have to be looked for in all
file groups, as groups are chosen by hash, but in each only in the blocks of the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import chain

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.evaluate import evaluate
from lakedex.expr.one_column import about
from lakedex.expr.points import points
from lakedex.expr.tree import And, Column, Compare, Expr, In, IsNull, Literal, Op, Or, StartsWith
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.keys import values_of_secondary
from lakedex.index.secondary.key_ranges import (
    KeyRanges,
    common,
    keys_from,
    keys_of_numbers,
    keys_of_prefix,
    keys_of_value,
    keys_up_to,
    united,
)
from lakedex.index.secondary.spelling import (
    is_counted,
    is_ordered,
    is_sure,
    spelled_literals,
    values_of_texts,
)

MAX_VALUES = 10_000
_LEAST, _MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
_ABOVE = (Op.GT, Op.GTE)
_BELOW = (Op.LT, Op.LTE)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of an index: values where they are known, else ranges of keys."""

    column: str
    type: pa.DataType
    values: list[str | None] | None = None
    ranges: KeyRanges | None = None

    def matching(self, entries: pa.Table, predicate: Expr, time_zone: str) -> pa.Table:
        """Those of the entries found in ranges whose values the predicate can be true for."""
        if self.ranges is None or not len(entries):
            return entries
        keys = entries["key"].combine_chunks()
        own = about(predicate, (self.column,))
        try:
            values = values_of_texts(values_of_secondary(keys), self.type)
            rows = pa.record_batch([values], names=[self.column])
            return entries.filter(evaluate(own, rows, time_zone=time_zone))
        except (InvalidInput, UnsupportedFeature, ValueError):
            # A text that is none of its type, or a condition that is not evaluated: all may match.
            return entries


def asked_keys(definition: IndexDefinition, predicate: Expr, schema: pa.Schema) -> Asked | str:
    """What a predicate asks of an index, or in words why nothing."""
    column = definition.source_fields[0]
    if column not in schema.names:
        return f"its column {column} is not in the table"
    data_type = schema.field(column).type
    if not is_sure(data_type):
        return f"how it spells {data_type} values is not sure"
    found = points(predicate, (column,))
    if found is None:
        return _asked_ranges(column, data_type, predicate)
    if len(found) > MAX_VALUES:
        return f"{len(found)} values are too many to look up"
    values = spelled_literals([literal.value for literal in found], data_type)
    if values is None:
        return f"a value does not fit {column} ({data_type})"
    return Asked(column, data_type, values=values)


def _asked_ranges(column: str, data_type: pa.DataType, predicate: Expr) -> Asked | str:
    if not is_ordered(data_type):
        return f"the predicate has no =, IN or IS NULL on {column}"
    ranges = _ranges(predicate, (column,), data_type)
    if ranges is None:
        return f"the predicate limits the values of {column} neither by =, IN nor by a range"
    if len(ranges) > MAX_VALUES:
        return f"{len(ranges)} ranges are too many to look up"
    return Asked(column, data_type, ranges=ranges)


def _ranges(expr: Expr, column: tuple[str, ...], data_type: pa.DataType) -> KeyRanges | None:
    """Keys that rows must have for the predicate to be true; None when it does not say."""
    match expr:
        case And(children):
            parts = [_ranges(child, column, data_type) for child in children]
            known = [part for part in parts if part is not None]
            return reduce(common, known) if known else None
        case Or(children):
            parts = [_ranges(child, column, data_type) for child in children]
            known = [part for part in parts if part is not None]
            return united(chain(*known)) if len(known) == len(parts) else None
        case Literal(value):
            return None if value is True else []
        case _:
            return _ranges_of_leaf(expr, column, data_type)


def _ranges_of_leaf(
    expr: Expr, column: tuple[str, ...], data_type: pa.DataType
) -> KeyRanges | None:
    match expr:
        case StartsWith(Column(path), prefix) if path == column:
            is_text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
            return [keys_of_prefix(prefix)] if is_text and prefix else None
        case IsNull(Column(path)) if path == column:
            return [keys_of_value(None)]
        case In(Column(path), values) if path == column:
            return _keys_of(values, data_type)
        case Compare(op, Column(path), Literal() as right) if path == column:
            return _compared(op, right, data_type)
        case _:
            return None


def _compared(op: Op, right: Literal, data_type: pa.DataType) -> KeyRanges | None:
    if op in (Op.EQ, Op.EQ_NULL_SAFE):
        return _keys_of((right,), data_type)
    if op not in (*_ABOVE, *_BELOW):
        return None
    texts = spelled_literals([right.value], data_type)
    if texts is None or texts[0] is None:
        return None if texts is None else []
    bound = texts[0]
    # Bounds are taken as included: rows that lie on one are sorted out by their values.
    if is_counted(data_type):
        above = op in _ABOVE
        limits = (int(bound), _MOST) if above else (_LEAST, int(bound))
        return keys_of_numbers(*limits)
    return keys_from(bound) if op in _ABOVE else keys_up_to(bound)


def _keys_of(values: tuple[Literal, ...], data_type: pa.DataType) -> KeyRanges | None:
    if len(values) > MAX_VALUES:
        return None
    texts = spelled_literals([value.value for value in values], data_type)
    if texts is None:
        return None
    return united(keys_of_value(text) for text in texts)
