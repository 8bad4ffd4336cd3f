"""Decodes and encodes each distinct record once, for records that repeat.

In the record index all keys that one commit wrote for one file group have the same payload bytes. A
sample shows whether records repeat, so that data without repetitions costs little.

A few records, as a lookup of some keys returns them, are decoded one after the other in plain
Python: decoding them in lockstep (`decode`) takes some hundred numpy calls, however few there are,
and ten times as long. Only valid plain values are decoded here. Everything else is left to
`decode`, which also raises the errors.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro.decode import decode_records
from lakedex.format.avro.encode import EncodedRecords, encode_records
from lakedex.format.avro.lanes import I64, offsets, payload
from lakedex.schema.arrow_types import arrow_schema
from lakedex.schema.avro_schema import (
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
)
from lakedex.schema.field_paths import flat

_SAMPLE_ROWS = 2048
_WORTH_ROWS = 512
_WORTH_RATIO = 0.5


def decode_distinct(
    schema: AvroRecord,
    values: pa.Array,
    *,
    columns: Collection[str] | None = None,
    path: str,
    base_offset: int = 0,
) -> pa.RecordBatch:
    r"""Decode an array of encoded records (binary or large_binary, no nulls).

    Example:
        >>> from lakedex.schema.avro_schema import parse_avro_record
        >>> schema = parse_avro_record(
        ...     '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}')
        >>> decode_distinct(schema, pa.array([b"\x02"] * 3), path="x").to_pydict()
        {'n': [1, 1, 1]}
    """
    if len(values) <= MOST_RECORDS and _has_all(schema, columns):
        few = decode_few(schema, values.to_pylist(), columns)
        if few is not None:
            return few
    if not _repeats(values):
        return _decode_array(schema, values, columns, path, base_offset)
    encoded = values.dictionary_encode()
    # The offset of a distinct record has no meaning in the file, so errors name its start.
    batch = _decode_array(schema, encoded.dictionary, columns, path, base_offset)
    if not batch.num_columns:
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct([]), len(values), [None])
        )
    return batch.take(encoded.indices)


def _has_all(schema: AvroRecord, columns: Collection[str] | None) -> bool:
    """Whether a schema has all columns; if not, `decode_records` raises the error."""
    return columns is None or {item.name for item in schema.fields}.issuperset(columns)


def encode_distinct(schema: AvroRecord, batch: pa.RecordBatch | pa.Table) -> EncodedRecords:
    """Encode the rows of a batch; equal rows are encoded once and copied.

    Example:
        >>> from lakedex.schema.avro_schema import parse_avro_record
        >>> schema = parse_avro_record(
        ...     '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}')
        >>> encode_distinct(schema, pa.record_batch({"n": pa.array([1, 1, 3])})).data.tolist()
        [2, 2, 6]
    """
    rows = batch.num_rows
    if rows < _WORTH_ROWS:
        return encode_records(schema, batch)
    leaves: list[pa.Array] | None = []
    for column in batch.columns:
        leaves = _leaves(flat(column), leaves)
    if leaves is None or not _rows_repeat(leaves, rows):
        return encode_records(schema, batch)
    codes, first = _row_codes(leaves, rows)
    if len(first) > rows * _WORTH_RATIO:
        return encode_records(schema, batch)
    once = encode_records(schema, batch.take(pa.array(first)))
    return _repeated(once, codes)


def _decode_array(
    schema: AvroRecord,
    values: pa.Array,
    columns: Collection[str] | None,
    path: str,
    base_offset: int,
) -> pa.RecordBatch:
    bounds, raw = offsets(values), payload(values)
    return decode_records(
        schema, raw, bounds[:-1], bounds[1:], columns=columns, path=path, base_offset=base_offset
    )


def _sample(rows: int) -> pa.Array:
    return pa.array(np.linspace(0, rows - 1, _SAMPLE_ROWS).astype(np.int64))


def _repeats(values: pa.Array) -> bool:
    if len(values) < _WORTH_ROWS:
        return False
    seen = values.take(_sample(len(values))) if len(values) > _SAMPLE_ROWS else values
    return len(seen.unique()) <= len(seen) * _WORTH_RATIO


def _leaves(array: pa.Array, found: list[pa.Array] | None) -> list[pa.Array] | None:
    """The flat columns of a column, including its own validity; None if it has lists."""
    if found is None:
        return None
    if pa.types.is_struct(array.type):
        if array.null_count:
            found.append(array.is_valid())
        for number in range(array.type.num_fields):
            child = array.field(number)
            if _leaves(child, found) is None:
                return None
        return found
    if pa.types.is_nested(array.type):
        return None
    if array.null_count < len(array):
        found.append(array)
    return found


def _rows_repeat(leaves: list[pa.Array], rows: int) -> bool:
    if rows <= _SAMPLE_ROWS:
        return True
    picked = _sample(rows)
    _, first = _row_codes([leaf.take(picked) for leaf in leaves], _SAMPLE_ROWS)
    return len(first) <= _SAMPLE_ROWS * _WORTH_RATIO


def _row_codes(leaves: list[pa.Array], rows: int) -> tuple[I64, I64]:
    """A number for each row, the same for equal rows, and the first row of each number."""
    codes = np.zeros(rows, np.int64)
    count = 1
    for leaf in leaves:
        own, own_count = _column_codes(leaf)
        if own_count == 1:
            continue
        codes = codes * own_count + own
        count *= own_count
        if count > rows:
            codes, count = _dense(codes)
    codes, count = _dense(codes)
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(rows - 1, -1, -1, dtype=np.int64)
    return codes, first


def _column_codes(leaf: pa.Array) -> tuple[I64, int]:
    if pa.types.is_dictionary(leaf.type):
        leaf = leaf.dictionary_decode()
    if pa.types.is_floating(leaf.type):
        # By bits, because -0.0 and 0.0 have different bytes, and so have different NaNs.
        width = pa.int64() if leaf.type == pa.float64() else pa.int32()
        leaf = leaf.view(width) if leaf.type != pa.float16() else leaf.cast(pa.float32())
    encoded = pc.dictionary_encode(leaf, null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _dense(codes: I64) -> tuple[I64, int]:
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _repeated(once: EncodedRecords, codes: I64) -> EncodedRecords:
    whole = once.as_binary().take(pa.array(codes))
    bounds = offsets(whole)
    return EncodedRecords(payload(whole)[: bounds[-1]], bounds)


MOST_RECORDS = 16
_Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_MOST_VARINT_BYTES = 10
_MOST_PLANS = 64


class _NotPlain(Exception):
    """A value that is not supported here, or is invalid."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The readers of the records of a schema."""

    schema: AvroRecord
    target: pa.Schema
    readers: tuple[tuple[_Reader, bool], ...]
    """The reader of each field, and whether its values are requested."""


