"""Files that a clean removed, taken out of every index that has entries of files.

It is a deltacommit of the clean's instant, completed before the clean itself. Indexes of records
are not touched: old versions of files have no entries there. Entries of expression indexes go from
the file groups of these indexes (case B67).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakedex.index.definition_files import load_definitions
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.change import Change
from lakedex.index.metadata_table.deltacommit import write_change
from lakedex.index.metadata_table.group_files import GroupFile
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.instants import (
    MetadataStore,
    NextTime,
    log_stat,
    require_version,
)
from lakedex.index.metadata_table.keys import (
    bloom_key,
    column_stats_key,
    column_stats_prefix,
    partition_id,
)
from lakedex.index.metadata_table.partitions import (
    PARTITION_STAT_MARK,
    Kind,
    MetadataPartition,
    metadata_partition,
)
from lakedex.index.metadata_table.records import files_change
from lakedex.storage.address import StorageAddress
from lakedex.timeline import Action, Instant, State, load_table_config

_OPERATION = "UPSERT_PREPPED"
_COLUMN_STATS = Kind.COLUMN_STATS.value
_BLOOM = "bloom_filters"
_Removed = Mapping[str, Sequence[str]]


def commit_removal(
    address: StorageAddress,
    instant: str,
    removed: _Removed,
    dropped: Sequence[str],
    *,
    next_time: NextTime,
    building: Mapping[str, IndexDefinition | None] | None = None,
) -> None:
    """Take files that are gone out of the metadata table; a second call changes nothing.

    The caller holds the table's lock, and the instant pends in the data table.

    Args:
        address: Where the data table lies.
        instant: The instant of the clean.
        removed: The names of the files, by partition path.
        dropped: Partitions that are gone altogether.
        next_time: Gives times that grow, for the completion.
        building: Partitions in the making, with their definitions.
    """
    table = address.open()
    config = load_table_config(table)
    if not config.metadata_enabled:
        return
    require_version(config)
    definitions = load_definitions(table, config)
    definitions |= {name: known for name, known in (building or {}).items() if known is not None}
    store = MetadataStore.open(address)
    known = store.timeline.find(instant)
    if known is not None and known.is_completed:
        return
    if known is not None:
        store.discard(instant, Action.DELTACOMMIT)
    stats = definitions.get(_COLUMN_STATS)
    columns = stats.source_fields if stats else ()
    store.begin(instant, Action.DELTACOMMIT)
    files: list[GroupFile] = []
    for name in dict.fromkeys((*config.metadata_partitions, *(building or ()))):
        described = metadata_partition(name)
        change = _change(described, removed, dropped, columns, definitions.get(name))
        if not change.is_empty:
            groups = store.shared_groups(name)
            files += write_change(store.storage, name, groups, instant, change)
    completed = Instant(instant, Action.DELTACOMMIT, State.COMPLETED, next_time())
    store.complete(completed, (log_stat(file, instant) for file in files), _OPERATION)


def _change(
    partition: MetadataPartition,
    removed: _Removed,
    dropped: Sequence[str],
    columns: Sequence[str],
    definition: IndexDefinition | None,
) -> Change:
    if partition.kind is Kind.FILES:
        return files_change({}, removed, dropped)
    keys: list[str] = []
    if partition.kind is Kind.COLUMN_STATS:
        keys = _statistics(removed, columns)
    elif partition.kind is Kind.PARTITION_STATS:
        keys = [column_stats_prefix(column, path) for column in columns for path in dropped]
    elif partition.kind is Kind.BLOOM_FILTERS:
        keys = _blooms(removed)
    elif partition.kind is Kind.EXPRESSION_INDEX and definition is not None:
        if definition.index_type == _BLOOM:
            keys = _blooms(removed)
        else:
            sources = definition.source_fields[:1]
            keys = _statistics(removed, sources)
            keys += [
                name_id(column) + name_id(PARTITION_STAT_MARK) + partition_id(path)
                for column in sources
                for path in dropped
            ]
    return Change(deletes=pa.array(keys, pa.string()))


def _statistics(removed: _Removed, columns: Sequence[str]) -> list[str]:
    return [
        column_stats_key(column, partition, name)
        for partition, names in removed.items()
        for name in names
        for column in columns
    ]


def _blooms(removed: _Removed) -> list[str]:
    return [
        bloom_key(partition, name)
        for partition, names in removed.items()
        for name in names
        if not name.startswith(".")
    ]
