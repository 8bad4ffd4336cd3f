"""Drops an index: the properties stop naming it first, then its files go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakedex.config import keys
from lakedex.config import write_option_names as options
from lakedex.config.metadata_options import zone_setting
from lakedex.config.write_options import WriteOptions
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.definition_files import write_definitions
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.kinds.secondary.pairs import PREFIX
from lakedex.index.metadata_table.creation import remove_partition
from lakedex.index.registry import is_named_index
from lakedex.services.file_index_creating import drop_file_index
from lakedex.services.index_names import (
    find_build,
    find_dropped_index,
    find_index,
    spellings,
)
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.timeline import Action, update_properties
from lakedex.txn.begin import locked_table
from lakedex.txn.index_builds import discard_build
from lakedex.txn.lock import open_lock
from lakedex.txn.transaction import TransactionOptions

_FLAGS = {
    "column_stats": (options.COLUMN_STATS, options.PARTITION_STATS),
    "partition_stats": (options.PARTITION_STATS,),
    "bloom_filters": (options.BLOOM_FILTERS,),
    "record_index": (options.GLOBAL_RECORD_INDEX, options.PARTITIONED_RECORD_INDEX),
}
_WITH = {"column_stats": ("column_stats", "partition_stats")}
"""Ranges of partitions are made of those of files."""

_LAYOUT = {
    "column_stats": (options.COLUMN_STATS_COLUMNS.name, options.COLUMN_STATS_MOST_COLUMNS.name)
}
"""What the next index of the kind may choose anew."""

GONE_ALONG: Final = "lakedex.indexes.gone.along"
"""Where a table keeps the names of indexes that went with another; a script that drops them
itself afterwards, as those of Hudi do, is told nothing."""


def drop_index(
    address: StorageAddress,
    name: str,
    patience: TransactionOptions,
    *,
    with_dependents: bool = False,
) -> None:
    """Take an index away, also one that is being built; later writes do not build it again.

    Args:
        address: Where the table lies.
        name: The index by the name of its metadata partition, or by that which it was given.
        patience: How long to wait for other writers.
        with_dependents: Whether secondary indexes go with the record index that they need.

    Raises:
        InvalidInput: There is no such index, or the table's writes need it.
    """
    snapshot = Snapshot.open(address.open())
    full_name = find_index(snapshot, name)
    if full_name is not None and full_name in file_index_definitions(snapshot.config):
        drop_file_index(address, full_name, patience)
        return
    _drop_partitions(address, name, patience, with_dependents=with_dependents)


def _drop_partitions(
    address: StorageAddress,
    name: str,
    patience: TransactionOptions,
    *,
    with_dependents: bool,
) -> None:
    """Drop an index that is a partition of the metadata table, with those that go with it."""
    storage = address.open()
    with open_lock(storage, patience.lock) as lock:
        snapshot = Snapshot.open(storage)
        config = snapshot.config
        found = find_index(snapshot, name)
        build = find_build(snapshot, name)
        if build is not None:
            discard_build(locked_table(storage, lock, patience.heartbeat), build)
            return
        kept = read_own_properties(storage)
        if found is None and (_went_along(kept, name) or _had_gone(snapshot, name)):
            return
        if found is None or found not in config.metadata_partitions:
            known = ", ".join(config.metadata_partitions) or "none"
            raise InvalidInput(f"table {config.name} has no index {name!r}; it has {known}")
        name = found
        if name not in _FLAGS and not is_named_index(name):
            raise UnsupportedFeature(f"dropping the index {name}")
        ours = {each.instant for each in snapshot.builds}
        pending = snapshot.timeline.pending_of(Action.INDEXING)
        if any(each.requested_time not in ours for each in pending):
            raise InvalidInput(f"an index of {config.name} is being built; drop {name} after that")
        present = config.metadata_partitions
        needing = _needing(snapshot, name)
        gone = [each for each in (*_WITH.get(name, (name,)), *needing) if each in present]
        in_the_way = [each for each in needing if not with_dependents or each not in gone]
        _check_unneeded(snapshot, kept, name, in_the_way)
        left = sorted(set(present) - set(gone))
        update_properties(storage, {keys.METADATA_PARTITIONS: ",".join(left)})
        definitions = {
            each: known for each, known in snapshot.definitions.items() if each not in gone
        }
        if config.index_defs_path is not None:
            write_definitions(storage, config, definitions)
        kept = {each: value for each, value in kept.items() if each != zone_setting(name)}
        along = set(kept.pop(GONE_ALONG, "").split(",")).union(gone) - {name, ""}
        if along:
            kept[GONE_ALONG] = ",".join(sorted(along))
        write_own_properties(storage, _switched_off(kept, name) if name in _FLAGS else kept)
        for each in gone:
            remove_partition(address, each)


def _went_along(kept: Mapping[str, str], name: str) -> bool:
    """Whether an index went when another was dropped."""
    return bool(set(kept.get(GONE_ALONG, "").split(",")).intersection(spellings(name)))


def _had_gone(snapshot: Snapshot, name: str) -> bool:
    """Whether only the definition was left of an index, which is gone now too.

    Another engine dropped it, or a drop was cut short (case B62).
    """
    gone = find_dropped_index(snapshot, name)
    if gone is None:
        return False
    left = {each: known for each, known in snapshot.definitions.items() if each != gone.name}
    write_definitions(snapshot.storage, snapshot.config, left)
    return True


def _switched_off(kept: dict[str, str], name: str) -> dict[str, str]:
    """Settings by which writers do not make the index again."""
    flags = {spelling: "false" for flag in _FLAGS[name] for spelling in flag.names}
    said = {each: "false" for each in flags if each in kept}
    off = {flag.name: "false" for flag in _FLAGS[name]}
    layout = _LAYOUT.get(name, ())
    chosen = {each: value for each, value in kept.items() if each not in layout}
    return {**chosen, **said, **off}


def _needing(snapshot: Snapshot, name: str) -> list[str]:
    """The indexes that lead nowhere without this one (case B62)."""
    if name != "record_index":
        return []
    making = (each for build in snapshot.builds for each in build.names)
    present = (*snapshot.config.metadata_partitions, *making)
    return [each for each in present if each.startswith(PREFIX)]


def _check_unneeded(
    snapshot: Snapshot, kept: dict[str, str], name: str, needing: list[str]
) -> None:
    if name != "record_index":
        return
    if needing:
        raise InvalidInput(
            f"{', '.join(needing)} of table {snapshot.config.name} need the record index; drop "
            "them first"
        )
    definition = snapshot.definitions.get(name)
    partitioned = None if definition is None else definition.is_partitioned
    chosen = WriteOptions.resolve(
        snapshot.config, kept, {}, record_index_partitioned=partitioned
    ).index_type
    # Without meta columns nobody keeps the index up to date, and writes go by none.
    if chosen.uses_record_index and snapshot.config.populate_meta_fields:
        raise InvalidInput(
            f"the writes of table {snapshot.config.name} find records by the record index "
            f"(hoodie.index.type={chosen.value}); it cannot be dropped"
        )
