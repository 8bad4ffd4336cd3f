"""Bytes that nobody should have written: an error of ours, soon, and nothing else."""

from __future__ import annotations

import contextlib
import io
import json
import time
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput, LakedexError
from lakedex.format.avro import METADATA_RECORD, decode_distinct, decode_records
from lakedex.schema import AvroRecord, parse_avro_record

EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": ["null", "int"]},
        {"name": "l", "type": "long"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": ["string", "null"]},
        {"name": "y", "type": "bytes"},
        {"name": "x", "type": {"type": "fixed", "name": "x3", "size": 3}},
        {"name": "e", "type": {"type": "enum", "name": "e2", "symbols": ["A", "B"]}},
        {
            "name": "c",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
        },
        {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "a", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "long"}}},
        {"name": "u", "type": ["null", "int", "string", "double"]},
    ],
}
ROW: dict[str, Any] = {
    "b": True,
    "i": 7,
    "l": -(2**60),
    "f": 1.5,
    "d": 2.5,
    "s": "text",
    "y": b"\x00\xff",
    "x": b"abc",
    "e": "B",
    "c": 5,
    "t": 1,
    "a": ["p", None, "q"],
    "m": {"k": [1, 2, 3], "j": []},
    "u": "seven",
}


def parsed(tree: object) -> AvroRecord:
    return parse_avro_record(json.dumps(tree))


def encoded(schema: Any, row: Any) -> bytes:
    stream = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace('"logicalType": "decimal", ', ""))
    row = {**row, "c": b"\x05"} if "c" in row else row
    plain = json.loads(json.dumps(plain).replace('"logicalType": "time-micros"', '"x": 1'))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain), row)
    return stream.getvalue()


def decode(schema: AvroRecord, data: bytes, base_offset: int = 0):
    whole = np.frombuffer(data, np.uint8)
    bounds = np.array([0]), np.array([len(data)])
    return decode_records(schema, whole, *bounds, path="bad.log", base_offset=base_offset)


def of_type(node: object) -> AvroRecord:
    return parsed({"type": "record", "name": "r", "fields": [{"name": "v", "type": node}]})


GOOD = encoded(EVERYTHING, ROW)
SCHEMA = parsed(EVERYTHING)


def test_the_good_record_is_good():
    assert decode(SCHEMA, GOOD).column("u").to_pylist()[0]["member1"] == "seven"


def test_a_record_cut_anywhere_is_corrupt_and_the_error_names_file_and_offset():
    for length in range(len(GOOD)):
        with pytest.raises(CorruptFile) as caught:
            decode(SCHEMA, GOOD[:length], base_offset=1000)
        assert caught.value.path == "bad.log"
        assert 1000 <= caught.value.offset <= 1000 + length


def test_a_record_with_bytes_left_over_is_corrupt():
    with pytest.raises(CorruptFile, match="end of the record"):
        decode(SCHEMA, GOOD + b"\x00")


def test_every_byte_changed_to_every_value_gives_a_result_or_our_error():
    for at in range(len(GOOD)):
        for value in (0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF):
            changed = bytearray(GOOD)
            changed[at] = value
            with contextlib.suppress(LakedexError):
                decode(SCHEMA, bytes(changed)).validate(full=True)


def test_one_changed_byte_among_many_good_records_gives_a_result_or_our_error():
    copies = 60
    for at in range(len(GOOD)):
        for value in (1, 5, 0x80, 0xFF):
            data = np.frombuffer(GOOD * copies, np.uint8).copy()
            data[len(GOOD) * 31 + at] = value
            starts = np.arange(copies) * len(GOOD)
            with contextlib.suppress(LakedexError):
                decode_records(SCHEMA, data, starts, starts + len(GOOD), path="x")


@pytest.mark.parametrize("length", range(0, len(GOOD), 7))
def test_one_cut_record_among_many_good_ones_is_corrupt_within_its_own_bytes(length):
    data = np.frombuffer(GOOD * 30 + GOOD[:length] + GOOD * 30, np.uint8)
    ends = np.cumsum([len(GOOD)] * 30 + [length] + [len(GOOD)] * 30)
    starts = np.append(0, ends[:-1])
    with pytest.raises(CorruptFile) as caught:
        decode_records(SCHEMA, data, starts, ends, path="x")
    assert starts[30] <= caught.value.offset <= ends[30]


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=40), st.booleans())
def test_random_bytes_give_a_result_or_our_error(records, metadata):
    schema = METADATA_RECORD if metadata else SCHEMA
    ends = np.cumsum([len(record) for record in records])
    starts = ends - [len(record) for record in records]
    data = np.frombuffer(b"".join(records), np.uint8)
    with contextlib.suppress(LakedexError):
        decode_records(schema, data, starts, ends, path="x").validate(full=True)


