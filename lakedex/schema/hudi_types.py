"""Hudi's own column types VECTOR and BLOB: what they are in Arrow, in Avro and as text.

    VECTOR(n [, FLOAT | DOUBLE | INT8])   Avro: a fixed of n elements, little-endian, with
                                          logicalType vector, dimension, elementType
                                          Arrow: a list of fixed size, whose elements are never null
    BLOB                                  Avro: the record `blob` with logicalType blob
                                          Arrow: struct<type, data, reference>

A column says which it is by the field metadata `hudi_type`, in Arrow as in Spark. Both are allowed
at the top level only. Base files hold a vector as bytes of a fixed length, and name their vectors
in the footer (`hoodie.vector.columns`).

Also the SQL names of Spark's types, as Arrow types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
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
)
from lakedex.schema.field_paths import validity_buffer

HUDI_TYPE = "hudi_type"
BLOB = "BLOB"
ENUM_SYMBOLS = "avro_enum"
"""The field metadata that lists the symbols of an enum, which is text in Arrow."""
_MOST_BYTES = 1 << 20
_VECTOR_TEXT = re.compile(r"VECTOR\s*\(\s*(\d{1,9})\s*(?:,\s*(\w+)\s*)?\)", re.IGNORECASE)
_ELEMENTS: Mapping[str, pa.DataType] = {
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "INT8": pa.int8(),
}
_ELEMENT_NAMES = {dtype: name for name, dtype in _ELEMENTS.items()}
_BACKING = "FIXED_BYTES"

_REFERENCE_TYPE = pa.struct(
    [
        pa.field("external_path", pa.string(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("managed", pa.bool_(), nullable=False),
    ]
)
BLOB_TYPE = pa.struct(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("data", pa.binary()),
        pa.field("reference", _REFERENCE_TYPE),
    ]
)
BLOB_KINDS = ("INLINE", "OUT_OF_LINE")

_NULL = AvroPrimitive(PrimitiveKind.NULL)


def _nullable(node: AvroType) -> AvroUnion:
    return AvroUnion((_NULL, node))


_REFERENCE_NODE = AvroRecord(
    "reference",
    "",
    (
        AvroField("external_path", AvroPrimitive(PrimitiveKind.STRING)),
        AvroField("offset", _nullable(AvroPrimitive(PrimitiveKind.LONG))),
        AvroField("length", _nullable(AvroPrimitive(PrimitiveKind.LONG))),
        AvroField("managed", AvroPrimitive(PrimitiveKind.BOOLEAN)),
    ),
)
BLOB_NODE = AvroRecord(
    "blob",
    "",
    (
        AvroField("type", AvroEnum("blob_storage_type", "", BLOB_KINDS)),
        AvroField("data", _nullable(AvroPrimitive(PrimitiveKind.BYTES)), default=None),
        AvroField("reference", _nullable(_REFERENCE_NODE), default=None),
    ),
    properties={"logicalType": "blob"},
)


def parse_hudi_type(text: str, column: str) -> pa.DataType:
    """The Arrow type of a column of Hudi's own types.

    Example:
        >>> str(parse_hudi_type("VECTOR(3, INT8)", "e"))
        'fixed_size_list<item: int8>[3]'

    Raises:
        InvalidInput: the text names no such type; the column is named.
    """
    if text.strip().upper() == BLOB:
        return BLOB_TYPE
    match = _VECTOR_TEXT.fullmatch(text.strip())
    element = _ELEMENTS.get((match[2] or "FLOAT").upper()) if match else None
    if match is None or element is None:
        known = ", ".join(_ELEMENTS)
        raise InvalidInput(
            f"column {column}: {text[:80]!r} is none of VECTOR(n), VECTOR(n, {known}) and BLOB"
        )
    dimension = int(match[1])
    if not 0 < dimension * element.bit_width // 8 <= _MOST_BYTES:
        raise InvalidInput(f"column {column}: VECTOR({match[1]}) is empty or larger than 1 MiB")
    return _vector(dimension, element)


def is_vector(dtype: pa.DataType) -> bool:
    """Whether values of the type are stored as a VECTOR; other lists have no fixed size here."""
    return pa.types.is_fixed_size_list(dtype) and dtype.value_type in _ELEMENT_NAMES


def hudi_type(field: pa.Field) -> str | None:
    """The text of a column's type if it is a VECTOR or a BLOB.

    Example:
        >>> hudi_type(pa.field("e", parse_hudi_type("vector(4)", "e")))
        'VECTOR(4)'
    """
    if is_vector(field.type):
        name = _ELEMENT_NAMES[field.type.value_type]
        element = "" if name == "FLOAT" else f", {name}"
        return f"VECTOR({field.type.list_size}{element})"
    declared = (field.metadata or {}).get(HUDI_TYPE.encode())
    return (
        BLOB
        if declared is not None and declared.decode("utf-8", "replace").upper() == BLOB
        else None
    )


def given_hudi_type(field: pa.Field) -> str | None:
    """What a column of an input says of its type; nothing for most columns."""
    declared = (field.metadata or {}).get(HUDI_TYPE.encode())
    return None if declared is None else declared.decode("utf-8", "replace")


def marked(field: pa.Field) -> pa.Field:
    """The field with metadata that names its type, if it is of these types."""
    text = hudi_type(field)
    if text is None:
        return field
    return field.with_metadata({**(field.metadata or {}), HUDI_TYPE.encode(): text.encode()})


def vector_of_avro(node: AvroFixed) -> pa.DataType | None:
    """The Arrow type of a fixed that is a vector; None for another fixed.

    Raises:
        UnsupportedFeature: a vector of elements or in a form that Hudi 1.2 does not have.
    """
    said = node.properties
    if said.get("logicalType") != "vector":
        return None
    element = _ELEMENTS.get(str(said.get("elementType", "FLOAT")).upper())
    dimension = said.get("dimension")
    backing = said.get("storageBacking", _BACKING)
    if element is None or backing != _BACKING or not isinstance(dimension, int) or dimension < 1:
        shown = f"{said.get('elementType')}, {backing}"
        raise UnsupportedFeature(f"a VECTOR({dimension}, {shown})")
    if node.size != dimension * element.bit_width // 8:
        raise UnsupportedFeature(f"a VECTOR({dimension}) of {node.size} bytes")
    return _vector(dimension, element)


def vector_to_avro(dtype: pa.DataType) -> AvroFixed:
    """How Hudi spells a vector type in Avro."""
    name = _ELEMENT_NAMES[dtype.value_type]
    return AvroFixed(
        f"vector_{name.lower()}_{dtype.list_size}",
        "",
        dtype.list_size * dtype.value_type.bit_width // 8,
        properties={
            "logicalType": "vector",
            "dimension": dtype.list_size,
            "elementType": name,
            "storageBacking": _BACKING,
        },
    )


def is_blob_node(node: AvroType) -> bool:
    """Whether an Avro type is a BLOB."""
    return isinstance(node, AvroRecord) and node.properties.get("logicalType") == "blob"


def unknown_logical_type(node: AvroType, *, is_column: bool = True) -> str | None:
    """A logical type somewhere in a column that its Arrow type does not show; None for most.

    Example:
        >>> variant = AvroRecord("v", "", (), properties={"logicalType": "variant"})
        >>> unknown_logical_type(variant), unknown_logical_type(BLOB_NODE)
        ('variant', None)
    """
    if isinstance(node, AvroUnion):
        found = [unknown_logical_type(each, is_column=is_column) for each in node.branches]
        return next((each for each in found if each is not None), None)
    declared = node.properties.get("logicalType")
    is_own = declared == ("vector" if isinstance(node, AvroFixed) else "blob")
    if declared is not None and not (is_own and is_column):
        return str(declared)
    parts: list[AvroType] = []
    if isinstance(node, AvroRecord):
        parts = [field.type for field in node.fields]
    elif isinstance(node, AvroArray | AvroMap):
        parts = [node.items if isinstance(node, AvroArray) else node.values]
    found = [unknown_logical_type(each, is_column=False) for each in parts]
    return next((each for each in found if each is not None), None)


def vector_bytes(array: pa.Array) -> pa.Array:
    """Vectors as bytes of a fixed length."""
    size = array.type.list_size
    items = array.values.slice(array.offset * size, len(array) * size)
    # Below a null vector items may be null.
    values = (items.fill_null(0) if items.null_count else items).to_numpy(zero_copy_only=False)
    width = size * array.type.value_type.bit_width // 8
    buffers = [validity_buffer(array), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(width), len(array), buffers)


def vectors_of_bytes(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Bytes of a fixed length as vectors."""
    width = array.type.byte_width
    data = array.buffers()[1]
    start, size = array.offset * width, len(array) * width
    # An array of nulls may have no bytes at all.
    has_data = data is not None and data.size >= start + size
    kept = data.slice(start, size) if has_data else pa.py_buffer(bytes(size))
    count = len(array) * dtype.list_size
    values = pa.Array.from_buffers(dtype.value_type, count, [None, kept])
    return pa.Array.from_buffers(dtype, len(array), [validity_buffer(array)], children=[values])


