"""Decodes Avro binary records to Arrow, all records at once.

Records are decoded field by field: for each field one pass moves the cursors of all records over it
(`lanes`), and its values become an Arrow array (`place`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.format.avro import arrays
from lakedex.format.avro.arrays import Place, decimals_of_bytes, decimals_of_fixed
from lakedex.format.avro.lanes import I64, U8, Lanes, open_source
from lakedex.format.avro.skip import find_items, item_type, read_index, skip
from lakedex.schema.arrow_types import arrow_schema, arrow_type
from lakedex.schema.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
)
from lakedex.schema.hudi_types import is_vector, vectors_of_bytes

# Enough records to amortise a numpy call, few enough to stay in the processor's cache.
_CHUNK_RECORDS = 1 << 15
_DAY_MILLIS = 86_400_000


def decode_records(
    schema: AvroRecord,
    data: U8,
    starts: I64,
    ends: I64,
    *,
    columns: Collection[str] | None = None,
    leading: bool = False,
    path: str,
    base_offset: int = 0,
) -> pa.RecordBatch:
    """Decode record i from `data[starts[i]:ends[i]]`; the records are in order and do not overlap.

    Args:
        schema: The schema with which the records were written.
        data: The bytes of all records.
        starts: The start of each record.
        ends: The end of each record; its encoding must end exactly there.
        columns: The fields to build; the others are skipped. None builds all.
        leading: Whether to stop after the last of them and ignore the following fields.
        path: The file to name in errors.
        base_offset: The position of `data` in that file.

    Example:
        >>> from lakedex.schema.avro_schema import parse_avro_record
        >>> schema = parse_avro_record(
        ...     '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}')
        >>> decode_records(schema, np.array([2, 6], np.uint8), np.array([0, 1]), np.array([1, 2]),
        ...                path="x").to_pydict()
        {'n': [1, 3]}
    """
    first, last = _check_bounds(starts, ends, len(data))
    wanted = _wanted(schema, columns)
    read = _leading(schema, wanted) if leading else schema
    kept = tuple(item for item in schema.fields if item.name in wanted)
    target = arrow_schema(AvroRecord(schema.name, schema.namespace, kept))
    source = open_source(data[first:last], path, base_offset + first)
    batches = []
    for begin in range(0, max(len(starts), 1), _CHUNK_RECORDS):
        part = slice(begin, begin + _CHUNK_RECORDS)
        lanes = Lanes(source, starts[part] - first, ends[part] - first)
        columns = _fields(read, lanes, Place(len(lanes)), wanted)
        if not leading:
            lanes.require(lanes.cur == lanes.end, "the end of the record", "more bytes")
        batches.append(_batch(columns, target, len(lanes)))
    return batches[0] if len(batches) == 1 else _joined(batches)


def _check_bounds(starts: I64, ends: I64, size: int) -> tuple[int, int]:
    if len(starts) != len(ends):
        raise InvalidInput(f"{len(starts)} starts but {len(ends)} ends of records")
    if not len(starts):
        return 0, 0
    in_order = bool((starts <= ends).all() and (starts[1:] >= ends[:-1]).all())
    if not in_order or starts[0] < 0 or ends[-1] > size:
        raise InvalidInput("records must be in order in the buffer and must not overlap")
    return int(starts[0]), int(ends[-1])


def _wanted(schema: AvroRecord, columns: Collection[str] | None) -> frozenset[str]:
    names = frozenset(item.name for item in schema.fields)
    if columns is None:
        return names
    unknown = sorted(set(columns) - names)
    if unknown:
        raise InvalidInput(f"the Avro schema {schema.full_name} has no field {unknown[0]}")
    return frozenset(columns)


def _leading(schema: AvroRecord, wanted: Collection[str]) -> AvroRecord:
    """The fields up to the last wanted one."""
    last = max((at for at, item in enumerate(schema.fields, 1) if item.name in wanted), default=0)
    return AvroRecord(schema.name, schema.namespace, schema.fields[:last])


def _batch(columns: list[pa.Array], target: pa.Schema, rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=target)
    return pa.RecordBatch.from_struct_array(arrays.struct(pa.struct([]), [], rows, None))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if not batches[0].num_columns:
        rows = sum(batch.num_rows for batch in batches)
        return _batch([], batches[0].schema, rows)
    columns = [
        pa.concat_arrays([batch.column(i) for batch in batches])
        for i in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _fields(
    record: AvroRecord, lanes: Lanes, place: Place, wanted: frozenset[str] | None = None
) -> list[pa.Array]:
    columns = []
    for item in record.fields:
        if wanted is None or item.name in wanted:
            columns.append(_decode(item.type, lanes, place, None))
        else:
            skip(item.type, lanes)
    return columns


def _decode(node: AvroType, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    """Read one value from each lane into an array of `place.rows` rows with that validity."""
    if isinstance(node, AvroPrimitive) and node.kind is PrimitiveKind.NULL:
        return pa.nulls(place.rows)
    if not len(lanes):
        return arrays.empty_rows(arrow_type(node), place.rows, lanes.source, valid=validity is None)
    if isinstance(node, AvroUnion):
        return _union(node, lanes, place, validity)
    if isinstance(node, AvroRecord):
        children = _fields(node, lanes, place)
        return arrays.struct(arrow_type(node), children, place.rows, validity)
    lanes.source.spend_cells(place.rows)
    return _decode_value(node, lanes, place, validity)


def _decode_value(
    node: AvroPrimitive | AvroArray | AvroMap | AvroFixed | AvroEnum,
    lanes: Lanes,
    place: Place,
    validity: pa.Buffer | None,
) -> pa.Array:
    if isinstance(node, AvroArray):
        return _list(node, lanes, place, validity)
    if isinstance(node, AvroMap):
        return _map(node, lanes, place, validity)
    if isinstance(node, AvroFixed):
        return _fixed(node, lanes, place, validity)
    if isinstance(node, AvroEnum):
        return _enum(node, lanes, place, validity)
    return _PRIMITIVES[node.kind](node, lanes, place, validity)


def _union(node: AvroUnion, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    branch = read_index(lanes, len(node.branches), "a union branch")
    if len(node.members) > 1:
        return _member_union(node, branch, lanes, place)
    if not node.members:
        return pa.nulls(place.rows)
    number, inner = node.members[0]
    chosen = np.flatnonzero(branch == number)
    if len(chosen) == len(lanes):
        return _decode(inner, lanes, place, validity)
    return _some(inner, lanes, chosen, place, place.validity(branch == number))


def _member_union(node: AvroUnion, branch: I64, lanes: Lanes, place: Place) -> pa.Array:
    """Decode a union of several types as a struct with one member for each."""
    children = []
    counts = np.bincount(branch, minlength=len(node.branches))
    for number, inner in node.members:
        if not counts[number]:
            empty = arrays.empty_rows(arrow_type(inner), place.rows, lanes.source, valid=False)
            children.append(empty)
            continue
        chosen = np.flatnonzero(branch == number)
        children.append(_some(inner, lanes, chosen, place, place.only(chosen)))
    null = node.null_branch
    struct_validity = None if null is None else place.validity(branch != null)
    return arrays.struct(arrow_type(node), children, place.rows, struct_validity)


def _some(
    inner: AvroType, lanes: Lanes, chosen: I64, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    """Read a value from the chosen lanes only."""
    part = lanes.subset(chosen)
    array = _decode(inner, part, place.narrow(chosen), validity)
    if len(chosen):
        lanes.put_back(chosen, part)
    return array


def _list(node: AvroArray, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    starts, counts = find_items(node.items, lanes)
    inner = Lanes(lanes.source, starts, np.repeat(lanes.end, counts))
    items = _decode(node.items, inner, Place(len(starts)), None)
    return arrays.lists(arrow_type(node), counts, place, validity, items)


def _map(node: AvroMap, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    dtype = arrow_type(node)
    starts, counts = find_items(item_type(node), lanes)
    inner = Lanes(lanes.source, starts, np.repeat(lanes.end, counts))
    whole = Place(len(starts))
    keys = _sized(AvroPrimitive(PrimitiveKind.STRING), inner, whole, None)
    values = _decode(node.values, inner, whole, None)
    entry_type = pa.struct([dtype.key_field, dtype.item_field])
    entries = arrays.struct(entry_type, [keys, values], len(starts), None)
    return arrays.lists(dtype, counts, place, validity, entries)


def _fixed(node: AvroFixed, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    start = lanes.cur
    lanes.advance(node.size, f"{node.size} bytes")
    if node.logical == "decimal":
        return decimals_of_fixed(node, lanes, start, place, validity)
    lanes.source.spend_cells(place.rows * (node.size // 8))
    rows = lanes.source.data[start[:, None] + np.arange(node.size)]
    found = arrays.fixed_width(pa.binary(node.size), rows, place, validity)
    dtype = arrow_type(node)
    return vectors_of_bytes(found, dtype) if is_vector(dtype) else found


def _enum(node: AvroEnum, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    index = read_index(lanes, len(node.symbols), "an enum symbol")
    found = pa.array(node.symbols, pa.string()).take(pa.array(place.spread(index)))
    return found if validity is None else arrays.with_validity(found, validity)


def _int(node: AvroPrimitive, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    values = lanes.varint("a number")
    narrow = values.astype(np.int32)
    lanes.require(narrow == values, "a number of 32 bits", values)
    if node.logical == "time-millis":
        _check_time(values, lanes, _DAY_MILLIS)
    return arrays.fixed_width(arrow_type(node), narrow, place, validity)


def _long(node: AvroPrimitive, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    values = lanes.varint("a number")
    if node.logical == "time-micros":
        _check_time(values, lanes, _DAY_MILLIS * 1000)
    return arrays.fixed_width(arrow_type(node), values, place, validity)


def _check_time(values: I64, lanes: Lanes, day: int) -> None:
    lanes.require((values >= 0) & (values < day), "a time of day", values)


def _floating(
    node: AvroPrimitive, lanes: Lanes, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    width = 4 if node.kind is PrimitiveKind.FLOAT else 8
    start = lanes.cur
    lanes.advance(width, f"{width} bytes")
    words = lanes.source.words[start]
    values = words if width == 8 else words.astype(np.uint32)
    return arrays.fixed_width(arrow_type(node), values, place, validity)


def _boolean(
    node: AvroPrimitive, lanes: Lanes, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    found = lanes.byte("a boolean")
    lanes.require(found <= 1, "a boolean 0 or 1", found.astype(np.int64))
    return arrays.booleans(found == 1, place, validity)


def _sized(node: AvroPrimitive, lanes: Lanes, place: Place, validity: pa.Buffer | None) -> pa.Array:
    lengths = lanes.varint("a length")
    lanes.advance(lengths, "a length within the record")
    if node.logical == "decimal":
        return decimals_of_bytes(node, lanes, lengths, place, validity)
    text = node.kind is PrimitiveKind.STRING
    return arrays.variable_width(lanes, lengths, place, validity, text=text)


_PRIMITIVES: Mapping[
    PrimitiveKind, Callable[[AvroPrimitive, Lanes, Place, pa.Buffer | None], pa.Array]
] = {
    PrimitiveKind.BOOLEAN: _boolean,
    PrimitiveKind.INT: _int,
    PrimitiveKind.LONG: _long,
    PrimitiveKind.FLOAT: _floating,
    PrimitiveKind.DOUBLE: _floating,
    PrimitiveKind.BYTES: _sized,
    PrimitiveKind.STRING: _sized,
}
