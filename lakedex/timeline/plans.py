"""Plans and outcomes of everything but commits: Avro containers with one record each.

`read_plan` and `write_plan` work on wire names; compaction and clustering plans, which readers
need to build file slices, have classes. File names inside compaction plans are bare names; in
clustering, clean and rollback plans they are full addresses of the machine that wrote them, so
only their last part is ever used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lakedex.errors import UnsafePath
from lakedex.storage.paths import normalise
from lakedex.timeline.container import decode_record, encode_record, open_container


class PlanKind(Enum):
    """A kind of timeline file; the values are the names of the wire records."""

    COMPACTION_PLAN = "HoodieCompactionPlan"
    REQUESTED_REPLACE = "HoodieRequestedReplaceMetadata"
    CLEANER_PLAN = "HoodieCleanerPlan"
    CLEAN_METADATA = "HoodieCleanMetadata"
    ROLLBACK_PLAN = "HoodieRollbackPlan"
    ROLLBACK_METADATA = "HoodieRollbackMetadata"
    RESTORE_PLAN = "HoodieRestorePlan"
    RESTORE_METADATA = "HoodieRestoreMetadata"
    SAVEPOINT_METADATA = "HoodieSavepointMetadata"
    INDEX_PLAN = "HoodieIndexPlan"
    INDEX_COMMIT_METADATA = "HoodieIndexCommitMetadata"


def read_plan(kind: PlanKind, data: bytes, *, path: str = "<plan>") -> Mapping[str, Any]:
    """The wire record of a plan or outcome; missing fields have their defaults.

    Example:
        >>> data = write_plan(PlanKind.INDEX_PLAN, {"indexPartitionInfos": []})
        >>> dict(read_plan(PlanKind.INDEX_PLAN, data))
        {'version': 1, 'indexPartitionInfos': []}

    Raises:
        CorruptFile: the bytes are not such a file.
    """
    opened = open_container(data, path=path)
    return decode_record(opened, kind.value, path=path)


def write_plan(kind: PlanKind, record: Mapping[str, Any]) -> bytes:
    """The bytes of a plan or outcome; fields that are left out get their defaults.

    Raises:
        InvalidInput: a field is missing that has no default, or has the wrong type.
    """
    return encode_record(record, kind.value)


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to compact; `data_file` and `log_files` are bare names."""

    file_id: str
    partition_path: str
    base_instant_time: str | None
    data_file: str | None
    log_files: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction or log compaction is going to do (`HoodieCompactionPlan`)."""

    operations: tuple[CompactionOperation, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    version: int = 2
    strategy: Mapping[str, Any] | None = None
    preserve_metadata: bool = False
    missing_partitions: tuple[str, ...] = ()

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> CompactionPlan:
        """The plan in the bytes of a requested file.

        Raises:
            CorruptFile: the bytes are not a compaction plan.
            UnsafePath: a name in it is no bare name.
        """
        record = read_plan(PlanKind.COMPACTION_PLAN, data, path=path)
        return cls(
            operations=tuple(_operation(entry) for entry in record["operations"] or ()),
            extra=record["extraMetadata"] or {},
            version=record["version"] or 1,
            strategy=record["strategy"],
            preserve_metadata=bool(record["preserveHoodieMetadata"]),
            missing_partitions=tuple(record["missingSchedulePartitions"] or ()),
        )

    def encode(self) -> bytes:
        """The bytes of a requested file."""
        operations = [
            {
                "baseInstantTime": operation.base_instant_time,
                "deltaFilePaths": list(operation.log_files),
                "dataFilePath": operation.data_file,
                "fileId": operation.file_id,
                "partitionPath": operation.partition_path,
                "metrics": dict(operation.metrics),
            }
            for operation in self.operations
        ]
        record = {
            "operations": operations,
            "extraMetadata": dict(self.extra),
            "version": self.version,
            "strategy": self.strategy,
            "preserveHoodieMetadata": self.preserve_metadata,
            "missingSchedulePartitions": list(self.missing_partitions),
        }
        return write_plan(PlanKind.COMPACTION_PLAN, record)


def _operation(entry: Mapping[str, Any]) -> CompactionOperation:
    return CompactionOperation(
        file_id=entry["fileId"] or "",
        partition_path=safe_partition(entry["partitionPath"]),
        base_instant_time=entry["baseInstantTime"],
        data_file=bare_name(entry["dataFilePath"]) if entry["dataFilePath"] else None,
        log_files=tuple(bare_name(name) for name in entry["deltaFilePaths"] or ()),
        metrics=entry["metrics"] or {},
    )


def safe_partition(path: str | None) -> str:
    """A partition path that stays inside the table; `""` for none."""
    return normalise(path) if path else ""


def bare_name(address: str) -> str:
    """The last part of a file's address, which must be a name.

    Example:
        >>> bare_name("file:/tables/trips/state=texas/.f-0_1.log.1_0-0-0")
        '.f-0_1.log.1_0-0-0'

    Raises:
        UnsafePath: the last part is empty, `.` or `..`.
    """
    name = address.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise UnsafePath(f"{address!r} does not end in a file name")
    return normalise(name)
