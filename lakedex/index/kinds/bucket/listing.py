"""The bucket index of a table for SHOW INDEXES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakedex.config.bucket_options import BucketEngineType, BucketProperties
from lakedex.errors import LakedexError
from lakedex.index.catalog import IndexInfo
from lakedex.index.contract import StoredTable
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER
from lakedex.index.kinds.bucket.lookup import NAME
from lakedex.index.kinds.bucket.presence import shown_engine
from lakedex.index.kinds.bucket.table import (
    BucketSource,
    BucketTable,
    bucket_counts,
    load_bucket_table,
)


def list_bucket_index(table: StoredTable) -> list[IndexInfo]:
    """The bucket index of a table, if it has one."""
    try:
        slices, kept = table.slices(), table.own()
        shown = shown_engine(table.storage, table.config, table.timeline, slices, table.own)
        stated = BucketProperties.of(kept)
    except LakedexError:
        return []  # what is damaged is named where it is read
    if shown is None and not stated.is_bucket:
        return []
    engine = stated.engine or shown or BucketEngineType.SIMPLE
    info = IndexInfo(NAME, NAME, (), "", "live", len(slices), 0, index_type=engine.value.lower())
    try:
        size_bytes = sum(each.size_bytes for each in table.storage.list_recursive(FOLDER))
        source = BucketSource(table.read(), table.timeline, table.slices, kept)
        found = load_bucket_table(source, shown)
        detail = _detail(found, bucket_counts(found, slices.partitions))
    except LakedexError as error:
        return [replace(info, problem=str(error))]
    columns = found.options.fields
    return [replace(info, columns=columns, size_bytes=size_bytes, detail=detail)]


def _detail(found: BucketTable, counts: Mapping[str, int]) -> str:
    """The engine, and how many buckets the partitions have.

    Example:
        >>> from lakedex.config.bucket_options import BucketOptions
        >>> options = BucketOptions(BucketEngineType.SIMPLE, 4, ("id",))
        >>> _detail(BucketTable(options, None, ""), {"eu": 4, "us": 8})
        'SIMPLE, 12 buckets in 2 partitions'
    """
    engine = found.options.engine.value
    if not counts:
        return f"{engine}, {found.options.count} buckets in each partition"
    if len(counts) == 1:
        return f"{engine}, {sum(counts.values())} buckets"
    return f"{engine}, {sum(counts.values())} buckets in {len(counts)} partitions"
