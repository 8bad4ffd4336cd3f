"""Parquet files in memory that claim, or really hold, far more than their own size."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakedex.errors import CorruptFile
from lakedex.format.parquet import read_parquet_bytes
from lakedex.format.parquet.pages import ThriftCursor


def written(table: pa.Table, *, times: int = 1, compression: str = "none") -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink, table.schema, compression=compression, store_schema=False
    ) as writer:
        for _ in range(times):
            writer.write_table(table)
    return sink.getvalue()


def one_text(size: int, rows: int) -> pa.Table:
    return pa.table({"s": pa.array(["x" * size]).dictionary_encode().take([0] * rows)})


def test_equal_numbers_that_unpack_to_a_gibibyte_are_refused():
    data = written(pa.table({"n": np.zeros(1 << 20, np.int64)}), times=128)
    with pytest.raises(CorruptFile, match="bytes of rows in a file"):
        read_parquet_bytes(data, path="x")


def test_one_long_text_that_many_rows_point_to_is_refused():
    with pytest.raises(CorruptFile, match="bytes of rows in a file"):
        read_parquet_bytes(written(one_text(1 << 16, 100_000)), path="x")


@pytest.mark.parametrize("nested", [False, True])
def test_a_large_dictionary_whose_values_are_each_used_once_is_read(nested):
    texts = pa.array([f"{number:01000}" for number in range(3000)])
    column = pa.ListArray.from_arrays(np.arange(3001, dtype=np.int32), texts) if nested else texts
    table = pa.table({"c": column})
    assert read_parquet_bytes(written(table), path="x").equals(table)


def test_only_the_columns_asked_for_are_weighed():
    bomb = one_text(1 << 16, 100_000).append_column("n", pa.array(np.arange(100_000)))
    assert read_parquet_bytes(written(bomb), ["n"], path="x").num_rows == 100_000


@pytest.mark.parametrize("claimed", [2**31 - 1, 1 << 28])
def test_a_dictionary_page_that_claims_more_values_than_it_has_bytes_is_refused(claimed):
    data = written(one_text(3, 5))
    at = data.index(bytes.fromhex("4c1502"))  # the dictionary header: one value
    number = claimed << 1
    varint = bytes(
        (number >> shift) & 0x7F | (0x80 if shift < 28 else 0) for shift in range(0, 35, 7)
    )
    damaged = data[: at + 2] + varint + data[at + 3 :]
    with pytest.raises(CorruptFile, match="values in the page") as caught:
        read_parquet_bytes(damaged, path="x", base_offset=100)
    assert caught.value.offset == 104


def test_a_deep_thrift_structure_is_refused():
    data = b"\x1c" * 1000
    with pytest.raises(CorruptFile, match="levels"):
        ThriftCursor(data, 0, len(data), "x").struct()
