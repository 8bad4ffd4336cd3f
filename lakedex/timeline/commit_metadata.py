"""Commit metadata: which files a commit wrote, and which file groups it replaced.

Layout 2 stores an Avro container with `HoodieCommitMetadata` or `HoodieReplaceCommitMetadata`,
layout 1 the same fields as JSON. Every path in it is checked to stay inside the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from lakedex.errors import CorruptFile
from lakedex.storage.paths import normalise
from lakedex.timeline.container import (
    COMMIT_METADATA,
    REPLACE_COMMIT_METADATA,
    decode_record,
    encode_record,
    is_container,
    open_container,
    parse_json,
    validate_json_record,
)
from lakedex.timeline.instant import Action

# Attribute of WriteStat -> wire name; everything else of the wire record goes into `other`.
_WIRE_NAMES = {
    "file_id": "fileId",
    "path": "path",
    "partition_path": "partitionPath",
    "prev_commit": "prevCommit",
    "num_writes": "numWrites",
    "num_inserts": "numInserts",
    "num_updates": "numUpdateWrites",
    "num_deletes": "numDeletes",
    "total_write_bytes": "totalWriteBytes",
    "total_write_errors": "totalWriteErrors",
    "file_size_bytes": "fileSizeInBytes",
    "log_version": "logVersion",
    "log_offset": "logOffset",
    "base_file": "baseFile",
    "log_files": "logFiles",
    "cdc_stats": "cdcStats",
    "prev_base_file": "prevBaseFile",
}
_OTHER_NAMES = (
    "totalLogRecords",
    "totalLogFiles",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "minEventTime",
    "maxEventTime",
    "runtimeStats",
    "totalLogFilesCompacted",
    "totalLogReadTimeMs",
    "totalLogSizeCompacted",
    "tempPath",
    "numUpdates",
)
_CLUSTER = "CLUSTER"
_FILE_NAME = re.compile(
    rb"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-[0-9]+)?)_[0-9]"
)
"""The file id at the beginning of the name of a base file or log file."""
_STATS_FIELD = "partitionToWriteStats"
_PATH_NAMES = ("path", "partitionPath", "baseFile", "prevBaseFile")


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that a commit wrote (wire record `HoodieWriteStat`).

    `path` is relative to the table; `log_files` and `base_file` are names. `num_updates` is the
    wire's `numUpdateWrites`. `other` keeps the counters nobody asks for, by their wire names.
    """

    file_id: str | None = None
    path: str | None = None
    partition_path: str | None = None
    prev_commit: str | None = None
    num_writes: int | None = None
    num_inserts: int | None = None
    num_updates: int | None = None
    num_deletes: int | None = None
    total_write_bytes: int | None = None
    total_write_errors: int | None = None
    file_size_bytes: int | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    other: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_wire(cls, record: Mapping[str, Any]) -> WriteStat:
        """The stat of a wire record whose field types are already checked.

        Raises:
            UnsafePath: a path would leave the table.
        """
        for name in _PATH_NAMES:
            if record.get(name):
                normalise(record[name])
        values = {attribute: record.get(name) for attribute, name in _WIRE_NAMES.items()}
        if values["log_files"] is not None:
            values["log_files"] = tuple(normalise(name) for name in values["log_files"])
        if values["cdc_stats"] is not None:
            cdc = {normalise(path): size for path, size in values["cdc_stats"].items()}
            values["cdc_stats"] = cdc
        other = {name: record[name] for name in _OTHER_NAMES if record.get(name) is not None}
        return cls(**values, other=other)

    def to_wire(self) -> dict[str, Any]:
        """The wire record."""
        record = {name: getattr(self, attribute) for attribute, name in _WIRE_NAMES.items()}
        record["logFiles"] = None if self.log_files is None else list(self.log_files)
        record["cdcStats"] = None if self.cdc_stats is None else dict(self.cdc_stats)
        return record | dict(self.other)


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What one commit did, by partition path (`""` in a table without partitions).

    Example:
        >>> stat = WriteStat(file_id="f-0", path="p=1/f-0_0-0-0_20261115183054119.parquet")
        >>> data = encode_commit_metadata(CommitMetadata({"p=1": (stat,)}))
        >>> [stat.file_id for stat in decode_commit_metadata(data, path="x").stats()]
        ['f-0']
    """

    partition_to_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    operation_type: str | None = None
    compacted: bool = False
    replaced_file_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: int | None = None

    @classmethod
    def from_wire(cls, record: Mapping[str, Any]) -> CommitMetadata:
        """The metadata of a wire record whose field types are already checked.

        Raises:
            UnsafePath: a path would leave the table.
        """
        stats = record.get("partitionToWriteStats") or {}
        replaced = record.get("partitionToReplaceFileIds") or {}
        for partition in (*stats, *replaced):
            if partition:
                normalise(partition)
        return cls(
            partition_to_stats={
                partition: tuple(WriteStat.from_wire(stat) for stat in entries)
                for partition, entries in stats.items()
            },
            extra=record.get("extraMetadata") or {},
            operation_type=record.get("operationType"),
            compacted=bool(record.get("compacted")),
            replaced_file_ids={partition: tuple(ids) for partition, ids in replaced.items()},
            version=record.get("version"),
        )

    @property
    def is_clustering(self) -> bool:
        """Whether the commit only laid rows out anew, in other file groups."""
        return self.operation_type == _CLUSTER

    def stats(self) -> Iterator[WriteStat]:
        """Every file that was written, in no particular order of partitions."""
        for entries in self.partition_to_stats.values():
            yield from entries

    @property
    def schema_text(self) -> str | None:
        """The Avro JSON of the table's schema at this commit, if the commit says it."""
        return self.extra.get("schema") or None


