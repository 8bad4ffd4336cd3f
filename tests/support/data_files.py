"""Base and log files of a data table, and the meta columns of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.format.bloom import BloomFilter
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    encode_avro_content,
    encode_block,
    encode_delete_content,
    encode_parquet_content,
)
from lakedex.format.parquet import write_base_file
from lakedex.keys.generator import EMPTY_TEXT, NULL_TEXT
from lakedex.schema import avro_schema

COMMIT_TIME, SEQUENCE, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
_META_FIELDS = [pa.field(name, pa.string()) for name in META_COLUMNS]
_BLOOM_ERROR_RATE = 1e-4
_PHANTOM_ROW_BYTES = 100


@dataclass(frozen=True)
class WrittenBase:
    """A base file on disk: its size, that of its column chunks, and its bloom filter's text."""

    size: int
    chunk_sizes: dict[str, tuple[int, int]]
    bloom: str


@dataclass(frozen=True)
class Deletes:
    """Record keys to delete, with ordering values where the deletes are conditional."""

    keys: pa.Array
    ordering: pa.Array | None = None

    def filter(self, mask: np.ndarray) -> Deletes:
        """Those of the deletes that the mask names."""
        chosen = pa.array(mask)
        ordering = None if self.ordering is None else self.ordering.filter(chosen)
        return Deletes(self.keys.filter(chosen), ordering)


class DataFileWriter:
    """Writes the files of one table; the schema is that of the user's columns."""

    def __init__(self, root: Path, name: str, schema: pa.Schema, compression: str) -> None:
        """Keep the schemas at hand in all forms."""
        self.root = root
        self.full_schema = pa.schema([*_META_FIELDS, *schema])
        self._compression = compression
        self._avro = avro_schema(self.full_schema, f"{name}_record", f"hoodie.{name}")
        self.schema_text = avro_schema(schema, f"{name}_record", f"hoodie.{name}").to_json()
        self._full_text = self._avro.to_json()

    def write_base(self, path: str, rows: pa.Table, *, phantom: bool) -> WrittenBase:
        """Write one base file; a phantom is not written but has a size all the same."""
        keys = rows[RECORD_KEY]
        if phantom:
            sizes = dict.fromkeys(rows.column_names, (_PHANTOM_ROW_BYTES, _PHANTOM_ROW_BYTES))
            return WrittenBase(_PHANTOM_ROW_BYTES * (len(rows) + 10), sizes, "")
        bloom = BloomFilter.create_simple(max(len(rows), 10), _BLOOM_ERROR_RATE)
        bloom.add(keys)
        bounds = pc.min_max(keys)
        target = self.root / path
        metadata = write_base_file(
            rows,
            str(target),
            avro_schema_text=self._full_text,
            bloom=bloom,
            min_key=bounds["min"].as_py(),
            max_key=bounds["max"].as_py(),
            compression=self._compression,
        )
        return WrittenBase(target.stat().st_size, _chunk_sizes(metadata), bloom.encode())

    def write_log(
        self, path: str, time: str, rows: pa.Table, deletes: Deletes, partition: str, block: str
    ) -> int:
        """Write one log file with a data block and a delete block, as far as there is content."""
        header = {HeaderKey.INSTANT_TIME: time, HeaderKey.SCHEMA: self._full_text}
        data = b""
        if len(rows) and block == "avro":
            content = encode_avro_content(self._avro, rows)
            data += encode_block(BlockKind.AVRO_DATA, header, content)
        elif len(rows):
            content = encode_parquet_content(rows, avro_schema_text=self._full_text)
            data += encode_block(BlockKind.PARQUET_DATA, header, content)
        if len(deletes.keys):
            places = pa.repeat(partition, len(deletes.keys))
            content = encode_delete_content(deletes.keys, places, deletes.ordering)
            data += encode_block(BlockKind.DELETE, header, content)
        (self.root / path).write_bytes(data)
        return len(data)

    def with_meta(
        self, rows: pa.Table, keys: pa.Array, partitions: pa.Array, time: str, task: pa.Array
    ) -> pa.Table:
        """Rows of user columns with the meta columns before them; file names are set later."""
        count = len(rows)
        numbers = pa.array(np.arange(count)).cast(pa.string())
        sequence = pc.binary_join_element_wise(time, task.cast(pa.string()), numbers, "_")
        times = pa.repeat(time, count)
        columns = [times, sequence, keys, partitions, pa.nulls(count, pa.string()), *rows.columns]
        return pa.Table.from_arrays(columns, schema=self.full_schema)


def set_file_names(rows: pa.Table, names: Sequence[str], numbers: np.ndarray) -> pa.Table:
    """The rows with `_hoodie_file_name` set to the name of each row's file."""
    column = pa.array(names, pa.string()).take(pa.array(numbers))
    return rows.set_column(META_COLUMNS.index(FILE_NAME), _META_FIELDS[-1], column)


def record_keys(rows: pa.Table, fields: Sequence[str], *, named: bool) -> pa.Array:
    """The record keys of rows: the value itself, or `field:value` parts if `named`."""
    if not named:
        return rows[fields[0]].cast(pa.string()).combine_chunks()
    parts = []
    for name in fields:
        text = pc.fill_null(rows[name].cast(pa.string()), NULL_TEXT)
        text = pc.if_else(pc.equal(text, ""), EMPTY_TEXT, text)
        parts.append(pc.binary_join_element_wise(name, text, ":"))
    return pc.binary_join_element_wise(*parts, ",").combine_chunks()


def _chunk_sizes(metadata: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    sizes: dict[str, tuple[int, int]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            packed, raw = sizes.get(chunk.path_in_schema, (0, 0))
            sizes[chunk.path_in_schema] = (
                packed + chunk.total_compressed_size,
                raw + chunk.total_uncompressed_size,
            )
    return sizes
