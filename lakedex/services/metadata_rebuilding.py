"""Builds the metadata table again after it had to be given up, with the indexes that it had."""

from __future__ import annotations

import logging
from collections.abc import Collection

from lakedex.config import TableConfig
from lakedex.config.write_options import WriteOptions
from lakedex.engine import Engine
from lakedex.errors import UnsupportedFeature
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.resharding import forget_resharding
from lakedex.index.registry import find_metadata_kind, is_named_index, reshardable_indexes
from lakedex.schema.field_paths import column_at
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.metadata_rollback import GIVEN_UP, drop_metadata
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.working_folders import Scratch
from lakedex.write.context import WriteContext
from lakedex.write.metadata_build import ensure_metadata
from lakedex.write.metadata_plan import RECORD_INDEX, plan_metadata
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema
from lakedex.write.write_target import locked

log = logging.getLogger("lakedex")


def rebuild_metadata(
    address: StorageAddress, engine: Engine, before: TableConfig, table: LockedTable
) -> tuple[str, ...]:
    """Build what a table had and has no more; answer the names. The lock is held.

    Should this be cut short, the next write does the same.
    """
    storage = address.open()
    snapshot = Snapshot.open(storage)
    if snapshot.config.metadata_enabled or not before.metadata_enabled:
        return ()
    kept = read_own_properties(storage)
    definition = snapshot.definitions.get(RECORD_INDEX)
    partitioned = None if definition is None else definition.is_partitioned
    options = WriteOptions.resolve(snapshot.config, kept, {}, record_index_partitioned=partitioned)
    columns = StoredSchema.of(snapshot).columns
    named = _buildable(snapshot, before, columns.names)
    plan = plan_metadata(snapshot, options.metadata, columns, rows=0, new_indexes=named)
    with Scratch(address) as scratch:
        facts = WriteContext(
            address=address,
            config=snapshot.config,
            schema=snapshot.schema,
            schema_text="",
            instant="",
            committed=CommittedInstants.of(snapshot.timeline),
            scratch=scratch.path,
        )
        for name in reshardable_indexes():
            forget_resharding(address, name)
        ensure_metadata(engine, facts, snapshot, plan, next_time=table.next_time)
    write_own_properties(storage, {name: kept[name] for name in kept if name != GIVEN_UP})
    return tuple(sorted(plan.wanted))


def _buildable(
    snapshot: Snapshot, before: TableConfig, columns: Collection[str]
) -> list[IndexDefinition]:
    """The indexes with names that there were, without those whose column is not there any more."""
    found = []
    for name in before.metadata_partitions:
        definition = snapshot.definitions.get(name)
        if definition is None or not is_named_index(name):
            continue
        if {column_at(each) for each in definition.source_fields} <= set(columns):
            found.append(definition)
        else:
            log.warning("the index %s is gone with its column", name)
    return found


def drop_metadata_table(writer: TableWriter) -> None:
    """Take the metadata table away; the next write builds it again, with the indexes that it had.

    Raises:
        UnsupportedFeature: An index in it could not be built again.
    """
    with locked(writer.target()) as table:
        recover(table)
        lost = [
            name
            for name in table.config.metadata_partitions
            if (kind := find_metadata_kind(name)) is None or kind.is_named
        ]
        if lost:
            raise UnsupportedFeature(f"to lose the index {lost[0]} (DROP INDEX first)")
        drop_metadata(table.storage)
