"""The metadata table's records: byte patterns of real tables, repetition, real log blocks."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from lakedex.format.avro import (
    METADATA_RECORD,
    METADATA_RECORD_SCHEMA,
    METADATA_RECORD_SCHEMA_WITHOUT_META,
    decode_distinct,
    decode_records,
    encode_distinct,
    encode_records,
)
from lakedex.format.avro import distinct as distinct_module
from lakedex.schema import arrow_schema, parse_avro_record

TARGET = arrow_schema(METADATA_RECORD)


def test_the_schema_text_is_hudis_and_survives_parsing():
    assert len(METADATA_RECORD_SCHEMA) == 4684
    assert METADATA_RECORD.to_json() == METADATA_RECORD_SCHEMA
    bare = parse_avro_record(METADATA_RECORD_SCHEMA_WITHOUT_META)
    assert [item.name for item in bare.fields][:2] == ["key", "type"]
    assert bare.to_json() == METADATA_RECORD_SCHEMA_WITHOUT_META


def test_a_secondary_index_record_has_hudis_bytes():
    batch = pa.record_batch(
        {
            "key": pa.array([""]),
            "type": pa.array([7], pa.int32()),
            "SecondaryIndexMetadata": pa.array([{"isDeleted": False}]),
        }
    )
    assert encode_records(METADATA_RECORD, batch).data.tobytes() == bytes.fromhex(
        "0000000000 00 0e 00 00 00 00 02 00"
    )


def test_a_list_of_partitions_has_hudis_bytes():
    files = TARGET.field("filesystemMetadata").type
    batch = pa.record_batch(
        {
            "key": pa.array([""]),
            "type": pa.array([1], pa.int32()),
            "filesystemMetadata": pa.array(
                [[("state=texas", {"size": 0, "isDeleted": False})]], files
            ),
        }
    )
    expected = "0000000000 00 02 02 02 16 73746174653d7465786173 00 00 00 00 00 00 00"
    assert encode_records(METADATA_RECORD, batch).data.tobytes() == bytes.fromhex(expected)


def index_batch(rows: int, kinds: int) -> pa.RecordBatch:
    group = np.arange(rows) * 7919 % kinds
    info = TARGET.field("recordIndexMetadata").type
    partitions = pa.array([None if n % 5 == 0 else f"p={n}" for n in range(kinds)], pa.string())
    zeros = pa.array(np.zeros(rows, np.int32))
    empty = pa.array([""]).take(zeros)
    columns = [
        partitions.take(pa.array(group)),
        pa.array(group * -(2**50)),
        pa.array(group * 2**50 + 1),
        zeros,
        empty,
        pa.array(1794767405287 + group),
        zeros,
        pa.nulls(rows, pa.int64()),
    ]
    struct_array = pa.StructArray.from_arrays(
        columns, fields=list(info), mask=pa.array(group % 11 == 10)
    )
    kind = pa.array(np.full(rows, 5, np.int32))
    return pa.record_batch({"key": empty, "type": kind, "recordIndexMetadata": struct_array})


@pytest.mark.parametrize(("rows", "kinds"), [(3, 2), (600, 5), (10_000, 40), (5000, 5000)])
def test_records_that_repeat_give_the_same_as_one_by_one(rows, kinds):
    batch = index_batch(rows, kinds)
    once, each = encode_distinct(METADATA_RECORD, batch), encode_records(METADATA_RECORD, batch)
    assert once.data.tobytes() == each.data.tobytes()
    assert once.offsets.tolist() == each.offsets.tolist()
    values = once.as_binary()
    decoded = decode_distinct(METADATA_RECORD, values, path="x")
    plain = decode_records(
        METADATA_RECORD, each.data, each.offsets[:-1], each.offsets[1:], path="x"
    )
    assert decoded.equals(plain)
    assert decoded.select(batch.schema.names).to_pylist() == batch.to_pylist()
    as_binary = values.cast(pa.binary()).slice(1)
    assert (
        decode_distinct(METADATA_RECORD, as_binary, columns=["type"], path="x").num_rows == rows - 1
    )
    assert decode_distinct(METADATA_RECORD, as_binary, columns=[], path="x").num_rows == rows - 1


def test_rows_with_lists_are_encoded_without_the_shortcut():
    files = TARGET.field("filesystemMetadata").type
    one = [("f.parquet", {"size": 5, "isDeleted": False})]
    batch = pa.record_batch(
        {
            "key": pa.array([""] * 1000),
            "type": pa.array([2] * 1000, pa.int32()),
            "filesystemMetadata": pa.array([one] * 1000, files),
        }
    )
    encoded = encode_distinct(METADATA_RECORD, batch)
    assert encoded.data.tobytes() == encode_records(METADATA_RECORD, batch).data.tobytes()


def test_minus_zero_and_zero_are_different_rows():
    schema = parse_avro_record(
        '{"type":"record","name":"r","fields":[{"name":"d","type":"double"}]}'
    )
    values = pa.array([0.0, -0.0] * 1000)
    encoded = encode_distinct(schema, pa.record_batch({"d": values}))
    assert encoded.data.tobytes() == values.to_numpy().tobytes()
    assert distinct_module._row_codes([values], 2000)[1].tolist() == [0, 1]


def log_blocks(data: bytes) -> Iterator[tuple[int, dict[int, str], bytes]]:
    """Type, header and content of each block of a log file."""
    at = 0
    while at < len(data):
        _, _, kind, entries = struct.unpack_from(">qiii", data, at + 6)
        at += 26
        header = {}
        for _ in range(entries):
            key, size = struct.unpack_from(">ii", data, at)
            header[key] = data[at + 8 : at + 8 + size].decode()
            at += 8 + size
        (size,) = struct.unpack_from(">q", data, at)
        content = data[at + 8 : at + 8 + size]
        at += 8 + size + 4 + 8
        yield kind, header, content


def avro_blocks(table: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(Path(table).rglob(".*.log.*")):
        for kind, header, content in log_blocks(path.read_bytes()):
            if kind == 3:
                yield header[2], content


@pytest.mark.parametrize(
    "name", ["mor_nonpartitioned", "mor_trips_all_indexes", "schema_evolution", "v6_mor", "v8_mor"]
)
def test_log_blocks_of_real_tables_decode_as_fastavro_reads_them(golden, name):
    blocks = list(avro_blocks(golden(name).path))
    assert blocks
    for text, content in blocks:
        version, count = struct.unpack_from(">ii", content)
        assert version == 3
        starts, at = [], 8
        for _ in range(count):
            (size,) = struct.unpack_from(">i", content, at)
            starts.append((at + 4, at + 4 + size))
            at += 4 + size
        bounds = np.array(starts)
        schema = parse_avro_record(text)
        raw = np.frombuffer(content, np.uint8)
        batch = decode_records(schema, raw, bounds[:, 0], bounds[:, 1], path="x")
        batch.validate(full=True)
        judge = fastavro.parse_schema(json.loads(text))
        expected = [
            fastavro.schemaless_reader(io.BytesIO(content[low:high]), judge) for low, high in starts
        ]
        found = batch.to_pylist(maps_as_pydicts="strict")
        assert found == expected
        encoded = encode_records(schema, batch)
        assert encoded.data.tobytes() == b"".join(content[low:high] for low, high in starts)
