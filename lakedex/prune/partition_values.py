"""Prunes by the values that partition paths stand for, without reading anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakedex.expr.bounds import ColumnBounds, exact_bounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.filegroup import partition_layout
from lakedex.index.answer import Mask
from lakedex.keys import PartitionValue
from lakedex.table import Snapshot

_PARTITION_PATH = "_hoodie_partition_path"


def prune_partitions(
    snapshot: Snapshot, predicate: Expr, partitions: Sequence[str], time_zone: str
) -> Mask | str:
    """Which partitions may hold a match, or why their paths do not tell."""
    names = {*snapshot.config.partition_fields, _PARTITION_PATH}
    columns = [
        column
        for column in columns_of(predicate)
        if column.name in names and len(column.path) == 1 and column.type is not None
    ]
    if not columns:
        fields = ", ".join(snapshot.config.partition_fields)
        return f"the predicate does not name a partition column ({fields or 'there is none'})"
    types = {column.name: column.type for column in columns if column.type is not None}
    layout = partition_layout(snapshot.config)
    values = [layout.values(path, types) if layout.fields else {} for path in partitions]
    bounds: dict[Expr, ColumnBounds] = {}
    for column in columns:
        if column.name == _PARTITION_PATH:
            found = [PartitionValue(path, known=True) for path in partitions]
        else:
            found = [value[column.name] for value in values]
        bounds[column] = _bounds(column, found)
    if not any(each.known.any() for each in bounds.values()):
        return "the partition paths do not tell the values of their columns for sure"
    mask: Mask = may_match(predicate, bounds, len(partitions), time_zone=time_zone)
    return mask


def is_decided(snapshot: Snapshot, predicate: Expr, partitions: list[str]) -> bool:
    """Whether the paths of these partitions tell the value of every column in the predicate."""
    columns = columns_of(predicate)
    fields = snapshot.config.partition_fields
    if not columns or any(column.path not in [(name,) for name in fields] for column in columns):
        return False
    types = {column.name: column.type for column in columns if column.type is not None}
    layout = partition_layout(snapshot.config)
    values = [layout.values(path, types) for path in partitions]
    return all(value[name].known for value in values for name in types)


def _bounds(column: Column, found: list[PartitionValue]) -> ColumnBounds:
    if any(value.bounds is not None for value in found):
        return _ranges(column, found)
    known = np.array([value.known for value in found], dtype=np.bool_)
    try:
        values = pa.array([value.value for value in found], column.type)
    except (pa.ArrowInvalid, OverflowError):
        values, known = pa.nulls(len(found), column.type), np.zeros(len(found), dtype=np.bool_)
    return exact_bounds(values).where(known)


def _ranges(column: Column, found: list[PartitionValue]) -> ColumnBounds:
    """The bounds of values of which some paths tell only a range."""
    known = np.array([each.known or each.bounds is not None for each in found], dtype=np.bool_)
    pairs = [each.bounds or (each.value, each.value) for each in found]
    least, most = (pa.array([pair[at] for pair in pairs], column.type) for at in (0, 1))
    ones = np.ones(len(found), np.int64)
    return ColumnBounds(least.type, least, most, ones * 0, ones, known)