def decode_commit_metadata(data: bytes, *, path: str, with_stats: bool = True) -> CommitMetadata:
    """The commit metadata in the bytes of an instant file, Avro or JSON.

    Without its stats a commit of many files is decoded in a fraction of the time.

    Raises:
        CorruptFile: the bytes are neither.
        UnsafePath: a path in it would leave the table.
    """
    if is_container(data):
        opened = open_container(data, path=path)
        replaces = opened.type_name == REPLACE_COMMIT_METADATA
        name = REPLACE_COMMIT_METADATA if replaces else COMMIT_METADATA
        leave_out = None if with_stats else _STATS_FIELD
        return CommitMetadata.from_wire(decode_record(opened, name, path=path, leave_out=leave_out))
    if not data:
        raise CorruptFile(path, 0, expected="commit metadata", actual="an empty file")
    tree = parse_json(data, path=path)
    if isinstance(tree, dict) and isinstance(tree.get("extraMetadata"), dict):
        extra = {key: value for key, value in tree["extraMetadata"].items() if value is not None}
        tree = tree | {"extraMetadata": extra}
    return CommitMetadata.from_wire(validate_json_record(tree, REPLACE_COMMIT_METADATA, path=path))


def written_file_ids(data: bytes, *, path: str, most: int) -> tuple[str, ...]:
    """The ids of file groups that a commit wrote to, as far as these are UUIDs.

    They are found in the names of the first `most` files, without decoding the commit.

    Raises:
        CorruptFile: the bytes are no commit metadata.
    """
    text = open_container(data, path=path).datum if is_container(data) else data
    names = islice(_FILE_NAME.finditer(text), most)
    return tuple(sorted({found[1].decode() for found in names}))


def encode_commit_metadata(metadata: CommitMetadata, *, action: Action = Action.COMMIT) -> bytes:
    """The Avro container of a completed instant of this action.

    Raises:
        InvalidInput: a value has a type that the wire has not.
    """
    record: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [stat.to_wire() for stat in entries]
            for partition, entries in metadata.partition_to_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "version": metadata.version,
        "operationType": metadata.operation_type,
    }
    if action.completed is not Action.REPLACECOMMIT:
        return encode_record(record, COMMIT_METADATA)
    replaced = {path: list(ids) for path, ids in metadata.replaced_file_ids.items()}
    return encode_record(record | {"partitionToReplaceFileIds": replaced}, REPLACE_COMMIT_METADATA)
