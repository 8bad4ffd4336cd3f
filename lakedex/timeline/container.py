"""Avro object container files with one record: how the timeline stores its metadata.

    "Obj" 01 | map: avro.schema, maybe avro.codec | 16-byte sync | count, size, records, sync ...

The record is decoded with the schema in the header and resolved against the schema that lakedex
knows, so that every field has its type and fields of older writers have their defaults.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from lakedex.errors import CorruptFile, InvalidInput
from lakedex.timeline.avro_library import SchemaResolutionError, ValidationError, fastavro
from lakedex.timeline.avro_schema_guard import guarded_schema, record_widths
from lakedex.timeline.wire_schemas import known_schema, known_schema_text, known_schema_without

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MOST_FILE_BYTES = 256 << 20
_MOST_INFLATED_BYTES = 64 << 20
_MOST_INFLATE_RATIO = 50
_LONG_BITS = 63
_LEAST_SHARE_OF_FIELDS = 3

DECODE_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    SchemaResolutionError,
    StopIteration,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """The one record of a container: the name of its type, its writer schema, its bytes."""

    type_name: str
    schema_text: str
    datum: bytes


def is_container(data: bytes) -> bool:
    """Whether the bytes start like an Avro object container file."""
    return data.startswith(MAGIC)


def open_container(data: bytes, *, path: str) -> ContainerRecord:
    """The one record of a container file, still encoded.

    Raises:
        CorruptFile: the bytes are not such a file, or hold another number of records.
    """
    if len(data) > _MOST_FILE_BYTES:
        raise CorruptFile(path, 0, expected="metadata of at most 256 MiB", actual=len(data))
    if not is_container(data):
        raise CorruptFile(path, 0, expected="magic Obj 01", actual=data[:4].hex() or "no bytes")
    cursor = _Cursor(data, path, len(MAGIC))
    header = _header(cursor)
    sync = cursor.take(_SYNC_BYTES)
    text = header.get("avro.schema", "")
    count_at = cursor.at
    count, size = cursor.long(), cursor.long()
    if count != 1:
        raise CorruptFile(path, count_at, expected="a block of one record", actual=count)
    block_at = cursor.at
    datum = _decompress(cursor.take(size), header.get("avro.codec", "null"), path, block_at)
    if cursor.take(_SYNC_BYTES) != sync or cursor.at != len(data):
        raise CorruptFile(path, cursor.at, expected="the sync marker as last bytes", actual="else")
    schema = guarded_schema(text, path=path)
    name = schema.get("name", "") if isinstance(schema, dict) else ""
    return ContainerRecord(name.rpartition(".")[2], text, datum)


def decode_record(
    record: ContainerRecord, type_name: str, *, path: str, leave_out: str | None = None
) -> dict[str, Any]:
    """The record as wire names and values, with the fields of the known type `type_name`.

    The field `leave_out` is skipped, which is much faster where it is large.

    Raises:
        CorruptFile: the bytes do not fit their schema, or the schema does not fit the type.
    """
    return decode_datum(record.datum, record.schema_text, type_name, path=path, leave_out=leave_out)


def decode_datum(
    datum: bytes,
    schema_text: str,
    type_name: str | None,
    *,
    path: str,
    leave_out: str | None = None,
) -> dict[str, Any]:
    """One Avro record by its writer schema, resolved against a known type if one is named."""
    writer = _parsed(schema_text, path)
    reader = None
    if type_name is not None and not _same_types(schema_text, type_name, path):
        reader = known_schema(type_name)
        _check_widths(schema_text, type_name, path)
    if type_name is not None and leave_out is not None:
        reader = known_schema_without(type_name, leave_out)
    stream = io.BytesIO(datum)
    try:
        value = fastavro.schemaless_reader(stream, writer, reader)
    except DECODE_ERRORS as error:
        raise CorruptFile(
            path, 0, expected=f"an Avro {type_name or 'record'}", actual=_shown(error)
        ) from None
    if stream.tell() != len(datum) or not isinstance(value, dict):
        raise CorruptFile(
            path, 0, expected=f"{len(datum)} bytes of record", actual=f"{stream.tell()} bytes"
        )
    return value


def encode_record(record: Mapping[str, Any], type_name: str) -> bytes:
    """A container file with one record of a known type.

    Raises:
        InvalidInput: the record does not fit the type.
    """
    stream = io.BytesIO()
    try:
        fastavro.schemaless_writer(stream, known_schema(type_name), dict(record), strict=False)
    except (*DECODE_ERRORS, ValidationError) as error:
        raise InvalidInput(f"this is not a {type_name}: {_shown(error)}") from None
    datum = stream.getvalue()
    text = known_schema_text(type_name).encode()
    sync = hashlib.blake2b(datum, digest_size=_SYNC_BYTES).digest()
    header = MAGIC + _long(1) + _prefixed(b"avro.schema") + _prefixed(text) + _long(0)
    return header + sync + _long(1) + _prefixed(datum) + sync


def validate_json_record(value: Any, type_name: str, *, path: str) -> dict[str, Any]:  # noqa: ANN401
    """A record that came as JSON, when its fields have the types of the known type.

    Raises:
        CorruptFile: a field has another type.
    """
    try:
        fits = fastavro.validate(value, known_schema(type_name), raise_errors=False)
    except DECODE_ERRORS:
        fits = False
    if not fits or not isinstance(value, dict):
        raise CorruptFile(path, 0, expected=f"a JSON {type_name}", actual="other fields or types")
    return value


def parse_json(data: bytes, *, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of JSON bytes.

    Raises:
        CorruptFile: the bytes are not JSON, or nested too deep.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(path, 0, expected="JSON", actual=_shown(error)) from None


@dataclass(slots=True)
class _Cursor:
    """A place in the bytes of a file that cannot run past their end."""

    data: bytes
    path: str
    at: int

    def take(self, length: int) -> bytes:
        """The next bytes."""
        left = len(self.data) - self.at
        if not 0 <= length <= left:
            raise CorruptFile(
                self.path, self.at, expected=f"{length} bytes", actual=f"{left} bytes left"
            )
        self.at += length
        return self.data[self.at - length : self.at]

    def long(self) -> int:
        """The next zigzag varint."""
        start, value = self.at, 0
        for shift in range(0, _LONG_BITS + 1, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise CorruptFile(self.path, start, expected="a varint of at most 10 bytes", actual="more")


def _header(cursor: _Cursor) -> dict[str, str]:
    """The entries of the header's map."""
    entries: dict[str, str] = {}
    while (count := cursor.long()) != 0:
        if count < 0:
            count = -count
            cursor.long()
        if count > len(cursor.data):
            raise CorruptFile(cursor.path, cursor.at, expected="header entries", actual=count)
        for _ in range(count):
            key = cursor.take(cursor.long())
            value = cursor.take(cursor.long())
            entries[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return entries


def _decompress(block: bytes, codec: str, path: str, at: int) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise CorruptFile(path, at, expected="codec null or deflate", actual=repr(codec)[:40])
    most = min(_MOST_INFLATED_BYTES, 4096 + _MOST_INFLATE_RATIO * len(block))
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = inflater.decompress(block, most)
    except zlib.error as error:
        raise CorruptFile(path, at, expected="deflated bytes", actual=error) from None
    if not inflater.eof:
        raise CorruptFile(path, at, expected=f"at most {most} inflated bytes", actual="more")
    return data


@lru_cache(maxsize=64)
def _parsed_cached(schema_json: str) -> Any:  # noqa: ANN401 - fastavro's own form
    return fastavro.parse_schema(json.loads(schema_json))


def _parsed(text: str, path: str) -> Any:  # noqa: ANN401 - fastavro's own form
    plain = json.dumps(guarded_schema(text, path=path))
    try:
        return _parsed_cached(plain)
    except (*DECODE_ERRORS, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType):
        raise CorruptFile(path, 0, expected="an Avro schema", actual=text[:80]) from None


@cache
def _known_widths(type_name: str) -> dict[str, int]:
    return record_widths(guarded_schema(known_schema_text(type_name)))


def _same_types(schema_text: str, type_name: str, path: str) -> bool:
    """Whether the writer has the known schema itself, so that there is nothing to resolve."""
    known: object = guarded_schema(known_schema_text(type_name))
    return known == guarded_schema(schema_text, path=path)


def _check_widths(schema_text: str, type_name: str, path: str) -> None:
    """Refuse records that are far narrower than the known ones.

    Every missing field is filled with its default, so that an array of records that take one
    byte each would grow a thousandfold.
    """
    known = _known_widths(type_name)
    for name, width in record_widths(guarded_schema(schema_text, path=path)).items():
        own = name.rpartition(".")[2]
        if own != type_name and width * _LEAST_SHARE_OF_FIELDS < known.get(name, 0):
            expected = f"about {known[name]} fields in {own}"
            raise CorruptFile(path, 0, expected=expected, actual=f"{width} fields")


def _shown(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:200]


def _long(value: int) -> bytes:
    """A non-negative number as zigzag varint."""
    rest = value << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _prefixed(data: bytes) -> bytes:
    return _long(len(data)) + data
