"""The footer of a base file, which is read from its tail and checked, and Hudi's entries in it.

A Parquet file ends with `footer | int32 little-endian footer length | "PAR1"`. Only the tail is
read: for its metadata, a file consists of a magic and the footer.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, StorageError
from lakedex.format.bloom import BloomFilter
from lakedex.storage.source import ByteSource, check_range

BLOOM_FILTER = b"org.apache.hudi.bloomfilter"
BLOOM_TYPE_CODE = b"hoodie_bloom_filter_type_code"
MIN_RECORD_KEY = b"hoodie_min_record_key"
MAX_RECORD_KEY = b"hoodie_max_record_key"
AVRO_SCHEMA = b"parquet.avro.schema"
WRITER_MODEL = b"writer.model.name"
SPARK_VERSION = b"org.apache.spark.version"
"""Spark's entry for the calendar of the dates and times in the file."""
VECTOR_COLUMNS = b"hoodie.vector.columns"
"""The vectors among the columns: `e:VECTOR(4),d:VECTOR(2, DOUBLE)`."""


MAGIC = b"PAR1"
MAX_FOOTER_BYTES = 128 << 20
_LOOK_AHEAD_BYTES = 1 << 16
_TRAILER_BYTES = 8
_SMALLEST_FILE = 12

PARQUET_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError)
"""The exceptions of the Parquet library for invalid files."""
FooterInput: TypeAlias = str | os.PathLike[str] | pa.NativeFile | BinaryIO | ByteSource


def read_metadata(source: ByteSource) -> pq.FileMetaData:
    """Read the metadata of a Parquet file, from its footer only.

    The size of the footer limits the counts inside it, because every item takes at least a byte.
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
    """Read the footer, after checking its length against the size of the file."""
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


@dataclass(frozen=True)
class ParquetFooter:
    """The footer of a base file: schema, sizes, and Hudi's entries, all of which may be missing.

    `min_key` and `max_key` are bounds of the record keys.
    """

    path: str
    schema: pa.Schema
    row_count: int
    metadata: pq.FileMetaData
    entries: Mapping[bytes, bytes]

    @property
    def min_key(self) -> str | None:
        """The smallest record key."""
        return self._text(MIN_RECORD_KEY)

    @property
    def max_key(self) -> str | None:
        """The largest record key."""
        return self._text(MAX_RECORD_KEY)

    @property
    def avro_schema_text(self) -> str | None:
        """The Avro schema with which the file was written, if it is in the footer."""
        return self._text(AVRO_SCHEMA)

    @property
    def bloom_text(self) -> bytes | None:
        """The bloom filter of the record keys as base64 text."""
        return self.entries.get(BLOOM_FILTER)

    @property
    def bloom_type_code(self) -> str:
        """The type of the bloom filter; a missing entry means `SIMPLE`."""
        return self._text(BLOOM_TYPE_CODE) or "SIMPLE"

    @cached_property
    def bloom(self) -> BloomFilter | None:
        """The bloom filter of the record keys, decoded on first use."""
        text = self.bloom_text
        if text is None:
            return None
        return BloomFilter.decode(text, type_code=self.bloom_type_code, path=self.path)

    def _text(self, key: bytes) -> str | None:
        value = self.entries.get(key)
        try:
            return None if value is None else value.decode("utf-8")
        except UnicodeDecodeError as error:
            expected = f"UTF-8 text in footer entry {key.decode('ascii')}"
            raise CorruptFile(self.path, 0, expected=expected, actual=error.reason) from error


def read_footer(file: FooterInput, *, path: str | None = None) -> ParquetFooter:
    """Read the footer of a Parquet file: a path, an open file, or any source of bytes.

    `path` is the name in errors.
    """
    if isinstance(file, ByteSource):
        return _footer(file, path or file.path)
    name = path or (str(file) if isinstance(file, str | os.PathLike) else "<parquet>")
    try:
        if isinstance(file, str | os.PathLike):
            with open(file, "rb") as opened:  # noqa: PTH123 - a caller's path may be any PathLike
                return _footer(_OpenFile(opened, name), name)
        return _footer(_OpenFile(file, name), name)
    except FileNotFoundError as error:
        raise FileMissing(f"{name}: no such file") from error
    except (OSError, pa.ArrowException, io.UnsupportedOperation) as error:
        raise StorageError(f"{name}: {error}") from error


def _footer(source: ByteSource, path: str) -> ParquetFooter:
    metadata = read_metadata(source)
    try:
        schema = metadata.schema.to_arrow_schema()
        entries = dict(metadata.metadata or {})
        rows = int(metadata.num_rows)
    except PARQUET_ERRORS as error:
        raise CorruptFile(path, 0, expected="a readable Parquet schema", actual=error) from error
    if rows < 0:
        raise CorruptFile(path, source.size, expected="a row count", actual=rows)
    return ParquetFooter(path, schema.remove_metadata(), rows, metadata, entries)


class _OpenFile:
    """A source over an open, seekable file."""

    def __init__(self, file: pa.NativeFile | BinaryIO, path: str) -> None:
        self._file = file
        self.path = path
        self.base_offset = 0
        self.size = int(file.seek(0, io.SEEK_END))

    def read(self, start: int, length: int) -> bytes:
        check_range(self, start, length)
        self._file.seek(start)
        data = bytes(self._file.read(length))
        if len(data) != length:
            raise CorruptFile(self.path, start, expected=f"{length} bytes", actual=len(data))
        return data

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(start, length) for start, length in ranges]
