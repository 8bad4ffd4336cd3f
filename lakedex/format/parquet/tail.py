"""The end of a Parquet file, checked before it is handed to the Parquet library.

A Parquet file ends with `footer | int32 little-endian footer length | "PAR1"`. Only the tail is
read: the footer in front of which a magic is put is a file as far as its metadata goes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.storage.source import ByteSource

MAGIC = b"PAR1"
MAX_FOOTER_BYTES = 128 << 20
_LOOK_AHEAD_BYTES = 1 << 16
_TRAILER_BYTES = 8
_SMALLEST_FILE = 12

PARQUET_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError)
"""What the Parquet library raises on bytes that are no Parquet file."""


def read_metadata(source: ByteSource) -> pq.FileMetaData:
    """The metadata of a Parquet file, from its footer alone.

    Counts inside the footer are limited by its size, since every item takes at least a byte.
    """
    footer = read_footer_bytes(source)
    limit = max(len(footer), 1)
    file = pa.BufferReader(b"".join([MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC]))
    try:
        return pq.ParquetFile(
            file, thrift_string_size_limit=limit, thrift_container_size_limit=limit
        ).metadata
    except PARQUET_ERRORS as error:
        raise _corrupt(source, source.size, "a Parquet footer", error) from error


def read_footer_bytes(source: ByteSource) -> bytes:
    """The bytes of the footer, after its length is checked against the size of the file."""
    size = source.size
    if size < _SMALLEST_FILE:
        raise _corrupt(source, 0, "a Parquet file", f"{size} bytes")
    tail = source.read(size - min(size, _LOOK_AHEAD_BYTES), min(size, _LOOK_AHEAD_BYTES))
    if not tail.endswith(MAGIC):
        raise _corrupt(source, size - len(MAGIC), "the magic PAR1", tail[-len(MAGIC) :])
    length = int.from_bytes(tail[-_TRAILER_BYTES : -len(MAGIC)], "little")
    if length > min(size - _SMALLEST_FILE, MAX_FOOTER_BYTES):
        raise _corrupt(source, size - _TRAILER_BYTES, "a footer that fits in the file", length)
    start = size - _TRAILER_BYTES - length
    missing = len(tail) - _TRAILER_BYTES - length
    if missing >= 0:
        return tail[missing:-_TRAILER_BYTES]
    return source.read(start, -missing) + tail[:-_TRAILER_BYTES]


def _corrupt(source: ByteSource, at: int, expected: str, actual: object) -> CorruptFile:
    return CorruptFile(source.path, source.base_offset + at, expected=expected, actual=actual)
