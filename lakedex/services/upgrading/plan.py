"""Plans an upgrade: checks whether the table can be upgraded, and computes its new properties.

Each error says what to do instead. Property names that Hudi gave up are replaced by their
successors. The merge mode is the one of Hudi's own upgrade: a copy-on-write table keeps what its
payload class did, and a merge-on-read table with an ordering field merges by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakedex.config import TableConfig, TableType, keys
from lakedex.config.table_config import (
    KeyGeneratorType,
    MergeMode,
    inferred_key_generator,
    parse_key_generator,
)
from lakedex.errors import CommitConflict, UnsupportedFeature
from lakedex.index.registry import find_metadata_kind
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant

TARGET_VERSION = 9
_TARGET_LAYOUT = 2
_OLD_LAYOUT_VERSION = 6
_PAYLOADS = {
    MergeMode.EVENT_TIME_ORDERING: keys.DEFAULT_PAYLOAD,
    MergeMode.COMMIT_TIME_ORDERING: keys.OVERWRITE_PAYLOAD,
}


def property_changes(config: TableConfig) -> dict[str, str | None]:
    """What to set, and what to remove (None); the metadata table is none until it is built again.

    Raises:
        UnsupportedFeature: the table merges or makes keys in a way that lakedex does not know.
    """
    mode = new_merge_mode(config)
    changes: dict[str, str | None] = {
        keys.TABLE_VERSION: str(TARGET_VERSION),
        keys.TIMELINE_LAYOUT_VERSION: str(_TARGET_LAYOUT),
        keys.TABLE_INITIAL_VERSION: config.raw.get(keys.TABLE_INITIAL_VERSION, str(config.version)),
        keys.MERGE_MODE: mode.value,
        keys.KEY_GENERATOR_TYPE: config.keygen_type or key_generator(config).value,
        keys.TABLE_FORMAT: config.raw.get(keys.TABLE_FORMAT, "native"),
        keys.METADATA_PARTITIONS: "",
        keys.METADATA_PARTITIONS_INFLIGHT: "",
        keys.INDEX_DEFS_PATH: None,
        keys.PRECOMBINE_FIELD: None,
        keys.PAYLOAD_CLASS: None,
        keys.MERGE_STRATEGY_ID: None,
        keys.MERGE_STRATEGY_ID_OLD: None,
    }
    if config.timeline_layout < _TARGET_LAYOUT:
        changes[keys.TIMELINE_PATH] = "timeline"
        changes[keys.TIMELINE_HISTORY_PATH] = "history"
    if config.ordering_fields:
        changes[keys.ORDERING_FIELDS] = ",".join(config.ordering_fields)
    payload = config.raw.get(keys.PAYLOAD_CLASS)
    if config.version <= _OLD_LAYOUT_VERSION:
        payload = _PAYLOADS[mode]
    if payload:
        changes[keys.LEGACY_PAYLOAD_CLASS] = payload
    return changes


def new_merge_mode(config: TableConfig) -> MergeMode:
    """The merge mode that the table will have."""
    if config.merge_mode is MergeMode.CUSTOM:
        raise UnsupportedFeature(
            f"upgrading a table that merges by {config.custom_payload}",
            instead="let Hudi upgrade it",
        )
    is_old_mor = (
        config.version <= _OLD_LAYOUT_VERSION and config.table_type is TableType.MERGE_ON_READ
    )
    if is_old_mor and config.ordering_fields:
        return MergeMode.EVENT_TIME_ORDERING
    return config.merge_mode


def key_generator(config: TableConfig) -> KeyGeneratorType:
    """The kind of key generator that the table has.

    Raises:
        UnsupportedFeature: it is code of somebody's own, or its fields are not in the properties.
    """
    named = config.keygen_type or config.keygen_class
    if named is None:
        return inferred_key_generator(config.record_key_fields, config.partition_fields)
    return parse_key_generator(named)


_OLD_VERSION = 6
_SERVICES = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.INDEXING)


def check_table(snapshot: Snapshot) -> None:
    """Refuse a table that would not come out whole.

    Raises:
        UnsupportedFeature: the message names what the table has.
    """
    config = snapshot.config
    for feature in _refused(config, snapshot):
        raise UnsupportedFeature(f"upgrading {feature}: let Hudi upgrade it; that")
    new_merge_mode(config)


def check_pending(pending: Sequence[Instant], root: str) -> None:
    """Refuse a table that somebody is at work on.

    Raises:
        CommitConflict: the message names the instant.
    """
    if not pending:
        return
    first = pending[0]
    what = f"{first.action.value} {first.requested_time}"
    if first.action in _SERVICES:
        advice = "let the engine that planned it finish it first"
    else:
        advice = "let its writer finish, or roll it back with Hudi first"
    more = f" (and {len(pending) - 1} more)" if len(pending) > 1 else ""
    raise CommitConflict(f"{root} has a pending {what}{more}: {advice}")


def split_indexes(names: Sequence[str], *, drop: bool) -> tuple[list[str], list[str]]:
    """The metadata partitions that are built again, and those that are left out.

    Raises:
        UnsupportedFeature: an index cannot be built again, and is not to be dropped.
    """
    kept = [name for name in names if _is_rebuilt(name)]
    dropped = [name for name in names if name not in kept]
    if dropped and not drop:
        listed = ", ".join(dropped)
        raise UnsupportedFeature(
            f"upgrading a table with the index {listed}",
            instead="drop the index first, or let the upgrade drop it (--drop-indexes)",
        )
    return kept, dropped


def _is_rebuilt(name: str) -> bool:
    """Whether write options ask for an index, so that no definition is needed to build it."""
    kind = find_metadata_kind(name)
    return kind is not None and not kind.is_named


def _refused(config: TableConfig, snapshot: Snapshot) -> list[str]:
    found = []
    if config.is_metadata_table:
        found.append("a metadata table by itself")
    if config.raw.get(keys.BOOTSTRAP_BASE_PATH):
        found.append("a bootstrapped table")
    generator = key_generator(config)
    is_one_key = len(config.record_key_fields) == 1
    if generator is KeyGeneratorType.COMPLEX and is_one_key:
        # Releases of Hudi differ in whether such a key starts with the name of its field.
        found.append("a table with one record key field and the complex key generator")
    if config.version <= _OLD_VERSION:
        if generator is KeyGeneratorType.CUSTOM:
            found.append("a table with the custom key generator, whose fields have no types")
        if config.table_type is TableType.MERGE_ON_READ and not config.populate_meta_fields:
            found.append("a merge-on-read table without meta columns")
        if config.cdc_enabled:
            found.append("a table with change data capture")
        if snapshot.history is not None:
            found.append("a table with a history of renamed or retyped columns")
        if config.base_file_format != "PARQUET":
            found.append(f"a table with base files of {config.base_file_format}")
    return found
