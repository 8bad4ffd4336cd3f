"""What a clustering is going to replace (`HoodieRequestedReplaceMetadata`).

The same record, with no plan inside, is the requested file of insert overwrite and of delete
partition. Slice addresses are kept as they were written, and used by their last part only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.timeline.plans import PlanKind, bare_name, read_plan, safe_partition, write_plan


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