def vectors_of_lists(array: pa.Array, dtype: pa.DataType, path: str) -> pa.Array:
    """Lists as vectors; their elements already have the type of the vector's.

    Raises:
        InvalidInput: a list of another length, or with a null; column, lengths and row are named.
    """
    expected = dtype.list_size
    lengths = pc.list_value_length(array)
    wrong = pc.fill_null(pc.not_equal(lengths, expected), fill_value=False)
    at = pc.index(wrong, value=True).as_py()
    if at >= 0:
        raise InvalidInput(
            f"column {path} is {hudi_type(pa.field(path, dtype))}: expected {expected} elements, "
            f"actual {lengths[at].as_py()} in row {at} of the input"
        )
    items = array.flatten()
    if items.null_count:
        raise InvalidInput(f"column {path} is a VECTOR, whose elements may not be null")
    present = array.is_valid().to_numpy(zero_copy_only=False)
    values = np.zeros(len(array) * expected, items.type.to_pandas_dtype())
    values[np.repeat(present, expected)] = items.to_numpy(zero_copy_only=False)
    child = pa.array(values, dtype.value_type)
    return pa.Array.from_buffers(dtype, len(array), [validity_buffer(array)], children=[child])


def check_blobs(array: pa.Array, path: str) -> None:
    """Refuse a BLOB whose `type` is none of Hudi's.

    Raises:
        InvalidInput: naming the column and the value.
    """
    kinds = pc.struct_field(array, "type")
    unknown = pc.and_(pc.is_valid(kinds), pc.invert(pc.is_in(kinds, pa.array(BLOB_KINDS))))
    unknown = pc.and_(unknown, array.is_valid())
    at = pc.index(unknown, value=True).as_py()
    if at >= 0:
        raise InvalidInput(
            f"column {path}.type is {kinds[at].as_py()!r}, and a BLOB is {' or '.join(BLOB_KINDS)}"
        )


