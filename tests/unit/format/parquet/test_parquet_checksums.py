"""Checksums of pages: a byte that was changed is found in whichever column it lies."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakedex.errors import CorruptFile
from lakedex.format.parquet import write_base_file
from lakedex.format.parquet.footer import read_footer_bytes
from lakedex.format.parquet.pages import check_pages, chunk_span, column_chunks, number_of, pages
from lakedex.storage.source import MemorySource

TABLE = pa.table(
    {
        "_hoodie_record_key": [f"k{n}" for n in range(300)],
        "n": list(range(300)),
        "twice": [n % 7 for n in range(300)],
        "parts": [[n, n + 1] for n in range(300)],
    }
)


def written(compression: str, table: pa.Table = TABLE) -> bytes:
    sink = pa.BufferOutputStream()
    write_base_file(table, sink, avro_schema_text="{}", compression=compression)
    return sink.getvalue().to_pybytes()


def bodies(data: bytes) -> list[tuple[int, int]]:
    footer = read_footer_bytes(MemorySource(data))
    return [
        (body, body + number_of(page, 3))
        for start, end in map(chunk_span, column_chunks(footer, "x", 0))
        for _, body, page in pages(data, start, end, "x", 0)
    ]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "none"])
def test_a_changed_byte_is_found_in_every_page(compression):
    data = written(compression)
    assert check_pages(MemorySource(data))
    assert pq.read_table(pa.BufferReader(data), page_checksum_verification=True).equals(TABLE)
    spans = bodies(data)
    assert len(spans) > len(TABLE.column_names)
    for start, stop in spans:
        for at in {start, (start + stop) // 2, stop - 1}:
            damaged = bytearray(data)
            damaged[at] ^= 0x40
            with pytest.raises(CorruptFile, match=f"offset {start}: expected a page with the"):
                check_pages(MemorySource(bytes(damaged)))


def test_a_file_without_rows_has_dictionaries_only():
    check_pages(MemorySource(written("gzip", TABLE.slice(0, 0))))


def test_a_file_without_checksums_is_passed_over():
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    assert not check_pages(MemorySource(sink.getvalue().to_pybytes()))


@pytest.mark.parametrize("length", [0, 11, 400])
def test_half_a_file_is_an_error(length):
    with pytest.raises(CorruptFile):
        check_pages(MemorySource(written("gzip")[:length]))
