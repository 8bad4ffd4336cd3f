"""Makes the content of a delete block; see `deletes` for its layout."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.avro import encode_records
from lakedex.format.logfile.delete_schema import (
    ARRAY_MEMBER,
    DELETE_ARROW,
    DELETE_RECORD,
    INT_MEMBER,
    ORDERING_TYPE,
)
from lakedex.format.logfile.deletes import DELETE_VERSION
from lakedex.schema.flat_columns import flat

Column: TypeAlias = pa.Array | pa.ChunkedArray

_MEMBERS: list[tuple[Callable[[pa.DataType], bool], int]] = [
    (pa.types.is_boolean, 0),
    (pa.types.is_int8, INT_MEMBER),
    (pa.types.is_int16, INT_MEMBER),
    (pa.types.is_int32, INT_MEMBER),
    (pa.types.is_int64, 2),
    (pa.types.is_float32, 3),
    (pa.types.is_float64, 4),
    (pa.types.is_binary, 5),
    (pa.types.is_large_binary, 5),
    (pa.types.is_string, 6),
    (pa.types.is_large_string, 6),
    (pa.types.is_date32, 7),
    (pa.types.is_decimal, 8),
    (pa.types.is_time64, 9),
    (pa.types.is_timestamp, 10),
]


def encode_delete_content(
    keys: Column, partitions: Column, ordering: Column | Sequence[Column] | None
) -> bytes:
    """The content of a delete block.

    Without an ordering column, and where it is null, the deletes are unconditional (the int 0).
    A sequence of columns is for tables with several ordering fields.

    Example:
        >>> encode_delete_content(pa.array(["k2"]), pa.array(["p=p1"]), None).hex()
        '000000030000000e0202046b320208703d7031040000'
    """
    columns = [_flat(keys, pa.string()), _flat(partitions, pa.string())]
    if len(columns[0]) != len(columns[1]):
        raise InvalidInput("a delete needs as many partition paths as keys")
    columns.append(_ordering_column(ordering, len(columns[0])))
    batch = pa.RecordBatch.from_arrays(columns, schema=DELETE_ARROW)
    encoded = encode_records(DELETE_RECORD, batch)
    count = _zigzag(batch.num_rows) if batch.num_rows else b""
    data = b"".join([count, encoded.data.tobytes(), b"\0"])
    if len(data) > 2**31 - 1:
        raise InvalidInput(f"{len(data)} bytes of deletes are too many for one log block")
    return struct.pack(">ii", DELETE_VERSION, len(data)) + data


def _ordering_column(ordering: Column | Sequence[Column] | None, count: int) -> pa.StructArray:
    if ordering is None:
        return _wrapped(pa.nulls(count, pa.int32()), ORDERING_TYPE, unconditional=True)
    if isinstance(ordering, pa.Array | pa.ChunkedArray):
        column = _wrapped(_flat(ordering), ORDERING_TYPE, unconditional=True)
    else:
        column = _array_wrapped([_flat(part) for part in ordering], count)
    if len(column) != count:
        raise InvalidInput("a delete needs as many ordering values as keys")
    return column


def _wrapped(values: pa.Array, union: pa.DataType, *, unconditional: bool) -> pa.StructArray:
    """Values in the member of the union that is made for their type; nulls as the int 0."""
    number = _member_of(values.type)
    members = {number: _boxed(values, union.field(number).type)}
    if unconditional and values.null_count:
        zeros = pa.scalar(0, pa.int32())
        missing = pc.if_else(values.is_null(), zeros, pa.scalar(None, pa.int32()))
        kept = pc.coalesce(_cast(values, pa.int32()), zeros) if number == INT_MEMBER else missing
        members[INT_MEMBER] = _boxed(kept, union.field(INT_MEMBER).type)
    return _union(members, union, len(values))


def _array_wrapped(parts: list[pa.Array], count: int) -> pa.StructArray:
    """Several ordering fields of each delete, in one ArrayWrapper."""
    wrapper = ORDERING_TYPE.field(ARRAY_MEMBER).type
    list_type = wrapper.field(0).type
    width = len(parts)
    if not width or any(len(part) != count for part in parts):
        raise InvalidInput("a delete needs as many ordering values as keys, in every field")
    union = list_type.value_type
    flat = pa.concat_arrays([_wrapped(part, union, unconditional=False) for part in parts])
    row_major = np.arange(count * width).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(0, (count + 1) * width, width, dtype=np.int32))
    items = flat.take(pa.array(row_major))
    lists = pa.ListArray.from_arrays(offsets, items, type=list_type)
    boxed = pa.StructArray.from_arrays([lists], fields=list(wrapper))
    return _union({ARRAY_MEMBER: boxed}, ORDERING_TYPE, count)


def _boxed(values: pa.Array, wrapper: pa.DataType) -> pa.StructArray:
    """Each value in a wrapper record; a null value is no wrapper."""
    column = _cast(values, wrapper.field(0).type)
    mask = column.is_null()
    return pa.StructArray.from_arrays([column], fields=[wrapper.field(0)], mask=mask)


def _union(members: dict[int, pa.Array], union: pa.DataType, count: int) -> pa.StructArray:
    """A union as a struct, from the members that are in use."""
    fields = [union.field(number) for number in range(union.num_fields)]
    columns = [
        members[number] if number in members else pa.nulls(count, field.type)
        for number, field in enumerate(fields)
    ]
    missing = functools.reduce(pc.and_, (member.is_null() for member in members.values()))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=missing)


def _member_of(kind: pa.DataType) -> int:
    for matches, number in _MEMBERS:
        if matches(kind):
            return number
    raise InvalidInput(f"a delete cannot be ordered by a value of type {kind}")


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowException as error:
        raise InvalidInput(f"{values.type} does not fit in a delete block: {error}") from error


def _flat(column: Column, kind: pa.DataType | None = None) -> pa.Array:
    whole = flat(column)
    return whole if kind is None else _cast(whole, kind)


def _zigzag(number: int) -> bytes:
    """A positive number as Avro writes it."""
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
