"""Delete blocks: the keys that a log file deletes.

A delete block holds `int version (3) | int size | Avro bytes of a list of delete records`
(HoodieDeleteRecordList). Each record has a key (branch 0 or 1, length, bytes), a partition path
(the same), and the ordering value of the delete. The int value 0, or none, means that the delete
wins over all previous versions. A list may have several parts, each after its item count (negative:
its size in bytes follows), and ends with a zero.

Ordering values are boxed in small records ("wrappers"), so that the union can distinguish an int
from a date. Branch 12 of the union is ArrayWrapper, for tables with several ordering fields; inside
it branch 12 is LocalDateWrapper. The schema here has logical types that Hudi omits: they do not
change the bytes, and result in the right Arrow types.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, InvalidInput, UnsupportedFeature
from lakedex.format.avro import decode_records, encode_records
from lakedex.format.chains import ChainRules, Positions, walk_chain
from lakedex.format.logfile.blocks import BlockKind, LogBlock
from lakedex.format.logfile.records import check_kind
from lakedex.schema.arrow_types import arrow_schema
from lakedex.schema.avro_schema import AvroRecord, parse_avro_record
from lakedex.schema.field_paths import flat

_WRAPPED: dict[str, object] = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": {"type": "int", "logicalType": "date"},
    "DecimalWrapper": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicrosWrapper": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicrosWrapper": {"type": "long", "logicalType": "timestamp-micros"},
}

INT_MEMBER = 1
ARRAY_MEMBER = len(_WRAPPED)
"""Members of the ordering value's struct, by number: one less than the union branch."""
_PADDING = 16
_MOST_PARTS = 256
_MOST_ORDERING_FIELDS = 64
_SMALLEST_ITEM = 3
_UNKNOWN, _FIXED, _VARINT, _BYTES, _ARRAY = range(5)
_ORDERING_KINDS = np.full(128, _UNKNOWN, dtype=np.int8)
_ORDERING_KINDS[[0, 1, 4, 5]] = _FIXED
_ORDERING_KINDS[[2, 3, 8, 10, 11]] = _VARINT
_ORDERING_KINDS[[6, 7, 9]] = _BYTES
_ORDERING_KINDS[12] = _ARRAY
_ITEM_KINDS = _ORDERING_KINDS.copy()
_ITEM_KINDS[12] = _VARINT
_FIXED_SIZES = np.zeros(128, dtype=np.int64)
_FIXED_SIZES[[1, 4, 5]] = (1, 4, 8)
_KINDS: list[int] = _ORDERING_KINDS.tolist()
_SIZES: list[int] = _FIXED_SIZES.tolist()
_BOOLEAN = 2
_LONGEST_VARINT = 10
DELETE_VERSION = 3
_HEAD = struct.Struct(">ii")
BoolArray = npt.NDArray[np.bool_]
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


def _wrapper(name: str, value: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": value}]}


def _schema_json() -> dict[str, object]:
    array_items = ["null", *_WRAPPED, _wrapper("LocalDateWrapper", _WRAPPED["DateWrapper"])]
    array_wrapper = {
        "type": "record",
        "name": "ArrayWrapper",
        "fields": [
            {"name": "wrappedValues", "type": ["null", {"type": "array", "items": array_items}]}
        ],
    }
    wrappers = [_wrapper(name, value) for name, value in _WRAPPED.items()]
    return {
        "type": "record",
        "name": "HoodieDeleteRecord",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "recordKey", "type": ["null", "string"]},
            {"name": "partitionPath", "type": ["null", "string"]},
            {"name": "orderingVal", "type": ["null", *wrappers, array_wrapper]},
        ],
    }


DELETE_RECORD: AvroRecord = parse_avro_record(json.dumps(_schema_json()), path="<deletes>")
DELETE_ARROW: pa.Schema = arrow_schema(DELETE_RECORD)
ORDERING_TYPE: pa.DataType = DELETE_ARROW.field("orderingVal").type


def split_delete_items(
    data: npt.NDArray[np.uint8], start: int, *, path: str, base_offset: int
) -> tuple[Positions, Positions]:
    """The starts and ends of the delete records in the list `data[start:]`."""
    size = len(data)
    skipper = _Skipper(data)
    rules = ChainRules(skipper.item, size, skipper.one_item)
    starts: list[Positions] = []
    ends: list[Positions] = []
    at = start
    for _ in range(_MOST_PARTS):
        count, at = skipper.count(at)
        if count == 0 and at == size:
            return _concat(starts), _concat(ends)
        if not 0 < count <= (size - at) // _SMALLEST_ITEM:
            raise CorruptFile(
                path, base_offset + at, expected="a count of delete records", actual=count
            )
        found = walk_chain(rules, at, count)
        at = int(found[-1])
        if len(found) <= count:
            raise CorruptFile(
                path, base_offset + at, expected="a delete record", actual="other bytes"
            )
        starts.append(found[:-1])
        ends.append(found[1:])
    raise UnsupportedFeature(f"a delete list in more than {_MOST_PARTS} parts in {path}")


