"""Footers and base files: Hudi's entries, physical types, hostile bytes."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakedex.errors import CorruptFile, FileMissing, InvalidInput, LakedexError
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import read_footer, read_parquet_bytes, write_base_file
from lakedex.storage.source import MemorySource


def _table() -> pa.Table:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    return pa.table(
        {
            "_hoodie_record_key": pa.array(["k1", "k2", "k3"]),
            "d10": pa.array([Decimal("1.5"), None, Decimal("-2")], pa.decimal128(10, 2)),
            "d25": pa.array([Decimal("1.5"), None, Decimal("-2")], pa.decimal128(25, 5)),
            "ts": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
            "local": pa.array([dt.datetime(2026, 1, 2), None, None], pa.timestamp("us")),
            "day": pa.array([dt.date(2026, 1, 2), None, None]),
            "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
        }
    )


def _written(bloom: BloomFilter | None = None, **options: str) -> bytes:
    sink = pa.BufferOutputStream()
    write_base_file(_table(), sink, avro_schema_text='{"x":1}', bloom=bloom, **options)
    return sink.getvalue().to_pybytes()


def test_written_entries_are_read_back():
    bloom = BloomFilter.create_dynamic(10, 0.01, 20)
    bloom.add(pa.array(["k1", "k2", "k3"]))
    data = _written(bloom, min_key="k1", max_key="k3")
    footer = read_footer(MemorySource(data, "f.parquet"))
    assert (footer.min_key, footer.max_key, footer.row_count) == ("k1", "k3", 3)
    assert footer.bloom_type_code == "DYNAMIC_V0"
    assert footer.bloom is not None
    assert footer.bloom.encode() == bloom.encode()
    assert footer.bloom is footer.bloom
    assert footer.avro_schema_text == '{"x":1}'
    assert footer.entries[b"writer.model.name"] == b"avro"
    assert set(footer.entries) == {
        b"org.apache.hudi.bloomfilter",
        b"hoodie_bloom_filter_type_code",
        b"hoodie_min_record_key",
        b"hoodie_max_record_key",
        b"parquet.avro.schema",
        b"writer.model.name",
        b"org.apache.spark.version",
    }


def test_files_name_a_spark_of_todays_calendar():
    # Spark compares the texts: from 3.0.0 on no date or time is shifted (case B7).
    footer = read_footer(MemorySource(_written()))
    assert footer.entries[b"org.apache.spark.version"].decode() >= "3.0.0"
    assert not any(b"legacy" in key for key in footer.entries)


def test_simple_filter_is_written_without_a_type_code():
    footer = read_footer(MemorySource(_written(BloomFilter.create_simple(10, 0.01))))
    assert b"hoodie_bloom_filter_type_code" not in footer.entries
    assert footer.bloom_type_code == "SIMPLE"
    assert footer.bloom is not None


def test_file_without_hudi_entries_has_none():
    sink = io.BytesIO()
    pq.write_table(_table(), sink)
    footer = read_footer(sink, path="plain.parquet")
    assert (footer.bloom, footer.min_key, footer.max_key) == (None, None, None)
    assert footer.schema.names == _table().column_names


def test_physical_types_are_those_of_hudi():
    schema = read_footer(MemorySource(_written())).metadata.schema
    columns = {schema.column(at).name: schema.column(at) for at in range(len(schema))}
    assert [(columns[name].physical_type, columns[name].length) for name in ("d10", "d25")] == [
        ("FIXED_LEN_BYTE_ARRAY", 5),
        ("FIXED_LEN_BYTE_ARRAY", 11),
    ]
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(columns["ts"].logical_type)
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(columns["local"].logical_type)
    assert columns["day"].physical_type == "INT32"


def test_rows_round_trip():
    table = read_parquet_bytes(_written())
    assert table.to_pylist() == _table().to_pylist()


def test_timestamps_that_microseconds_cannot_hold_are_refused():
    table = pa.table({"ts": pa.array([1], pa.timestamp("ns", "UTC"))})
    with pytest.raises(InvalidInput):
        write_base_file(table, pa.BufferOutputStream(), avro_schema_text="{}")


def test_every_kind_of_input_gives_the_same_footer(tmp_path):
    data = _written(BloomFilter.create_simple(100_000, 1e-6))
    assert len(data) > 1 << 17
    path = tmp_path / "f.parquet"
    path.write_bytes(data)
    inputs = [str(path), path, io.BytesIO(data), pa.BufferReader(data), MemorySource(data)]
    for opened in inputs:
        footer = read_footer(opened)
        assert footer.row_count == 3
        assert footer.bloom is not None


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileMissing, match=r"gone\.parquet"):
        read_footer(tmp_path / "gone.parquet")


def test_broken_bloom_text_fails_only_when_asked_for():
    table = _table().replace_schema_metadata({"org.apache.hudi.bloomfilter": "%%%"})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    footer = read_footer(sink, path="x.parquet")
    assert footer.row_count == 3
    with pytest.raises(CorruptFile, match=r"x\.parquet"):
        _ = footer.bloom


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"PAR1" + bytes(4) + b"PAR1",
        b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1",
        b"PAR1" + b"\x19" * 300 + b"\x2c\1\0\0" + b"PAR1",
        b"x" * 100_000,
    ],
)
def test_files_that_are_no_parquet_are_refused(data):
    with pytest.raises(CorruptFile):
        read_footer(MemorySource(data, "bad.parquet"))
    with pytest.raises(CorruptFile):
        read_footer(io.BytesIO(data), path="bad.parquet")


def test_every_truncation_and_bit_flip_gives_a_footer_or_an_error():
    data = _written(min_key="k1")
    for end in range(len(data)):
        with pytest.raises(CorruptFile):
            read_footer(MemorySource(data[:end]))
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        for read in (lambda one: read_footer(MemorySource(one)).min_key, read_parquet_bytes):
            try:
                read(damaged)
            except LakedexError:
                continue
