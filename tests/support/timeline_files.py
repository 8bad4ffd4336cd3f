"""The files that are no data: properties, partition metafiles, instants and their times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakedex.config import format_properties, keys, table_checksum
from lakedex.config.table_config import TimelineZone
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    State,
    encode_commit_metadata,
    file_name,
    from_epoch_ms,
    to_epoch_ms,
)

LAYOUT = 2
_NAMES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


class Clock:
    """Instant times one step apart, always the same ones."""

    def __init__(self, start: str, step_ms: int = 10) -> None:
        """Start at an instant time."""
        self._now = to_epoch_ms(start, TimelineZone.UTC)
        self._step = step_ms

    def next(self) -> str:
        """A time after all times given before."""
        self._now += self._step
        return from_epoch_ms(self._now, TimelineZone.UTC)


def write_properties(root: Path, props: Mapping[str, str]) -> None:
    """Write `hoodie.properties` with its checksum, and the folders that a table has."""
    checksum = table_checksum(props[keys.TABLE_NAME], props.get(keys.DATABASE_NAME))
    text = format_properties(
        {**props, keys.TABLE_CHECKSUM: str(checksum)}, comment="Updated at build"
    )
    (root / ".hoodie" / "timeline" / "history").mkdir(parents=True, exist_ok=True)
    (root / ".hoodie" / keys.PROPERTIES_FILE).write_text(text, encoding="ascii")


def data_properties(
    name: str,
    table_type: str,
    *,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    ordering: str | None,
    hive_style: bool,
) -> dict[str, str]:
    """The properties of a data table of version 9, without its indexes."""
    props = _shared(name, _NAMES[table_type]) | {
        keys.TABLE_FORMAT: "native",
        keys.DATABASE_NAME: "default",
        keys.RECORD_KEY_FIELDS: ",".join(record_key),
        keys.KEY_GENERATOR_TYPE: key_generator(record_key, partition_by),
        keys.MERGE_MODE: "EVENT_TIME_ORDERING" if ordering else "COMMIT_TIME_ORDERING",
        keys.HIVE_STYLE_PARTITIONING: str(hive_style).lower(),
        keys.URL_ENCODE_PARTITIONING: "false",
        keys.TIMELINE_TIMEZONE: "UTC",
    }
    if partition_by:
        props[keys.PARTITION_FIELDS] = ",".join(partition_by)
    if ordering:
        props[keys.ORDERING_FIELDS] = ordering
    return props


def metadata_properties(data_table: str) -> dict[str, str]:
    """The properties of the metadata table of a data table."""
    return _shared(f"{data_table}_metadata", _NAMES["mor"]) | {
        keys.BASE_FILE_FORMAT: "HFILE",
        keys.RECORD_KEY_FIELDS: "key",
        keys.POPULATE_META_FIELDS: "false",
        keys.KEY_GENERATOR_TYPE: "HOODIE_TABLE_METADATA",
        keys.PAYLOAD_CLASS: keys.METADATA_PAYLOAD,
        keys.MERGE_MODE: "CUSTOM",
        keys.MERGE_STRATEGY_ID: keys.PAYLOAD_STRATEGY_ID,
    }


def key_generator(record_key: tuple[str, ...], partition_by: tuple[str, ...]) -> str:
    """The type of key generator that spells such keys."""
    if not partition_by:
        return "NON_PARTITION"
    return "SIMPLE" if len(record_key) == len(partition_by) == 1 else "COMPLEX"


def write_partition_metafile(folder: Path, instant_time: str, depth: int) -> None:
    """Mark a folder as a partition, unless it is marked already."""
    folder.mkdir(parents=True, exist_ok=True)
    metafile = folder / ".hoodie_partition_metadata"
    if not metafile.exists():
        props = {"commitTime": instant_time, "partitionDepth": str(depth)}
        metafile.write_text(format_properties(props, comment="partition metadata"))


def write_pending(root: Path, time: str, action: Action) -> None:
    """Write the requested and the inflight file of an instant, both empty."""
    for state in (State.REQUESTED, State.INFLIGHT):
        _write(root, Instant(time, action, state, None), b"")


def write_completed(
    root: Path, time: str, completion: str, action: Action, metadata: CommitMetadata
) -> None:
    """Write the completed file of an instant."""
    data = encode_commit_metadata(metadata, action=action)
    _write(root, Instant(time, action, State.COMPLETED, completion), data)


def _write(root: Path, instant: Instant, data: bytes) -> None:
    path = root / ".hoodie" / "timeline" / file_name(instant, LAYOUT)
    with path.open("xb") as file:
        file.write(data)


def _shared(name: str, table_type: str) -> dict[str, str]:
    return {
        keys.TABLE_NAME: name,
        keys.TABLE_TYPE: table_type,
        keys.TABLE_VERSION: "9",
        keys.TABLE_INITIAL_VERSION: "9",
        keys.TIMELINE_LAYOUT_VERSION: str(LAYOUT),
        keys.TIMELINE_PATH: "timeline",
        keys.TIMELINE_HISTORY_PATH: "history",
        keys.ARCHIVELOG_FOLDER: "history",
        keys.DROP_PARTITION_COLUMNS: "false",
    }
