"""Which file group of an index a key lies in, for keys of any kind of index."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table import Kind, MetadataTable, metadata_partition
from lakedex.index.metadata_table.hashing import Int32s, shards_of
from lakedex.index.metadata_table.keys import placed_values_of_secondary


def find_records(
    metadata: MetadataTable, partition: str, definition: IndexDefinition | None, keys: pa.Array
) -> pa.Table:
    """The records of the given keys, read from nothing but the blocks that may hold them."""
    kind = metadata_partition(partition).kind
    groups = [group.file_id for group in metadata.groups(partition)]
    if kind is Kind.RECORD_INDEX and definition is not None and definition.is_partitioned:
        parts = [metadata.lookup_in(partition, file_id, keys) for file_id in groups]
        return pa.concat_tables(parts) if parts else metadata.lookup(partition, keys)
    shards = None
    by_value = definition is not None and definition.is_placed_by_value
    if kind is Kind.SECONDARY_INDEX and by_value and groups:
        columns = len(definition.source_fields) if definition is not None else 1
        values = placed_values_of_secondary(keys, max(1, columns))
        shards = shards_of(pc.coalesce(values, keys), len(groups))
    return metadata.lookup(partition, keys, shards)


def key_shards(
    definitions: Callable[[], Mapping[str, IndexDefinition] | None],
    partition: str,
    keys: pa.Array,
    count: int,
) -> Int32s | None:
    """The file groups, among `count`, of keys of an index whose groups share no key.

    None where other indexes are asked about, or the definition is not there to tell.
    """
    kind = metadata_partition(partition).kind
    found = definitions() if kind in (Kind.RECORD_INDEX, Kind.SECONDARY_INDEX) else None
    definition = None if found is None else found.get(partition)
    if found is None or (definition is None and kind is Kind.SECONDARY_INDEX):
        return None
    if definition is not None and kind is Kind.RECORD_INDEX and definition.is_partitioned:
        return None
    if definition is not None and definition.is_placed_by_value:
        values = placed_values_of_secondary(keys, max(1, len(definition.source_fields)))
        return None if values.null_count else shards_of(values, count)
    return shards_of(keys, count)
