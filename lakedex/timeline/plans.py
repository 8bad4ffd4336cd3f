"""Plans and outcomes of everything but commits: Avro containers with one record each.

`read_plan` and `write_plan` work on wire names; compaction and clustering plans, which readers
need to build file slices, have classes. File names inside compaction plans are bare names; in
clustering, clean and rollback plans they are full addresses of the machine that wrote them, so
only their last part is ever used.

A clustering plan is part of a `RequestedReplace` (`HoodieRequestedReplaceMetadata`). The same
record without a plan is the requested file of insert overwrite and of delete partition.
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


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """One file slice that goes into a clustering; addresses as they were written."""

    file_id: str
    partition_path: str
    data_file_address: str | None
    log_file_addresses: tuple[str, ...]
    bootstrap_file_address: str | None = ""

    @property
    def data_file(self) -> str | None:
        """The name of the base file."""
        return bare_name(self.data_file_address) if self.data_file_address else None

    @property
    def log_files(self) -> tuple[str, ...]:
        """The names of the log files."""
        return tuple(bare_name(address) for address in self.log_file_addresses)


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """Slices that are rewritten together into so many new file groups."""

    slices: tuple[ClusteringSlice, ...]
    output_file_groups: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """The groups of a clustering and the JVM strategy that made them, if one did."""

    groups: tuple[ClusteringGroup, ...]
    strategy_class: str | None = None
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] | None = None
    preserve_metadata: bool | None = True
    missing_partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestedReplace:
    """A requested replace: its operation and, for a clustering, its plan."""

    operation_type: str | None = None
    clustering: ClusteringPlan | None = None
    extra: Mapping[str, str] | None = None

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> RequestedReplace:
        """The request in the bytes of a requested file; Hudi leaves it empty at times.

        Raises:
            CorruptFile: the bytes are not such a request.
            UnsafePath: a partition path in it would leave the table.
        """
        if not data:
            return cls()
        record = read_plan(PlanKind.REQUESTED_REPLACE, data, path=path)
        plan = record["clusteringPlan"]
        return cls(
            operation_type=record["operationType"],
            clustering=None if plan is None else _plan(plan),
            extra=record["extraMetadata"],
        )

    def encode(self) -> bytes:
        """The bytes of a requested file."""
        record = {
            "operationType": self.operation_type,
            "clusteringPlan": None if self.clustering is None else _plan_wire(self.clustering),
            "extraMetadata": self.extra,
            "version": 1,
        }
        return write_plan(PlanKind.REQUESTED_REPLACE, record)


def _plan(record: Mapping[str, Any]) -> ClusteringPlan:
    strategy = record["strategy"] or {}
    return ClusteringPlan(
        groups=tuple(_group(group) for group in record["inputGroups"] or ()),
        strategy_class=strategy.get("strategyClassName"),
        strategy_params=strategy.get("strategyParams") or {},
        extra=record["extraMetadata"],
        preserve_metadata=record["preserveHoodieMetadata"],
        missing_partitions=tuple(record["missingSchedulePartitions"] or ()),
    )


def _group(record: Mapping[str, Any]) -> ClusteringGroup:
    outputs = record["numOutputFileGroups"]
    return ClusteringGroup(
        slices=tuple(_slice(entry) for entry in record["slices"] or ()),
        output_file_groups=1 if outputs is None else outputs,
        metrics=record["metrics"] or {},
        extra=record["extraMetadata"],
    )


def _slice(record: Mapping[str, Any]) -> ClusteringSlice:
    return ClusteringSlice(
        file_id=record["fileId"] or "",
        partition_path=safe_partition(record["partitionPath"]),
        data_file_address=record["dataFilePath"] or None,
        log_file_addresses=tuple(record["deltaFilePaths"] or ()),
        bootstrap_file_address=record["bootstrapFilePath"],
    )


def _plan_wire(plan: ClusteringPlan) -> dict[str, Any]:
    strategy = {
        "strategyClassName": plan.strategy_class,
        "strategyParams": dict(plan.strategy_params),
    }
    return {
        "inputGroups": [_group_wire(group) for group in plan.groups],
        "strategy": None if plan.strategy_class is None else strategy,
        "extraMetadata": plan.extra,
        "preserveHoodieMetadata": plan.preserve_metadata,
        "missingSchedulePartitions": list(plan.missing_partitions),
    }


def _group_wire(group: ClusteringGroup) -> dict[str, Any]:
    slices = [
        {
            "dataFilePath": entry.data_file_address,
            "deltaFilePaths": list(entry.log_file_addresses),
            "fileId": entry.file_id,
            "partitionPath": entry.partition_path,
            "bootstrapFilePath": entry.bootstrap_file_address,
        }
        for entry in group.slices
    ]
    return {
        "slices": slices,
        "metrics": dict(group.metrics),
        "numOutputFileGroups": group.output_file_groups,
        "extraMetadata": group.extra,
    }
