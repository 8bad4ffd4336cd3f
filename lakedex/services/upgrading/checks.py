"""What an upgrade does not take on; each refusal says what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

from lakedex.config import TableConfig, TableType, keys
from lakedex.config.table_config import KeyGeneratorType
from lakedex.errors import CommitConflict, InvalidInput, UnsupportedFeature
from lakedex.index.metadata_table import Kind, metadata_partition
from lakedex.services.upgrading.new_properties import key_generator, new_merge_mode
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant

_OLD_VERSION = 6
_REBUILT = (
    Kind.FILES,
    Kind.COLUMN_STATS,
    Kind.PARTITION_STATS,
    Kind.BLOOM_FILTERS,
    Kind.RECORD_INDEX,
)
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
    """The metadata partitions that are built anew, and those that are left out.

    Raises:
        UnsupportedFeature: an index cannot be built anew, and is not to be dropped.
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
    try:
        return metadata_partition(name).kind in _REBUILT
    except InvalidInput:
        return False


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
