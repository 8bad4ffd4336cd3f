"""Drops an index: the properties stop naming it first, then its files go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakedex.config import keys
from lakedex.config.metadata_options import zone_setting
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.definitions import write_definitions
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table.creation import remove_partition
from lakedex.index.registry import find_metadata_kind, metadata_kind
from lakedex.services.file_index_creating import drop_file_index
from lakedex.services.index_names import (
    find_build,
    find_dropped_index,
    find_index,
    find_outside,
    spellings,
)
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.timeline import Action, update_properties
from lakedex.txn.begin import locked_table
from lakedex.txn.index_builds import discard_build
from lakedex.txn.lock import open_lock
from lakedex.txn.transaction import TransactionOptions

GONE_ALONG: Final = "lakedex.indexes.gone.along"
"""Where a table keeps the names of indexes that were dropped with another; a script that drops them
itself afterwards, as those of Hudi do, gets no error."""


def drop_index(
    address: StorageAddress,
    name: str,
    patience: TransactionOptions,
    *,
    with_dependents: bool = False,
) -> None:
    """Drop an index, also one that is being built; later writes do not build it again.

    Args:
        address: Where the table lies.
        name: The index by the name of its metadata partition, or by that which it was given.
        patience: How long to wait for other writers.
        with_dependents: Whether indexes that need this one are dropped with it.

    Raises:
        InvalidInput: There is no such index, or the table's writes need it.
        UnsupportedFeature: It is an index that tables have for good.
    """
    snapshot = Snapshot.open(address.open())
    full_name = find_index(snapshot, name)
    if full_name is not None and full_name in file_index_definitions(snapshot.config):
        drop_file_index(address, full_name, patience)
        return
    if full_name is None:
        _refuse_outside(snapshot, name)
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
        kept: dict[str, str] = read_own_properties(storage)
        if found is None and (_went_along(kept, name) or _had_gone(snapshot, name)):
            return
        if found is None or found not in config.metadata_partitions:
            known = ", ".join(config.metadata_partitions) or "none"
            raise InvalidInput(f"table {config.name} has no index {name!r}; it has {known}")
        name = found
        kind = find_metadata_kind(name)
        if kind is None or not (kind.switches or kind.is_named):
            raise UnsupportedFeature(f"dropping the index {name}")
        ours = {each.instant for each in snapshot.builds}
        pending = snapshot.timeline.pending_of(Action.INDEXING)
        if any(each.requested_time not in ours for each in pending):
            raise InvalidInput(f"an index of {config.name} is being built; drop {name} after that")
        present = config.metadata_partitions
        needing = _needing(snapshot, name)
        gone = [each for each in (name, *kind.derived, *needing) if each in present]
        in_the_way = [each for each in needing if not with_dependents or each not in gone]
        if in_the_way:
            raise InvalidInput(
                f"{', '.join(in_the_way)} of table {config.name} need the "
                f"{kind.kind.replace('_', ' ')}; drop them first"
            )
        kind.require_unused(config, kept, snapshot.definitions.get(name))
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
        write_own_properties(storage, _switched_off(kept, kind))
        for each in gone:
            remove_partition(address, each)


def _refuse_outside(snapshot: Snapshot, name: str) -> None:
    """Refuse to drop an index outside of the metadata table.

    Raises:
        UnsupportedFeature: there is such an index.
    """
    kind = find_outside(snapshot, name)
    if kind is not None:
        raise UnsupportedFeature(
            f"dropping the index {kind.kind} of table {snapshot.config.name}, by which its writers "
            "find records,"
        )


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


def _switched_off(kept: dict[str, str], kind: MetadataIndexKind) -> dict[str, str]:
    """Settings by which writers do not build the index again, nor those derived from it."""
    of_derived = (flag for name in kind.derived for flag in metadata_kind(name).switches)
    flags = (*kind.switches, *of_derived)
    spellings_kept = {name: "false" for flag in flags for name in flag.names if name in kept}
    off = {flag.name: "false" for flag in flags}
    forgotten = {choice.name for choice in kind.choices}
    chosen = {each: value for each, value in kept.items() if each not in forgotten}
    return {**chosen, **spellings_kept, **off}


def _needing(snapshot: Snapshot, name: str) -> list[str]:
    """The indexes that are of no use without this one (case B62)."""
    building = (each for build in snapshot.builds for each in build.names)
    present = (*snapshot.config.metadata_partitions, *building)
    return [
        each
        for each in present
        if (kind := find_metadata_kind(each)) is not None and name in kind.needs
    ]
