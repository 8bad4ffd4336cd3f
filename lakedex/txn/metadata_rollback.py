"""Completed instants taken back in the metadata table, or, where that cannot be, all of it dropped.

The changes of an instant lie in log files of its own. Without them the indexes are as they were
before, record locations included, as long as nothing was made of these files since. A compaction
takes them in, and an index that was built later knows the rows of that time. Then the metadata
table is given up: a table without one is whole, and the next write builds the same indexes from
the data, as the table's own properties say. Indexes with names are built by whoever gave the
metadata table up; should that be cut short, their definitions stay, for REFRESH INDEX.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from lakedex.config import TableConfig, keys
from lakedex.config import write_option_names as options
from lakedex.errors import (
    CorruptFile,
    IndexUnusable,
    TableNotFound,
    UnsupportedFeature,
)
from lakedex.index.definitions import IndexDefinition, load_definitions
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.index.registry import find_metadata_kind, is_named_index, metadata_kinds
from lakedex.storage import Storage
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.timeline import (
    Action,
    Instant,
    Timeline,
    instant_key,
    load_table_config,
    update_properties,
)

_NO_WRITES = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_ON = "true"
GIVEN_UP: Final = "lakedex.indexes.given.up"
"""The own property that names secondary and expression indexes to be built again."""
_log = logging.getLogger("lakedex")


def open_metadata_table(table: Storage) -> tuple[Storage, TableConfig] | None:
    """Storage and properties of the metadata table, whether it is in use or being built."""
    storage = table.sub(keys.METADATA_TABLE_FOLDER)
    try:
        return storage, load_table_config(storage)
    except TableNotFound:
        return None
    except CorruptFile as error:
        raise IndexUnusable(
            f"the metadata table of {table.root} cannot be read ({error}); `lakedex repair` "
            "builds it anew"
        ) from error


def forget_in_metadata(storage: Storage, data: Timeline, times: Collection[str]) -> bool:
    """Make ready for taking completed instants back; False when the metadata table was dropped."""
    if not can_forget(storage, data, times):
        _log.warning("the indexes of %s are built anew: they cannot be taken back", storage.root)
        drop_metadata(storage)
        return False
    opened = open_metadata_table(storage)
    if opened is not None:
        store = MetadataStore(*opened, Timeline.load(*opened))
        for pending in store.timeline.pending_of(Action.COMPACTION):
            # Its plan may name files that are about to go; another one is made when it is due.
            store.discard(pending.requested_time, Action.COMPACTION)
    return True


def can_forget(storage: Storage, data: Timeline, times: Collection[str]) -> bool:
    """Whether the metadata table is as before once the log files of some instants are gone.

    Those of them that are no longer completed in the data table were dealt with before.
    """
    opened = open_metadata_table(storage)
    wanted = {time for time in times if data.is_completed(time)}
    if opened is None or not wanted:
        return True
    timeline = Timeline.load(*opened)
    if not all(timeline.is_completed(time) for time in wanted):
        return False
    first = min(instant_key(timeline.completion_time_or_self(time)) for time in wanted)
    for each in timeline.write_instants():
        if instant_key(each.completion_time or each.requested_time) <= first:
            continue
        if _is_of_build(timeline, each, data.config):
            continue
        known = data.find(each.requested_time)
        is_of_service = known is not None and known.action in _NO_WRITES
        is_compacted = timeline.requested_action(each.requested_time) is not Action.DELTACOMMIT
        if is_compacted or not (each.requested_time in times or is_of_service):
            return False
    return True


def _is_of_build(timeline: Timeline, instant: Instant, config: TableConfig) -> bool:
    """Whether it made only indexes in the making: their builder sees what was taken back."""
    if not config.metadata_partitions_inflight:
        return False
    names = {*timeline.commit_metadata(instant).partition_to_stats}
    return bool(names) and names.issubset(config.metadata_partitions_inflight)


def require_forgettable(storage: Storage, data: Timeline, times: Collection[str]) -> None:
    """Refuse to take instants back where an index would be lost by it.

    Raises:
        UnsupportedFeature: the index is named in it, with what to do.
    """
    if can_forget(storage, data, times):
        return
    definitions = load_definitions(storage, data.config)
    kept = read_own_properties(storage)
    for name in data.config.metadata_partitions:
        if not _is_built_again(name, definitions.get(name), kept):
            raise UnsupportedFeature(
                f"rolling back commits that the index {name} already covers",
                instead="drop the index first, and create it again afterwards",
            )


def drop_metadata(storage: Storage) -> None:
    """Give the metadata table up, with a note for the next write of what it is to have."""
    config = load_table_config(storage)
    if config.metadata_enabled:
        _note_wanted(storage)
        none = {keys.METADATA_PARTITIONS: "", keys.METADATA_PARTITIONS_INFLIGHT: ""}
        update_properties(storage, none)
    inner = storage.sub(keys.METADATA_TABLE_FOLDER)
    # Without its properties it is no table any more, however much of it is left.
    inner.delete(f"{keys.META_FOLDER}/{keys.PROPERTIES_FILE}")
    storage.delete_folder(keys.METADATA_TABLE_FOLDER)


def _note_wanted(storage: Storage) -> None:
    config = load_table_config(storage)
    kept = read_own_properties(storage)
    present = set(config.metadata_partitions)
    definitions = load_definitions(storage, config)
    wanted = {options.METADATA_ENABLE.name: _ON}
    for kind in metadata_kinds():
        if not kind.is_named:
            is_live = kind.kind in present
            wanted |= kind.kept_settings(definitions.get(kind.kind), kept, is_live=is_live)
    named = sorted(name for name in present if is_named_index(name))
    if named:
        wanted[GIVEN_UP] = ",".join(named)
    write_own_properties(storage, {**kept, **wanted})


def _is_built_again(name: str, definition: IndexDefinition | None, kept: Mapping[str, str]) -> bool:
    kind = find_metadata_kind(name)
    return kind is not None and kind.can_build_again(name, definition, kept)