def check_symbols(array: pa.Array, field: pa.Field) -> None:
    """Refuse a text that is no symbol of its column, if that is an enum.

    Raises:
        InvalidInput: naming the column, the value and the symbols.
    """
    declared = (field.metadata or {}).get(ENUM_SYMBOLS.encode())
    if declared is None or not pa.types.is_string(array.type):
        return
    symbols = json.loads(declared)
    unknown = pc.and_(array.is_valid(), pc.invert(pc.is_in(array, pa.array(symbols, pa.string()))))
    at = pc.index(unknown, value=True).as_py()
    if at >= 0:
        raise InvalidInput(
            f"column {field.name} is an enum of {', '.join(symbols)}, and {array[at].as_py()!r} is "
            "none of them"
        )


def _vector(dimension: int, element: pa.DataType) -> pa.DataType:
    # Arrow's pickled form of the type keeps neither the name nor the nullability of its elements.
    return pa.list_(element, dimension)


TYPE_NAMES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DECIMAL": pa.decimal128(10, 0),
    "DEC": pa.decimal128(10, 0),
    "NUMERIC": pa.decimal128(10, 0),
}
"""The Arrow type of every scalar type name; a decimal without digits is DECIMAL(10,0)."""

CAST_FUNCTIONS = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double"}
    | {"decimal", "date", "timestamp", "string", "binary"}
)
"""Type names that Spark also knows as functions of one argument."""


def type_name(arrow_type: pa.DataType) -> str:
    """The SQL name of an Arrow type, for messages.

    Example:
        >>> type_name(pa.int64()), type_name(pa.decimal128(5, 2))
        ('BIGINT', 'DECIMAL(5,2)')
    """
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_timestamp(arrow_type):
        return "TIMESTAMP_NTZ" if arrow_type.tz is None else "TIMESTAMP"
    if pa.types.is_large_string(arrow_type):
        return "STRING"
    for name, known in TYPE_NAMES.items():
        if known == arrow_type:
            return name
    return str(arrow_type).upper()
