"""The keys of a delete block.

A delete block holds `int version (3) | int size | Avro bytes of a list of delete records`. Each
record has a key, a partition path, and the ordering value that the delete competes with. The int
value 0, or none, means that the delete wins over whatever was there before.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.format.avro import decode_records
from lakedex.format.logfile.block import LogBlock
from lakedex.format.logfile.block_kind import BlockKind
from lakedex.format.logfile.delete_items import split_delete_items
from lakedex.format.logfile.delete_schema import ARRAY_MEMBER, DELETE_RECORD, INT_MEMBER
from lakedex.format.logfile.records import check_kind
from lakedex.schema import arrow_schema

DELETE_VERSION = 3
_HEAD = struct.Struct(">ii")

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OrderingValues:
    """Ordering values as one column, null where the delete is unconditional.

    `values` is None when the deletes of one block carry values of different types. Several
    ordering fields give a struct with members `0`, `1`, ...
    """

    values: pa.Array | None
    unconditional: BoolArray


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deleted keys, their partition paths, and their ordering values as stored.

    `ordering` is a struct with a member for each kind of value, of which at most one is set.
    """

    keys: pa.StringArray
    partitions: pa.StringArray
    ordering: pa.StructArray

    def __len__(self) -> int:
        """How many deletes there are."""
        return len(self.keys)

    def ordering_values(self) -> OrderingValues:
        """The ordering values as one plain column, if they all have one type."""
        ints = _member(self.ordering, INT_MEMBER)
        is_default = pc.equal(ints, pa.scalar(0, ints.type)).fill_null(fill_value=False)
        present = [_set_rows(self.ordering, number) for number in range(ARRAY_MEMBER + 1)]
        present[INT_MEMBER] &= ~_as_bools(is_default)
        unconditional: BoolArray = ~np.logical_or.reduce(present)
        used = [number for number, rows in enumerate(present) if rows.any()]
        if not used:
            return OrderingValues(pa.nulls(len(self), ints.type), unconditional)
        if len(used) > 1:
            return OrderingValues(None, unconditional)
        if used[0] == ARRAY_MEMBER:
            return OrderingValues(_array_values(self.ordering, unconditional), unconditional)
        values = _member(self.ordering, used[0])
        if used[0] == INT_MEMBER:
            values = pc.if_else(is_default, pa.scalar(None, values.type), values)
        return OrderingValues(values, unconditional)


def decode_delete_block(block: LogBlock) -> DeleteRecords:
    """The deletes of a delete block, in their order."""
    check_kind(block, BlockKind.DELETE)
    path, base = block.path, block.content.base_offset
    content = block.content.read(0, block.content.size)
    if len(content) < _HEAD.size:
        raise CorruptFile(path, base, expected="a delete block", actual=f"{len(content)} bytes")
    version, size = _HEAD.unpack_from(content)
    if version != DELETE_VERSION:
        raise UnsupportedFeature(f"delete block version {version} in {path}")
    if size != len(content) - _HEAD.size:
        raise CorruptFile(
            path, base + 4, expected=f"{len(content) - _HEAD.size} bytes of deletes", actual=size
        )
    data = np.frombuffer(content, dtype=np.uint8)
    starts, ends = split_delete_items(data, _HEAD.size, path=path, base_offset=base)
    if not len(starts):
        # Every group of a metadata table starts with such a block.
        return _no_deletes()
    batch = decode_records(DELETE_RECORD, data, starts, ends, path=path, base_offset=base)
    return DeleteRecords(batch.column(0), batch.column(1), batch.column(2))


@lru_cache(maxsize=1)
def _no_deletes() -> DeleteRecords:
    key, partition, ordering = (pa.nulls(0, each.type) for each in arrow_schema(DELETE_RECORD))
    return DeleteRecords(key, partition, ordering)


def _member(ordering: pa.StructArray, number: int) -> pa.Array:
    """The values of one member, null where another one is set."""
    return pc.struct_field(ordering, [number, 0])


def _set_rows(ordering: pa.StructArray, number: int) -> BoolArray:
    return _as_bools(pc.is_valid(pc.struct_field(ordering, [number])))


def _as_bools(mask: pa.Array) -> BoolArray:
    result: BoolArray = mask.to_numpy(zero_copy_only=False)
    return result


def _array_values(ordering: pa.StructArray, unconditional: BoolArray) -> pa.Array | None:
    """Several ordering fields as a struct, if all deletes have as many, of the same types."""
    lists = _member(ordering, ARRAY_MEMBER)
    lengths = pc.list_value_length(lists).filter(pa.array(~unconditional))
    width = pc.min(lengths).as_py()
    if lengths.null_count or not width or width != pc.max(lengths).as_py():
        return None
    items = lists.flatten()
    row = np.cumsum(~unconditional) - 1
    columns: list[pa.Array] = []
    for number in range(width):
        at = pa.array(row * width + number, mask=unconditional)
        column = _one_member(items, slice(number, None, width), at)
        if column is None:
            return None
        columns.append(column)
    names = [str(number) for number in range(width)]
    return pa.StructArray.from_arrays(columns, names, mask=pa.array(unconditional))


def _one_member(items: pa.StructArray, rows: slice, at: pa.Array) -> pa.Array | None:
    """The values at `at` of the one member that is set in these rows; None if there are more."""
    members = range(items.type.num_fields)
    used = [number for number in members if _set_rows(items, number)[rows].any()]
    return _member(items, used[0] if used else INT_MEMBER).take(at) if len(used) <= 1 else None