# By identity, because hashing a schema costs more than reading a few records. The schema is stored
# with its plan, so that no other object can have its identity.
_plans: dict[tuple[int, tuple[str, ...]], _Plan] = {}


def decode_few(
    schema: AvroRecord, values: list[bytes], columns: Collection[str] | None
) -> pa.RecordBatch | None:
    r"""Decode some records; None if they need `decode_records`.

    Args:
        schema: The schema with which the records were written.
        values: The records.
        columns: The fields to build, which must be in the schema; None builds all.

    Example:
        >>> from lakedex.schema.avro_schema import parse_avro_record
        >>> schema = parse_avro_record(
        ...     '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}')
        >>> decode_few(schema, [b"\x02", b"\x06"], None).to_pydict()
        {'n': [1, 3]}
        >>> decode_few(schema, [b"\x82"], None)
    """
    plan = _plan_of(schema, columns)
    if not len(plan.target):
        return None
    rows: list[list[Any]] = [[] for _ in plan.target]
    try:
        for value in values:
            at, place = 0, 0
            for read, is_wanted in plan.readers:
                found, at = read(value, at)
                if is_wanted:
                    rows[place].append(found)
                    place += 1
            if at != len(value):
                return None
        arrays = [pa.array(own, field.type) for own, field in zip(rows, plan.target, strict=True)]
    except (_NotPlain, IndexError, ValueError, OverflowError, struct.error):
        return None
    return pa.RecordBatch.from_arrays(arrays, schema=plan.target)


def _plan_of(schema: AvroRecord, columns: Collection[str] | None) -> _Plan:
    names = frozenset(item.name for item in schema.fields) if columns is None else columns
    place = id(schema), tuple(sorted(names))
    plan = _plans.get(place)
    if plan is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        kept = tuple(item for item in schema.fields if item.name in names)
        target = arrow_schema(AvroRecord(schema.name, schema.namespace, kept))
        readers = tuple((_reader(item.type), item.name in names) for item in schema.fields)
        plan = _plans[place] = _Plan(schema, target, readers)
    return plan


def _reader(node: AvroType) -> _Reader:
    if isinstance(node, AvroUnion):
        return _union(node)
    if isinstance(node, AvroRecord):
        return _record(node)
    if isinstance(node, AvroPrimitive) and node.logical is None:
        return _PRIMITIVES[node.kind]
    return _unknown


def _record(node: AvroRecord) -> _Reader:
    readers = tuple((item.name, _reader(item.type)) for item in node.fields)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = {}
        for name, inner in readers:
            found[name], at = inner(data, at)
        return found, at

    return read


def _union(node: AvroUnion) -> _Reader:
    """A reader of unions; a value of a union of several types is a member of a struct."""
    readers = tuple(map(_reader, node.branches))
    names: dict[int, str] = {}
    if len(node.members) > 1:
        names = {number: f"member{nth}" for nth, (number, _) in enumerate(node.members)}

    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if branch < 0:
            raise _NotPlain
        found, at = readers[branch](data, at)
        return ({names[branch]: found} if branch in names else found), at

    return read


def _unknown(_data: bytes, _at: int) -> tuple[Any, int]:
    raise _NotPlain


def _null(_data: bytes, at: int) -> tuple[Any, int]:
    return None, at


def _boolean(data: bytes, at: int) -> tuple[Any, int]:
    if data[at] > 1:
        raise _NotPlain
    return data[at] == 1, at + 1


def _long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for end in range(at, at + _MOST_VARINT_BYTES):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                raise _NotPlain
            return (number >> 1) ^ -(number & 1), end + 1
        shift += 7
    raise _NotPlain


def _floating(form: struct.Struct) -> _Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        (number,) = form.unpack_from(data, at)
        if math.isnan(number):
            raise _NotPlain  # its bits would be lost
        return number, at + form.size

    return read


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, start = _long(data, at)
    end = start + size
    if size < 0 or end > len(data):
        raise _NotPlain
    return data[start:end], end


def _string(data: bytes, at: int) -> tuple[Any, int]:
    found, end = _bytes(data, at)
    return found.decode(), end


_PRIMITIVES: dict[PrimitiveKind, _Reader] = {
    PrimitiveKind.NULL: _null,
    PrimitiveKind.BOOLEAN: _boolean,
    PrimitiveKind.INT: _long,
    PrimitiveKind.LONG: _long,
    PrimitiveKind.FLOAT: _floating(_FLOAT),
    PrimitiveKind.DOUBLE: _floating(_DOUBLE),
    PrimitiveKind.BYTES: _bytes,
    PrimitiveKind.STRING: _string,
}