def _concat(parts: list[Positions]) -> Positions:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


class _Skipper:
    """Skips Avro values, for vectors of positions.

    Positions past the end mean that there is no valid value: the padding there consists of bytes
    that are neither a valid branch nor a valid number, so such positions stay past the end.
    """

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._end = len(data)
        self._dead = self._end + 1
        self._data = np.append(data, np.full(_PADDING, 0xFF, dtype=np.uint8))
        self._plain = self._data.tobytes()

    def item(self, at: Positions) -> Positions:
        """The ends of the delete records at `at`; -1 if there is none."""
        ends = self._ordering(self._text(self._text(at)), _ORDERING_KINDS)
        return np.where(ends > self._end, -1, ends)

    def one_item(self, at: int) -> int:
        """The end of the delete record at `at`; -1 if there is none.

        For one record plain numbers are faster than vectors; only lists of ordering values, which
        few tables have, use vectors.
        """
        ordering = self._one_text(self._one_text(at))
        if not 0 <= ordering < self._end:
            return -1
        branch = self._plain[ordering]
        kind = _UNKNOWN if branch & 1 else _KINDS[branch >> 1]
        if kind == _ARRAY:
            return int(self.item(np.array([at], dtype=np.int64))[0])
        after = -1
        if kind == _VARINT:
            after = self._one_number(ordering + 1)[1]
        elif kind == _BYTES:
            after = self._one_bytes(ordering + 1)
        elif kind == _FIXED and (branch != _BOOLEAN or self._plain[ordering + 1] <= 1):
            after = ordering + 1 + _SIZES[branch >> 1]
        return after if after <= self._end else -1

    def _one_text(self, at: int) -> int:
        if not 0 <= at < self._end:
            return -1
        branch = self._plain[at]
        if branch == 2:
            return self._one_bytes(at + 1)
        return at + 1 if branch == 0 else -1

    def _one_bytes(self, at: int) -> int:
        length, after = self._one_number(at)
        return after + length if after >= 0 and 0 <= length <= self._end - after else -1

    def _one_number(self, at: int) -> tuple[int, int]:
        """The zigzag number at `at` and its end; -1 if it is invalid."""
        bits = shift = 0
        for place in range(at, min(at + _LONGEST_VARINT, self._end)):
            byte = self._plain[place]
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                bits &= 0xFFFFFFFFFFFFFFFF
                return (bits >> 1) ^ -(bits & 1), place + 1
            shift += 7
        return 0, -1

    def count(self, at: int) -> tuple[int, int]:
        """The item count of a part of the list and the start of its items; -1 if invalid."""
        value, after = self._number(np.array([min(at, self._dead)], dtype=np.int64))
        count = int(value[0])
        if count < 0:
            _, after = self._number(after)
        return (-1, at) if after[0] > self._end else (abs(count), int(after[0]))

    def _valid(self, ok: npt.NDArray[np.bool_], at: Positions) -> Positions:
        return np.where(ok & (at <= self._end), at, self._dead)

    def _number(self, at: Positions) -> tuple[Positions, Positions]:
        """The zigzag numbers at `at` and their ends."""
        byte = self._data[at]
        bits = (byte & 0x7F).astype(np.uint64)
        after = at + 1
        more = np.flatnonzero(byte >= 0x80)
        for shift in range(7, 70, 7):
            if not len(more):
                break
            byte = self._data[np.minimum(after[more], self._dead)]
            bits[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[more] += 1
            more = more[byte >= 0x80]
        after[more] = self._dead
        sign = np.uint64(0) - (bits & np.uint64(1))
        return ((bits >> np.uint64(1)) ^ sign).view(np.int64), self._valid(at <= self._end, after)

    def _bytes(self, at: Positions) -> Positions:
        """Skip a length and that many bytes."""
        length, after = self._number(at)
        ok = (length >= 0) & (length <= self._end - after)
        return self._valid(ok, after + np.where(ok, length, 0))

    def _text(self, at: Positions) -> Positions:
        """Skip an optional string."""
        branch = self._data[at]
        present = np.flatnonzero(branch == 2)
        after = self._valid(branch == 0, at + 1)
        after[present] = self._bytes(at[present] + 1)
        return after

    def _ordering(self, at: Positions, kinds: npt.NDArray[np.int8]) -> Positions:
        """Skip an optional wrapper."""
        byte = self._data[at]
        branch = byte >> 1
        kind = np.where(byte & 1, _UNKNOWN, kinds[branch])
        after = self._valid(kind == _FIXED, at + 1 + _FIXED_SIZES[branch])
        truth = self._data[np.minimum(at + 1, self._dead)]
        after[(branch == 1) & (truth > 1)] = self._dead
        for wanted, skip in ((_VARINT, self._varint), (_BYTES, self._bytes), (_ARRAY, self._array)):
            rows = np.flatnonzero(kind == wanted)
            if len(rows):
                after[rows] = skip(at[rows] + 1)
        return after

    def _varint(self, at: Positions) -> Positions:
        return self._number(at)[1]

    def _array(self, at: Positions) -> Positions:
        """Skip an optional array of wrappers, which may have several parts."""
        branch = self._data[at]
        after = self._valid((branch == 0) | (branch == 2), at + 1)
        rows = np.flatnonzero(branch == 2)
        left = np.zeros(len(rows), dtype=np.int64)
        for _ in range(_MOST_ORDERING_FIELDS):
            rows, left = self._open_parts(after, rows, left)
            if not len(rows):
                return after
            after[rows] = self._ordering(after[rows], _ITEM_KINDS)
            left -= 1
        after[rows] = self._dead
        return after

    def _open_parts(
        self, after: Positions, rows: Positions, left: Positions
    ) -> tuple[Positions, Positions]:
        """Read the count of the next part for the rows without remaining items."""
        empty = np.flatnonzero(left == 0)
        count, begin = self._number(after[rows[empty]])
        sized = np.flatnonzero(count < 0)
        begin[sized] = self._number(begin[sized])[1]
        after[rows[empty]] = begin
        left = left.copy()
        left[empty] = np.abs(count)
        open_rows = (left > 0) & (after[rows] <= self._end)
        return rows[open_rows], left[open_rows]


@dataclass(frozen=True, slots=True)
class OrderingValues:
    """Ordering values as one column, null for unconditional deletes.

    `values` is None if the deletes of one block have values of different types. Several ordering
    fields are a struct with members `0`, `1`, ...
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
        """The number of deletes."""
        return len(self.keys)

    def ordering_values(self) -> OrderingValues:
        """The ordering values as one plain column, if they all have the same type."""
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
    """Decode the deletes of a delete block, in order."""
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
        # Every file group of a metadata table starts with such a block.
        return _no_deletes()
    batch = decode_records(DELETE_RECORD, data, starts, ends, path=path, base_offset=base)
    return DeleteRecords(batch.column(0), batch.column(1), batch.column(2))


@lru_cache(maxsize=1)
def _no_deletes() -> DeleteRecords:
    key, partition, ordering = (pa.nulls(0, each.type) for each in arrow_schema(DELETE_RECORD))
    return DeleteRecords(key, partition, ordering)


def _member(ordering: pa.StructArray, number: int) -> pa.Array:
    """The values of one member, null if another one is set."""
    return pc.struct_field(ordering, [number, 0])


def _set_rows(ordering: pa.StructArray, number: int) -> BoolArray:
    return _as_bools(pc.is_valid(pc.struct_field(ordering, [number])))


def _as_bools(mask: pa.Array) -> BoolArray:
    result: BoolArray = mask.to_numpy(zero_copy_only=False)
    return result


def _array_values(ordering: pa.StructArray, unconditional: BoolArray) -> pa.Array | None:
    """Several ordering fields as a struct, if all deletes have the same number and types."""
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
    """The values at `at` of the only member that is set in these rows; None if there are more."""
    members = range(items.type.num_fields)
    used = [number for number in members if _set_rows(items, number)[rows].any()]
    return _member(items, used[0] if used else INT_MEMBER).take(at) if len(used) <= 1 else None


def encode_delete_content(
    keys: Column, partitions: Column, ordering: Column | Sequence[Column] | None
) -> bytes:
    """Encode the content of a delete block.

    Without an ordering column, or with a null in it, a delete is unconditional (the int 0). A
    sequence of columns is for tables with several ordering fields.

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
        raise InvalidInput(f"{len(data)} bytes of deletes exceed the size of a log block")
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
    """Values in the member of the union for their type, with nulls as the int 0."""
    number = _member_of(values.type)
    members = {number: _boxed(values, union.field(number).type)}
    if unconditional and values.null_count:
        zeros = pa.scalar(0, pa.int32())
        missing = pc.if_else(values.is_null(), zeros, pa.scalar(None, pa.int32()))
        kept = pc.coalesce(_cast(values, pa.int32()), zeros) if number == INT_MEMBER else missing
        members[INT_MEMBER] = _boxed(kept, union.field(INT_MEMBER).type)
    return _union(members, union, len(values))


def _array_wrapped(parts: list[pa.Array], count: int) -> pa.StructArray:
    """The ordering fields of each delete in one ArrayWrapper."""
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
    """Each value in a wrapper record, without wrapper for a null."""
    column = _cast(values, wrapper.field(0).type)
    mask = column.is_null()
    return pa.StructArray.from_arrays([column], fields=[wrapper.field(0)], mask=mask)


def _union(members: dict[int, pa.Array], union: pa.DataType, count: int) -> pa.StructArray:
    """A union as a struct, from the members in use."""
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
    """Encode a positive number as Avro does."""
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
