"""Avro object container files with one record: how the timeline stores its metadata.

    "Obj" 01 | map: avro.schema, maybe avro.codec | 16-byte sync | count, size, records, sync ...

The record is decoded with the schema in the header and resolved against the schema that lakedex
knows, so that every field has its type and fields of older writers have their defaults. It is
decoded by fastavro, which workers may lack: they do not read the timeline's metadata.

The schemas are kept as `schemas/<type>.avsc` beside this file. They have the names, types and
defaults that Hudi 1.2 writes, in namespace `org.apache.hudi.avro.model`.

The schema in the header of a container file is as untrusted as its data: a few bytes could make a
decoder run forever or fill memory. Before it drives a
decoder it is rebuilt from the attributes that matter for decoding, and refused when it is too
deep, refers to itself, repeats items that take no bytes, or unfolds into too many fields.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from lakedex.errors import CorruptFile, InvalidInput

fastavro: Any
SchemaResolutionError: type[Exception]
ValidationError: type[Exception]
try:
    import fastavro
    from fastavro.read import SchemaResolutionError
    from fastavro.validation import ValidationError
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "fastavro":
        raise
    fastavro = None
    SchemaResolutionError = ValidationError = type("Absent", (Exception,), {})

HAS_FASTAVRO = fastavro is not None

__all__ = ["HAS_FASTAVRO", "SchemaResolutionError", "ValidationError", "fastavro"]


COMMIT_METADATA = "HoodieCommitMetadata"
REPLACE_COMMIT_METADATA = "HoodieReplaceCommitMetadata"
_PRIMITIVE_SIZES = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
_MOST_DEPTH = 64
_MOST_FIELDS = 20_000
_MOST_FIXED_BYTES = 1 << 20
_MOST_SCHEMA_CHARS = 4 << 20
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


@cache
def known_schema_text(type_name: str) -> str:
    """The schema of a wire type as compact JSON, as it stands in a file header.

    Example:
        >>> known_schema_text("HoodieIndexPlan")[:40]
        '{"type":"record","name":"HoodieIndexPlan'
    """
    folder = resources.files("lakedex.timeline") / "schemas"
    tree = json.loads((folder / f"{type_name}.avsc").read_text(encoding="utf-8"))
    return json.dumps(tree, separators=(",", ":"))


@cache
def known_schema(type_name: str) -> Any:  # noqa: ANN401 - fastavro's own form
    """The schema of a wire type, parsed for fastavro."""
    return fastavro.parse_schema(json.loads(known_schema_text(type_name)))


@cache
def known_schema_without(type_name: str, field: str) -> Any:  # noqa: ANN401 - fastavro's own form
    """The schema of a wire type less one field, which a reader then skips without building it."""
    tree = json.loads(known_schema_text(type_name))
    tree["fields"] = [item for item in tree["fields"] if item["name"] != field]
    return fastavro.parse_schema(tree)


def guarded_schema(text: str, *, path: str = "<schema>") -> Any:  # noqa: ANN401 - Avro JSON
    """The schema as plain Avro JSON that is safe to decode with.

    Example:
        >>> guarded_schema('{"type":"string","avro.java.string":"String"}')
        'string'

    Raises:
        CorruptFile: the text is not a schema, or one that is refused.
    """
    try:
        return _guarded(text)
    except _Refused as error:
        expected = "an Avro schema that can be decoded with"
        raise CorruptFile(path, 0, expected=expected, actual=error) from None


def record_widths(schema: Any) -> dict[str, int]:  # noqa: ANN401 - Avro JSON
    """How many fields each record has, by full name, of a schema from `guarded_schema`.

    Example:
        >>> record_widths(guarded_schema('{"type":"record","name":"r","fields":[]}'))
        {'r': 0}
    """
    if isinstance(schema, list):
        inner = schema
    elif isinstance(schema, dict):
        inner = [entry["type"] for entry in schema.get("fields", ())]
        inner += [schema[slot] for slot in ("items", "values") if slot in schema]
    else:
        return {}
    is_record = isinstance(schema, dict) and schema["type"] == "record"
    widths = {schema["name"]: len(schema["fields"])} if is_record else {}
    for part in inner:
        widths |= record_widths(part)
    return widths


class _Refused(Exception):
    """The schema is refused; the message says what was found."""


@lru_cache(maxsize=64)
def _guarded(text: str) -> Any:  # noqa: ANN401 - Avro JSON
    if len(text) > _MOST_SCHEMA_CHARS:
        raise _Refused(f"{len(text)} characters")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Refused(str(error)) from None
    return _Guard().visit(tree, "", 0).json


@dataclass(frozen=True, slots=True)
class _Visited:
    """A rebuilt type, the fewest bytes it takes, and how many fields it unfolds into."""

    json: Any
    least_bytes: int
    fields: int = 1


@dataclass(slots=True)
class _Guard:
    """One walk over a schema; named types are remembered once they are whole."""

    named: dict[str, _Visited] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def visit(self, node: Any, namespace: str, depth: int) -> _Visited:  # noqa: ANN401
        """Rebuild one type."""
        if depth > _MOST_DEPTH:
            raise _Refused("types nested too deep")
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if isinstance(node, str):
            return self._reference(node, namespace)
        kind = node.get("type") if isinstance(node, dict) else None
        if isinstance(kind, dict | list):
            return self.visit(kind, namespace, depth + 1)
        if kind == "record":
            return self._record(node, namespace, depth)
        if kind in ("enum", "fixed"):
            return self._leaf(node, namespace, kind)
        if kind in ("array", "map"):
            return self._repeated(node, namespace, depth)
        if isinstance(kind, str):
            return self._reference(kind, namespace)
        raise _Refused(repr(node)[:80])

    def _reference(self, name: str, namespace: str) -> _Visited:
        if name in _PRIMITIVE_SIZES:
            return _Visited(name, _PRIMITIVE_SIZES[name])
        full = _full_name(name, namespace)
        if full in self.open:
            raise _Refused(f"{full}, which contains itself")
        seen = self.named.get(full) or self.named.get(name)
        if seen is None:
            raise _Refused(f"the unknown type {name[:80]!r}")
        return _Visited(full if full in self.named else name, seen.least_bytes, seen.fields)

    def _union(self, branches: list[Any], namespace: str, depth: int) -> _Visited:
        if not branches or any(isinstance(branch, list) for branch in branches):
            raise _Refused("an empty or nested union")
        visited = [self.visit(branch, namespace, depth + 1) for branch in branches]
        least = 1 + min(branch.least_bytes for branch in visited)
        return _Visited([branch.json for branch in visited], least, self._sum(visited))

    def _repeated(self, node: dict[str, Any], namespace: str, depth: int) -> _Visited:
        slot = "items" if node["type"] == "array" else "values"
        item = self.visit(node.get(slot), namespace, depth + 1)
        if slot == "items" and item.least_bytes == 0:
            raise _Refused("an array of items that take no bytes")
        return _Visited({"type": node["type"], slot: item.json}, 1, item.fields)

    def _record(self, node: dict[str, Any], namespace: str, depth: int) -> _Visited:
        full = self._define(node, namespace)
        inner = full.rpartition(".")[0]
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise _Refused(f"the record {full} without fields")
        self.open.add(full)
        rebuilt: list[dict[str, Any]] = []
        visited: list[_Visited] = []
        for entry in fields:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise _Refused(f"a field of {full} without a name")
            visited.append(self.visit(entry.get("type"), inner, depth + 1))
            rebuilt.append({"name": entry["name"], "type": visited[-1].json})
        self.open.remove(full)
        schema = {"type": "record", "name": full, "fields": rebuilt}
        least = sum(part.least_bytes for part in visited)
        return self._close(full, _Visited(schema, least, 1 + self._sum(visited)))

    def _leaf(self, node: dict[str, Any], namespace: str, kind: str) -> _Visited:
        full = self._define(node, namespace)
        if kind == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or not 0 <= size <= _MOST_FIXED_BYTES:
                raise _Refused(f"a fixed of {size!r:.40} bytes")
            return self._close(full, _Visited({"type": kind, "name": full, "size": size}, size))
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(text, str) for text in symbols):
            raise _Refused(f"the enum {full} without symbols")
        return self._close(full, _Visited({"type": kind, "name": full, "symbols": symbols}, 1))

    def _define(self, node: dict[str, Any], namespace: str) -> str:
        name, own = node.get("name"), node.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise _Refused("a named type without a name")
        full = _full_name(name, own)
        if full in self.open or full in self.named or full in _PRIMITIVE_SIZES:
            raise _Refused(f"a second type named {full[:80]}")
        return full

    def _close(self, full: str, visited: _Visited) -> _Visited:
        self.named[full] = visited
        return visited

    def _sum(self, visited: list[_Visited]) -> int:
        total = sum(part.fields for part in visited)
        if total > _MOST_FIELDS:
            raise _Refused("a schema that unfolds into too many fields")
        return total


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


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
