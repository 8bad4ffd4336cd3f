"""Contents of data and delete blocks: exact bytes, round trips, damage."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.format.hfile import write_hfile
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    LogBlock,
    decode_avro_block,
    decode_delete_block,
    decode_parquet_block,
    encode_avro_content,
    encode_block,
    encode_delete_content,
    encode_parquet_content,
    hfile_of,
    read_blocks,
)
from lakedex.schema import avro_schema, parse_avro_record
from lakedex.storage.source import MemorySource

SCHEMA_TEXT = (
    '{"type":"record","name":"r","fields":[{"name":"k","type":["null","string"]},'
    '{"name":"n","type":["null","long"]},{"name":"x","type":"double"}]}'
)


def _block(kind: BlockKind, content: bytes, schema: str = SCHEMA_TEXT) -> LogBlock:
    header = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: schema}
    [block] = read_blocks(MemorySource(encode_block(kind, header, content), "t/log"))
    return block


def _batch(count: int) -> pa.RecordBatch:
    numbers = np.arange(count)
    schema = pa.schema(
        [("k", pa.string()), ("n", pa.int64()), pa.field("x", pa.float64(), nullable=False)]
    )
    names = [None if number % 7 == 3 else f"key-{number * number}" for number in range(count)]
    return pa.RecordBatch.from_arrays(
        [pa.array(names, pa.string()), pa.array(numbers * 1_000_003), pa.array(numbers / 3)],
        schema=schema,
    )


@pytest.mark.parametrize("kind", [BlockKind.AVRO_DATA, BlockKind.CDC_DATA])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 5000])
def test_avro_records_round_trip(kind, count):
    content = encode_avro_content(parse_avro_record(SCHEMA_TEXT), _batch(count))
    assert struct.unpack_from(">ii", content) == (3, count)
    found = decode_avro_block(_block(kind, content))
    assert found.to_pylist() == _batch(count).to_pylist()


def test_only_the_wanted_columns_that_the_block_has_are_decoded():
    content = encode_avro_content(parse_avro_record(SCHEMA_TEXT), _batch(5))
    found = decode_avro_block(_block(BlockKind.AVRO_DATA, content), columns=["n", "later"])
    assert found.schema.names == ["n"]


def _avro_content(version: int, count: int, *records: bytes) -> bytes:
    body = b"".join(struct.pack(">i", len(record)) + record for record in records)
    return struct.pack(">ii", version, count) + body


RECORD = bytes.fromhex("02026b" + "0202" + "0000000000000000")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_block_versions_with_the_same_layout_are_read(version):
    found = decode_avro_block(_block(BlockKind.AVRO_DATA, _avro_content(version, 1, RECORD)))
    assert found.to_pylist() == [{"k": "k", "n": 1, "x": 0.0}]


@pytest.mark.parametrize("version", [0, 4, -1])
def test_other_avro_block_versions_are_refused_by_name(version):
    with pytest.raises(UnsupportedFeature, match=f"version {version}"):
        decode_avro_block(_block(BlockKind.AVRO_DATA, _avro_content(version, 1, RECORD)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0\3",
        _avro_content(3, 2, RECORD),
        _avro_content(3, 0, RECORD),
        _avro_content(3, -1, RECORD),
        _avro_content(3, 2**31 - 1, RECORD),
        _avro_content(3, 1, RECORD) + b"x",
        _avro_content(3, 1, RECORD[:-1]),
        _avro_content(3, 1, RECORD + b"x"),
        struct.pack(">iii", 3, 1, -5) + RECORD,
        struct.pack(">iii", 3, 1, 2**31 - 1) + RECORD,
    ],
)
def test_damaged_avro_blocks_are_refused(content):
    with pytest.raises(CorruptFile):
        decode_avro_block(_block(BlockKind.AVRO_DATA, content))


def test_damaged_schema_in_the_header_is_refused():
    content = _avro_content(3, 1, RECORD)
    for schema in ("", "{", '"string"', "[]", '{"type":"record","name":"r"}'):
        with pytest.raises(LakedexError):
            decode_avro_block(_block(BlockKind.AVRO_DATA, content, schema))


def test_a_block_of_another_kind_is_refused():
    block = _block(BlockKind.DELETE, b"")
    for decode in (decode_avro_block, hfile_of, decode_parquet_block):
        with pytest.raises(InvalidInput, match="DELETE"):
            decode(block)


def test_hfile_block_is_read_in_place():
    keys, values = pa.array([b"a", b"b"], pa.binary()), pa.array([b"1", b"2"], pa.binary())
    reader = hfile_of(_block(BlockKind.HFILE_DATA, write_hfile(keys, values)))
    assert reader.scan().values.to_pylist() == [b"1", b"2"]


def test_parquet_block_round_trips():
    table = pa.Table.from_batches([_batch(20)])
    content = encode_parquet_content(table, avro_schema_text=SCHEMA_TEXT)
    block = _block(BlockKind.PARQUET_DATA, content)
    assert decode_parquet_block(block).to_pylist() == table.to_pylist()
    assert decode_parquet_block(block, ["x", "later"]).column_names == ["x"]


def test_damaged_parquet_blocks_are_refused():
    table = pa.Table.from_batches([_batch(3)])
    content = encode_parquet_content(table, avro_schema_text="{}", compression="none")
    for end in range(0, len(content), 7):
        with pytest.raises(CorruptFile):
            decode_parquet_block(_block(BlockKind.PARQUET_DATA, content[:end]))
    for at in range(len(content)):
        damaged = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
        try:
            found = decode_parquet_block(_block(BlockKind.PARQUET_DATA, damaged))
        except LakedexError:
            continue
        assert isinstance(found, pa.Table)


def test_every_damage_to_an_avro_block_gives_records_or_an_error():
    content = encode_avro_content(parse_avro_record(SCHEMA_TEXT), _batch(70))
    variants = [content[:end] for end in range(0, len(content), 3)]
    variants += [
        content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
        for at in range(len(content))
    ]
    for variant in variants:
        try:
            found = decode_avro_block(_block(BlockKind.AVRO_DATA, variant))
        except LakedexError:
            continue
        assert found.num_rows == 70


@given(st.lists(st.tuples(st.text(max_size=6), st.integers(-(2**63), 2**63 - 1)), max_size=90))
def test_any_records_round_trip(rows):
    table = pa.table({"s": [row[0] for row in rows], "n": [row[1] for row in rows]})
    table = table.cast(pa.schema([("s", pa.string()), ("n", pa.int64())]))
    schema = avro_schema(table.schema, "r", "n")
    block = _block(BlockKind.AVRO_DATA, encode_avro_content(schema, table), schema.to_json())
    assert decode_avro_block(block).to_pylist() == table.to_pylist()


def test_ordering_types_have_a_wrapper_each():
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    columns = [
        pa.array([True]),
        pa.array([7], pa.int32()),
        pa.array([7], pa.int64()),
        pa.array([0.5], pa.float32()),
        pa.array([0.5], pa.float64()),
        pa.array([b"\0b"]),
        pa.array(["s"]),
        pa.array([dt.date(2026, 1, 2)]),
        pa.array([Decimal("12.5")], pa.decimal128(10, 2)),
        pa.array([dt.time(1, 2, 3)], pa.time64("us")),
        pa.array([moment], pa.timestamp("us", "UTC")),
    ]
    for branch, column in enumerate(columns, start=1):
        content = encode_delete_content(pa.array(["k"]), pa.array(["p"]), column)
        assert content[8 + 1 + 6] == 2 * branch
        found = decode_delete_block(_block(BlockKind.DELETE, content)).ordering_values()
        assert found.unconditional.tolist() == [False]
        assert found.values is not None
        assert found.values.to_pylist() == column.to_pylist()
