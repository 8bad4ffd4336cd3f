"""Checksums of pages: whether the bytes of a Parquet file are those that were written.

A page header may hold a CRC-32 of the page's body as it is stored, and does in files of lakedex. No
value is unpacked, so that the columns that nobody asks for are soon checked, too.
"""

from __future__ import annotations

import zlib

from lakedex.errors import CorruptFile
from lakedex.format.parquet.pages import chunk_span, column_chunks, pages
from lakedex.format.parquet.tail import read_footer_bytes
from lakedex.format.parquet.thrift import number_of
from lakedex.storage.source import ByteSource

_STORED_SIZE, _CHECKSUM = 3, 4
_ALL_BITS = 0xFFFFFFFF


def check_pages(source: ByteSource) -> bool:
    """Hold every page of a file against its checksum; False when a page has none.

    Raises:
        CorruptFile: a page is not as it was written.
    """
    footer = read_footer_bytes(source)
    path = source.path
    chunks = column_chunks(footer, path, source.base_offset + source.size - len(footer))
    for start, end in map(chunk_span, chunks):
        if not 0 <= start <= end <= source.size:
            claimed = f"{start} to {end}"
            raise CorruptFile(path, 0, expected="a column chunk inside the file", actual=claimed)
        data = source.read(start, end - start)
        offset = source.base_offset + start
        for _, body, page in pages(data, 0, len(data), path, offset):
            if _CHECKSUM not in page:
                return False
            expected = number_of(page, _CHECKSUM) & _ALL_BITS
            found = zlib.crc32(memoryview(data)[body : body + number_of(page, _STORED_SIZE)])
            if found != expected:
                told = f"a page with the checksum {expected:08x}"
                raise CorruptFile(path, offset + body, expected=told, actual=f"{found:08x}")
    return True
