"""Avro types to Arrow types, and Arrow schemas to Avro as Hudi spells them.

A union of null and one type is a nullable column. A union of several types is a struct
`member0, member1, ...` (null is not counted) of which exactly one member is set, as in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from lakedex.errors import UnsupportedFeature
from lakedex.schema.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
    is_nullable,
)
from lakedex.schema.hudi_types import (
    BLOB,
    BLOB_NODE,
    ENUM_SYMBOLS,
    HUDI_TYPE,
    hudi_type,
    is_blob_node,
    is_vector,
    marked,
    vector_of_avro,
    vector_to_avro,
)

_MAX_DECIMAL_DIGITS = 38
_MOST_KEPT = 4096

# Decoders need the types of the same few schemas again and again. By identity, as hashing a
# tree costs as much as walking it; the node is kept so that no other can take its identity.
_KEPT: dict[int, tuple[AvroType, pa.DataType]] = {}


def arrow_type(node: AvroType) -> pa.DataType:
    """The Arrow type that holds values of an Avro type.

    Example:
        >>> str(arrow_type(AvroUnion((AvroPrimitive(PrimitiveKind.NULL),
        ...                           AvroPrimitive(PrimitiveKind.LONG)))))
        'int64'
    """
    if isinstance(node, AvroPrimitive):
        return _primitive(node)
    if isinstance(node, AvroFixed):
        if node.logical == "decimal":
            return _decimal(node)
        return vector_of_avro(node) or pa.binary(node.size)
    if isinstance(node, AvroEnum):
        return pa.string()
    kept = _KEPT.get(id(node))
    if kept is None:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        kept = _KEPT[id(node)] = node, _nested(node)
    return kept[1]


def arrow_schema(record: AvroRecord) -> pa.Schema:
    """The Arrow schema of a record's fields; columns without a null branch are not nullable.

    The metadata of VECTOR and BLOB columns names their type, that of enums their symbols.
    """
    return pa.schema([_column(item) for item in record.fields])


def _column(item: AvroField) -> pa.Field:
    field = _arrow_field(item.name, item.type)
    inner = _value(item.type)
    if is_blob_node(inner):
        return field.with_metadata({HUDI_TYPE: BLOB})
    if isinstance(inner, AvroEnum):
        return field.with_metadata({ENUM_SYMBOLS: json.dumps(inner.symbols)})
    return marked(field)


def avro_schema(schema: pa.Schema, name: str, namespace: str) -> AvroRecord:
    """The Avro record that Hudi would write for an Arrow schema.

    Nullable columns are `["null", T]` with default null, decimals are fixed types named after
    their column, and times keep their unit.

    Example:
        >>> avro_schema(pa.schema([("d", pa.date32())]), "t_record", "hoodie.t").fields[0].default
        >>> avro_schema(pa.schema([("s", pa.string())]), "r", "").to_json()
        '{"type":"record","name":"r","fields":[{"name":"s","type":["null","string"],"default":null}]}'
    """
    return _avro_record(list(schema), name, namespace)


def keep_avro_types(record: AvroRecord, older: AvroRecord) -> AvroRecord:
    """The record with the enums and UUIDs of an older one, which are plain text in Arrow."""
    known = {item.name: item.type for item in older.fields}
    fields = []
    for item in record.fields:
        old = known.get(item.name)
        if old is not None and _says_more(old) and arrow_type(old) == arrow_type(item.type):
            fields.append(replace(item, type=old))
        else:
            fields.append(item)
    return replace(record, fields=tuple(fields))


def _says_more(node: AvroType) -> bool:
    inner = _value(node)
    is_uuid = isinstance(inner, AvroPrimitive) and inner.logical == "uuid"
    return is_uuid or isinstance(inner, AvroEnum)


def _value(node: AvroType) -> AvroType:
    """What a nullable column holds."""
    if isinstance(node, AvroUnion) and len(node.members) == 1:
        return node.members[0][1]
    return node


def decimal_fixed_bytes(precision: int) -> int:
    """The smallest number of bytes that holds every decimal of that many digits.

    Example:
        >>> decimal_fixed_bytes(10)
        5
    """
    return ((10**precision - 1).bit_length() + 8) // 8


def _nested(node: AvroArray | AvroMap | AvroRecord | AvroUnion) -> pa.DataType:
    if isinstance(node, AvroArray):
        return pa.list_(_arrow_field("element", node.items))
    if isinstance(node, AvroMap):
        return pa.map_(pa.string(), _arrow_field("value", node.values))
    if isinstance(node, AvroRecord):
        return pa.struct([_arrow_field(item.name, item.type) for item in node.fields])
    return _union(node)


def _arrow_field(name: str, node: AvroType) -> pa.Field:
    return pa.field(name, arrow_type(node), nullable=is_nullable(node))


def _union(node: AvroUnion) -> pa.DataType:
    members = node.members
    if not members:
        return pa.null()
    if len(members) == 1:
        return arrow_type(members[0][1])
    return pa.struct(
        [pa.field(f"member{n}", arrow_type(branch)) for n, (_, branch) in enumerate(members)]
    )


def _primitive(node: AvroPrimitive) -> pa.DataType:
    if node.logical == "decimal":
        return _decimal(node)
    if node.logical is not None:
        return _LOGICAL[node.logical]
    return _PLAIN[node.kind]


def _decimal(node: AvroPrimitive | AvroFixed) -> pa.DataType:
    if node.precision > _MAX_DECIMAL_DIGITS:
        raise UnsupportedFeature(f"a decimal of {node.precision} digits")
    return pa.decimal128(node.precision, node.scale)


_PLAIN: Mapping[PrimitiveKind, pa.DataType] = {
    PrimitiveKind.NULL: pa.null(),
    PrimitiveKind.BOOLEAN: pa.bool_(),
    PrimitiveKind.INT: pa.int32(),
    PrimitiveKind.LONG: pa.int64(),
    PrimitiveKind.FLOAT: pa.float32(),
    PrimitiveKind.DOUBLE: pa.float64(),
    PrimitiveKind.BYTES: pa.binary(),
    PrimitiveKind.STRING: pa.string(),
}

_LOGICAL: Mapping[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
}

_TIMESTAMP_UNITS = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}


def _avro_record(columns: list[pa.Field], name: str, namespace: str) -> AvroRecord:
    child_space = f"{namespace}.{name}" if namespace else name
    fields = []
    for column in columns:
        node = _avro_slot(column, column.name, child_space)
        if column.nullable:
            fields.append(AvroField(column.name, node, default=None))
        else:
            fields.append(AvroField(column.name, node))
    return AvroRecord(name, namespace, tuple(fields))


def _avro_slot(column: pa.Field, name: str, namespace: str) -> AvroType:
    is_blob = hudi_type(column) == BLOB
    node = BLOB_NODE if is_blob else _avro_value(column.type, name, namespace)
    if not column.nullable or is_nullable(node):
        return node
    return AvroUnion((AvroPrimitive(PrimitiveKind.NULL), node))


def _avro_value(dtype: pa.DataType, name: str, namespace: str) -> AvroType:
    """`name` and `namespace` are what a named type at this place is called."""
    if pa.types.is_dictionary(dtype):
        return _avro_value(dtype.value_type, name, namespace)
    if pa.types.is_struct(dtype):
        return _avro_record([dtype.field(i) for i in range(dtype.num_fields)], name, namespace)
    if pa.types.is_map(dtype):
        if not _is_text(dtype.key_type):
            raise UnsupportedFeature(f"a map with keys of type {dtype.key_type} in column {name}")
        return AvroMap(_avro_slot(dtype.item_field, name, namespace))
    if is_vector(dtype):
        return vector_to_avro(dtype)
    if _is_list(dtype):
        return AvroArray(_avro_slot(dtype.value_field, name, namespace))
    if pa.types.is_decimal(dtype):
        size = decimal_fixed_bytes(dtype.precision)
        space = f"{namespace}.{name}" if namespace else name
        return AvroFixed("fixed", space, size, "decimal", dtype.precision, dtype.scale)
    if pa.types.is_fixed_size_binary(dtype):
        space = f"{namespace}.{name}" if namespace else name
        return AvroFixed("fixed", space, dtype.byte_width)
    return _avro_leaf(dtype, name)


def _avro_leaf(dtype: pa.DataType, name: str) -> AvroPrimitive:
    if pa.types.is_timestamp(dtype):
        local = "local-" if dtype.tz is None else ""
        unit = f"{local}timestamp-{_TIMESTAMP_UNITS[dtype.unit]}"
        return AvroPrimitive(PrimitiveKind.LONG, unit)
    for test, kind, logical in _LEAVES:
        if test(dtype):
            return AvroPrimitive(kind, logical)
    raise UnsupportedFeature(f"the Arrow type {dtype} of column {name} in Avro")


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or dtype == pa.string_view()


def _is_bytes(dtype: pa.DataType) -> bool:
    return pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or dtype == pa.binary_view()


def _is_list(dtype: pa.DataType) -> bool:
    return (
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_fixed_size_list(dtype)
    )


def _one_of(*types: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda dtype: dtype in types


_LEAVES: tuple[tuple[Callable[[pa.DataType], bool], PrimitiveKind, str | None], ...] = (
    (_is_text, PrimitiveKind.STRING, None),
    (_is_bytes, PrimitiveKind.BYTES, None),
    (
        _one_of(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()),
        PrimitiveKind.INT,
        None,
    ),
    (_one_of(pa.int64(), pa.uint32()), PrimitiveKind.LONG, None),
    (_one_of(pa.float16(), pa.float32()), PrimitiveKind.FLOAT, None),
    (_one_of(pa.float64()), PrimitiveKind.DOUBLE, None),
    (_one_of(pa.bool_()), PrimitiveKind.BOOLEAN, None),
    (_one_of(pa.date32(), pa.date64()), PrimitiveKind.INT, "date"),
    (_one_of(pa.time32("s"), pa.time32("ms")), PrimitiveKind.INT, "time-millis"),
    (_one_of(pa.time64("us")), PrimitiveKind.LONG, "time-micros"),
    (_one_of(pa.null()), PrimitiveKind.NULL, None),
)
