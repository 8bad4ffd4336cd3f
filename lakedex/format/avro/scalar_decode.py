"""Decodes a few Avro records to Arrow, one after the other in plain Python.

Decoding all records in lockstep (`decode`) takes some hundred numpy calls, however few records
there are; this module needs a tenth of that time for a lookup of some keys. It supports valid plain
values only. Everything else is left to `decode`, which also raises the errors.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lakedex.schema.arrow_types import arrow_schema
from lakedex.schema.avro_type import (
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
)

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
        >>> from lakedex.schema.avro_type import parse_avro_record
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
