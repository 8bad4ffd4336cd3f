"""The properties of a table of version 9, from those of version 6 or 8.

The names that Hudi gave up are replaced by their successors. The merge mode is what Hudi's own
upgrade comes to: a copy-on-write table keeps what its payload class did, and a merge-on-read table
with an ordering field merges by it.
"""

from __future__ import annotations

from lakedex.config import TableConfig, TableType, keys
from lakedex.config.table_config import (
    KeyGeneratorType,
    MergeMode,
    inferred_key_generator,
    parse_key_generator,
)
from lakedex.errors import UnsupportedFeature

TARGET_VERSION = 9
_TARGET_LAYOUT = 2
_OLD_LAYOUT_VERSION = 6
_PAYLOADS = {
    MergeMode.EVENT_TIME_ORDERING: keys.DEFAULT_PAYLOAD,
    MergeMode.COMMIT_TIME_ORDERING: keys.OVERWRITE_PAYLOAD,
}


def property_changes(config: TableConfig) -> dict[str, str | None]:
    """What to set, and what to remove (None); the metadata table is none until it is built anew.

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
