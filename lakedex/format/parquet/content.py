"""Reads a Parquet file that lies in memory, as the content of a log block."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.format.parquet.tail import PARQUET_ERRORS, read_metadata
from lakedex.storage.source import MemorySource

_MAX_GROWTH = 1000
_ALWAYS_ALLOWED_BYTES = 64 << 20


def read_parquet_bytes(
    data: bytes,
    columns: Sequence[str] | None = None,
    *,
    path: str = "<parquet>",
    base_offset: int = 0,
) -> pa.Table:
    """The rows of a Parquet file, all columns or the named ones that it has."""
    metadata = read_metadata(MemorySource(data, path, base_offset))
    try:
        _check_growth(metadata, len(data), path, base_offset)
        file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata)
        present = file.schema_arrow.names
        wanted = None if columns is None else [name for name in columns if name in present]
        table = file.read(columns=wanted, use_threads=False)
        table.validate(full=True)
    except PARQUET_ERRORS as error:
        expected = "readable Parquet data"
        raise CorruptFile(path, base_offset, expected=expected, actual=error) from error
    return table.replace_schema_metadata(None)


def _check_growth(metadata: pq.FileMetaData, size: int, path: str, base_offset: int) -> None:
    """Refuse a file that claims to unpack to absurdly more than its own size."""
    claimed = sum(
        metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)
    )
    if claimed > max(size * _MAX_GROWTH, _ALWAYS_ALLOWED_BYTES):
        expected = f"at most {_MAX_GROWTH} times the {size} bytes stored"
        raise CorruptFile(path, base_offset, expected=expected, actual=f"{claimed} bytes")
