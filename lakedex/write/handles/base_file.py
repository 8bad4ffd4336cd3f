"""The bytes of a base file, with the footer that Hudi expects."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import write_base_file
from lakedex.schema.field_paths import flat
from lakedex.write.facts import TableFacts
from lakedex.write.handles.incoming import without_meta_values
from lakedex.write.handles.key_bounds import key_bounds
from lakedex.write.handles.work import ColumnSizes
from lakedex.write.rows import KEY

_LEAST_BLOOM_ENTRIES = 10


@dataclass(frozen=True)
class BaseBytes:
    """A base file before it is put into the table."""

    data: bytes
    bloom_type: str
    bloom_text: str
    """Empty, as the type is, where the footer has no filter."""
    sizes: ColumnSizes


def encode_base_file(facts: TableFacts, rows: pa.Table) -> BaseBytes:
    """The base file with these rows; equal rows give equal bytes.

    Without meta columns the footer has neither a bloom filter nor key bounds, as in Hudi.
    """
    rows = facts.in_file(rows)
    if not facts.config.populate_meta_fields:
        return _encoded(facts, without_meta_values(rows))
    keys = flat(rows[KEY])
    # A filter made for fewer keys than it gets would answer yes too often.
    entries = max(facts.bloom_entries or 0, len(keys), _LEAST_BLOOM_ENTRIES)
    bloom = BloomFilter.create_simple(entries, facts.bloom_error_rate)
    bloom.add(keys)
    return _encoded(facts, rows, bloom, key_bounds(keys))


def _encoded(
    facts: TableFacts,
    rows: pa.Table,
    bloom: BloomFilter | None = None,
    bounds: tuple[str | None, str | None] = (None, None),
) -> BaseBytes:
    sink = pa.BufferOutputStream()
    metadata = write_base_file(
        rows,
        sink,
        avro_schema_text=facts.schema_text,
        bloom=bloom,
        min_key=bounds[0],
        max_key=bounds[1],
        compression=facts.compression,
    )
    data = sink.getvalue().to_pybytes()
    sizes = _column_sizes(metadata, rows.schema, facts.stat_columns)
    if bloom is None:
        return BaseBytes(data, "", "", sizes)
    return BaseBytes(data, bloom.type_code, bloom.encode(), sizes)


def _column_sizes(
    metadata: pq.FileMetaData, schema: pa.Schema, wanted: tuple[str, ...]
) -> ColumnSizes:
    """The bytes of the wanted columns; those of a nested one are the sum of its leaves."""
    sizes: dict[str, tuple[int, int]] = {}
    end = 0
    leaves = {}
    for field in schema:
        start, end = end, end + _leaf_count(field.type)
        leaves[field.name] = range(start, end)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for name in wanted:
        chunks = [group.column(leaf) for group in groups for leaf in leaves[name]]
        sizes[name] = (
            sum(chunk.total_compressed_size for chunk in chunks),
            sum(chunk.total_uncompressed_size for chunk in chunks),
        )
    return sizes


def _leaf_count(data_type: pa.DataType) -> int:
    if not pa.types.is_nested(data_type):
        return 1
    return sum(_leaf_count(data_type.field(n).type) for n in range(data_type.num_fields))