BAD_VALUES = {
    "int over 32 bits": ("int", b"\xfe\xff\xff\xff\x1f"),
    "varint of eleven bytes": ("long", b"\xff" * 10 + b"\x01"),
    "varint over 64 bits": ("long", b"\xff" * 9 + b"\x02"),
    "varint without end": ("long", b"\x80" * 5),
    "boolean 2": ("boolean", b"\x02"),
    "negative length": ("string", b"\x01"),
    "huge length": ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "not UTF-8": ("string", b"\x04\xc3\x28"),
    "a surrogate": ("string", b"\x06\xed\xa0\x80"),
    "union branch over the end": (["null", "int"], b"\x04"),
    "union branch below zero": (["null", "int"], b"\x01"),
    "enum symbol over the end": ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02"),
    "enum without symbols": ({"type": "enum", "name": "e", "symbols": []}, b"\x00"),
    "huge array": ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "least count": ({"type": "array", "items": "long"}, b"\xff" * 9 + b"\x01" + b"\x00\x00"),
    "huge array of nulls": ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
    "block size over the end": ({"type": "array", "items": "int"}, b"\x01\x20\x02\x00"),
    "block size below zero": ({"type": "array", "items": "int"}, b"\x01\x01\x02\x00"),
    "array without end": ({"type": "array", "items": "int"}, b"\x02\x02"),
    "map key not UTF-8": ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\x00"),
    "decimal of too many digits": (
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
        b"\x04\x7f\xff",
    ),
    "decimal of 17 bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
        b"\x22\x01" + bytes(16),
    ),
    "decimal of 200 bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
        b"\x90\x03" + bytes(200),
    ),
    "time of day over a day": (
        {"type": "int", "logicalType": "time-millis"},
        b"\x80\xf0\xb2\xa4\x02",
    ),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_breaks_its_type_is_corrupt(name):
    node, data = BAD_VALUES[name]
    with pytest.raises(CorruptFile):
        decode(of_type(node), data)
    nested = of_type(
        ["null", {"type": "record", "name": "w", "fields": [{"name": "v", "type": node}]}]
    )
    with pytest.raises(CorruptFile):
        decode(nested, b"\x02" + data)


IN_ITEMS = [
    "int over 32 bits",
    "varint of eleven bytes",
    "varint without end",
    "boolean 2",
    "negative length",
    "huge length",
    "not UTF-8",
    "union branch over the end",
    "union branch below zero",
    "enum symbol over the end",
]


@pytest.mark.parametrize("name", IN_ITEMS)
@pytest.mark.parametrize("tail", [0, 500])
def test_a_bad_value_far_inside_a_long_array_is_found(name, tail):
    node, data = BAD_VALUES[name]
    fields = [{"name": "p", "type": "int"}, {"name": "v", "type": node}]
    item = {"type": "record", "name": "w", "fields": fields}
    count = io.BytesIO()
    fastavro.schemaless_writer(count, "long", 12_001 + tail)
    body = b"\x02\x00" * 12_000 + b"\x02" + data + b"\x02\x00" * tail + b"\x00"
    with pytest.raises(CorruptFile):
        decode(of_type({"type": "array", "items": item}), count.getvalue() + body)


def test_arrays_of_nothing_cannot_fill_the_memory_over_many_records():
    schema = of_type({"type": "array", "items": "null"})
    one = b"\x80\x89\x7a\x00"  # a million nulls
    data = np.frombuffer(one * 1000, np.uint8)
    starts = np.arange(1000) * len(one)
    begin = time.process_time()
    with pytest.raises(CorruptFile):
        decode_records(schema, data, starts, starts + len(one), path="x")
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("block", [b"\x02\x02", b"\x01\x02\x02"])
def test_a_million_blocks_of_one_item_take_bounded_time(block):
    data = block * (500_000 // len(block)) + b"\x00"
    begin = time.process_time()
    batch = decode(of_type({"type": "array", "items": "int"}), data)
    assert len(batch.column("v").to_pylist()[0]) == 500_000 // len(block)
    assert time.process_time() - begin < 5


def test_nested_arrays_full_of_counts_take_bounded_time():
    node: Any = "int"
    for _ in range(40):
        node = {"type": "array", "items": node}
    schema = of_type(node)
    for filler in (b"\x02", b"\x04", b"\x40", b"\x01", b"\x7e"):
        begin = time.process_time()
        with contextlib.suppress(LakedexError):
            decode(schema, filler * 20_000)
        assert time.process_time() - begin < 5


def test_a_wide_null_struct_cannot_blow_up_a_small_file():
    fields = [{"name": f"f{n}", "type": "long"} for n in range(5000)]
    schema = of_type(["null", {"type": "record", "name": "w", "fields": fields}])
    rows = 30_000
    data = np.concatenate(
        [np.zeros(rows - 1, np.uint8), np.array([2], np.uint8), np.zeros(5000, np.uint8)]
    )
    starts = np.arange(rows)
    ends = np.append(starts[1:], len(data))
    with pytest.raises(CorruptFile):
        decode_records(schema, data, starts, ends, path="x")


def test_records_out_of_order_or_outside_the_buffer_are_refused():
    data = np.zeros(10, np.uint8)
    for starts, ends in [([5, 0], [6, 1]), ([0], [11]), ([-1], [1]), ([0, 1], [2, 3]), ([0], [])]:
        with pytest.raises(InvalidInput):
            decode_records(of_type("int"), data, np.array(starts), np.array(ends), path="x")


def test_an_unknown_column_is_refused_by_name():
    with pytest.raises(InvalidInput, match="nope"):
        decode_records(
            SCHEMA, np.zeros(0, np.uint8), np.array([]), np.array([]), columns=["nope"], path="x"
        )


def test_bad_bytes_among_distinct_records_are_corrupt():
    values = pa.array([GOOD] * 5000 + [GOOD[:-1]], pa.binary())
    with pytest.raises(CorruptFile):
        decode_distinct(SCHEMA, values, path="x")
