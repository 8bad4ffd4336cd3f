"""Columns that carry their lasting ids, so that a change of names or places loses none of them.

The id of a column, of a field in a struct, and of the element of a list or the key and value of a
map stands in the metadata of its Arrow field. All ids come from a schema version or are new.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa

from lakedex.errors import UnsupportedFeature
from lakedex.schema.avro_schema import (
    AvroArray,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
    is_null,
)
from lakedex.schema.hudi_types import vector_of_avro
from lakedex.schema.internal_schema import (
    HistoryField,
    HistoryType,
    LeafType,
    ListType,
    MapType,
    RecordType,
    SchemaHistory,
    SchemaVersion,
)

_ID = b"lakedex.column_id"
_LOGICAL = {
    "date": "date",
    "uuid": "uuid",
    "time-millis": "time-millis",
    "time-micros": "time",
    "timestamp-millis": "timestamp-millis",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "local-timestamp-millis",
    "local-timestamp-micros": "local-timestamp-micros",
}


def numbered(columns: pa.Schema, version: SchemaVersion | None) -> pa.Schema:
    """Columns with the ids that a version has for them; others get none yet.

    Example:
        >>> from lakedex.schema.internal_schema import LeafType
        >>> old = SchemaVersion(0, 7, RecordType((HistoryField(7, "a", LeafType("int")),)))
        >>> numbered(pa.schema([("a", pa.int32())]), old).field("a").metadata
        {b'lakedex.column_id': b'7'}
    """
    known = () if version is None else version.record.fields
    return pa.schema(_numbered_fields(list(columns), known))


def plain(columns: pa.Schema) -> pa.Schema:
    """The same columns without ids."""
    return pa.schema([_plain_field(field) for field in columns])


def version_of(
    columns: pa.Schema, record: AvroRecord, version_id: int, max_column_id: int
) -> SchemaVersion:
    """The version that numbered columns make; those without an id get the next ones.

    Args:
        columns: All columns, meta columns first.
        record: The same columns as Avro has them.
        version_id: The number of the instant from which on it counts.
        max_column_id: The largest id that was ever given out; -1 for none.
    """
    ids = count(max_column_id + 1)
    fields = _history_fields(list(columns), record.fields, ids)
    return SchemaVersion(version_id, next(ids) - 1, RecordType(fields))


def evolved(
    history: SchemaHistory | None, columns: pa.Schema, record: AvroRecord, version_id: int
) -> SchemaHistory:
    """A history after columns became these, matched to the newest version by their names.

    Args:
        history: What was before; None begins one.
        columns: All columns, meta columns first, with ids where they keep an older one's.
        record: The same columns as Avro has them.
        version_id: The number of the instant that changes them.
    """
    if history is None:
        return SchemaHistory((version_of(numbered(columns, None), record, 0, -1),))
    newest = history.newest
    version = version_of(columns, record, version_id, newest.max_column_id)
    if version.record == newest.record:
        return history
    return SchemaHistory((*history.versions, version))


def _numbered_fields(fields: list[pa.Field], known: tuple[HistoryField, ...]) -> list[pa.Field]:
    by_name = {field.name: field for field in known}
    return [_numbered(field, by_name.get(field.name)) for field in fields]


def _numbered(field: pa.Field, known: HistoryField | None) -> pa.Field:
    if known is None:
        return field.remove_metadata()
    made = field.with_type(_numbered_type(field.type, known.type))
    return made.with_metadata({_ID: str(known.id).encode()})


def _numbered_type(dtype: pa.DataType, known: HistoryType) -> pa.DataType:
    if pa.types.is_struct(dtype) and isinstance(known, RecordType):
        return pa.struct(_numbered_fields(list(dtype), known.fields))
    if pa.types.is_list(dtype) and isinstance(known, ListType):
        return pa.list_(_numbered(dtype.value_field, known.element))
    if pa.types.is_map(dtype) and isinstance(known, MapType):
        return pa.map_(
            _numbered(dtype.key_field, known.key), _numbered(dtype.item_field, known.value)
        )
    return dtype


def _plain_field(field: pa.Field) -> pa.Field:
    dtype = field.type
    if pa.types.is_struct(dtype):
        dtype = pa.struct([_plain_field(inner) for inner in dtype])
    elif pa.types.is_list(dtype):
        dtype = pa.list_(_plain_field(dtype.value_field))
    elif pa.types.is_map(dtype):
        dtype = pa.map_(_plain_field(dtype.key_field), _plain_field(dtype.item_field))
    return field.with_type(dtype).remove_metadata()


def _history_fields(
    fields: list[pa.Field], nodes: tuple[AvroField, ...], ids: Iterator[int]
) -> tuple[HistoryField, ...]:
    # Fields of one struct are numbered before what is in them, as Hudi does.
    numbers = [_id(field, ids) for field in fields]
    return tuple(
        HistoryField(
            number, field.name, _history_type(field.type, node.type, ids), _is_optional(node.type)
        )
        for number, field, node in zip(numbers, fields, nodes, strict=True)
    )


def _id(field: pa.Field, ids: Iterator[int]) -> int:
    stored = (field.metadata or {}).get(_ID)
    return next(ids) if stored is None else int(stored)


def _history_type(dtype: pa.DataType, node: AvroType, ids: Iterator[int]) -> HistoryType:
    inner = _value(node)
    if isinstance(inner, AvroRecord):
        return RecordType(_history_fields(list(dtype), inner.fields, ids))
    if isinstance(inner, AvroArray):
        return ListType(_inner(dtype.value_field, "element", inner.items, ids))
    if isinstance(inner, AvroMap):
        key = HistoryField(_id(dtype.key_field, ids), "key", LeafType("string"), optional=False)
        return MapType(key, _inner(dtype.item_field, "value", inner.values, ids))
    return LeafType(_leaf_name(inner))


def _inner(field: pa.Field, name: str, node: AvroType, ids: Iterator[int]) -> HistoryField:
    number = _id(field, ids)
    return HistoryField(number, name, _history_type(field.type, node, ids), _is_optional(node))


def _leaf_name(node: AvroType) -> str:
    if isinstance(node, AvroFixed):
        if vector_of_avro(node) is not None:
            raise UnsupportedFeature("a VECTOR column with a history of columns")
        if node.logical == "decimal":
            return f"decimal_fixed({node.precision}, {node.scale})[{node.size}]"
        return f"fixed[{node.size}]"
    if isinstance(node, AvroPrimitive):
        if node.logical == "decimal":
            return f"decimal_bytes({node.precision}, {node.scale})"
        if node.logical in _LOGICAL:
            return _LOGICAL[node.logical]
        return "binary" if node.kind is PrimitiveKind.BYTES else node.kind.value
    raise UnsupportedFeature(f"a column of Avro's {type(node).__name__} with a history of columns")


def _value(node: AvroType) -> AvroType:
    """What a nullable slot holds."""
    if isinstance(node, AvroUnion):
        return next(branch for branch in node.branches if not is_null(branch))
    return node


def _is_optional(node: AvroType) -> bool:
    return isinstance(node, AvroUnion)
