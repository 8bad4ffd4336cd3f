"""The plan of a clustering in the form that Hudi reads, executes and rolls back.

Each partition is one group, as its rows are ordered as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakedex.config.write_option_names import CLUSTERING_COLUMNS, WRITE_SORT_COLUMNS
from lakedex.config.write_option_names import LAYOUT_STRATEGY as _LAYOUT_STRATEGY
from lakedex.filegroup import FileSlice
from lakedex.storage import Storage
from lakedex.timeline import RequestedReplace
from lakedex.timeline.plans import ClusteringGroup, ClusteringPlan, ClusteringSlice
from lakedex.write.layout.order import RowOrder, Strategy

_STRATEGY_CLASS = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
SORT_COLUMNS = CLUSTERING_COLUMNS.name
WRITE_ORDER = WRITE_SORT_COLUMNS.name
LAYOUT_STRATEGY = _LAYOUT_STRATEGY.name
_LOG_SHARE = 0.35
"""Of the bytes of a log file so much is left in a base file, by Hudi's experience."""
_MB = float(1 << 20)


@dataclass(frozen=True, slots=True)
class Regrouping:
    """The slices of one partition, and how many files shall take their rows."""

    partition: str
    slices: tuple[FileSlice, ...]
    files: int


def regroup(slices: Mapping[str, Sequence[FileSlice]], file_bytes: int) -> tuple[Regrouping, ...]:
    """Files of about the given size for the rows of each partition."""
    return tuple(
        Regrouping(partition, tuple(own), max(1, -(-_base_bytes(own) // file_bytes)))
        for partition, own in sorted(slices.items())
    )


def requested(storage: Storage, groups: Sequence[Regrouping], order: RowOrder) -> bytes:
    """The content of the requested file."""
    plan = ClusteringPlan(
        groups=tuple(plan_group(storage, each.slices, each.files) for each in groups),
        strategy_class=_STRATEGY_CLASS,
        strategy_params={SORT_COLUMNS: ",".join(order.stored)},
        extra=_said_of(order),
        preserve_metadata=True,
    )
    return RequestedReplace("CLUSTER", plan, extra={}).encode()


def _said_of(order: RowOrder) -> dict[str, str]:
    """What another process must know to run the plan, beside the columns."""
    said = {}
    if order.strategy is not Strategy.LINEAR:
        said[LAYOUT_STRATEGY] = order.strategy.value
    if order.computed:
        # Another engine that runs the plan sorts by the columns inside of the expressions.
        said[WRITE_ORDER] = ",".join(order.columns)
    return said


def _base_bytes(slices: Sequence[FileSlice]) -> int:
    base = sum(each.base.size_bytes for each in slices if each.base is not None)
    logs = sum(log.size_bytes for each in slices for log in each.logs)
    return base + int(logs * _LOG_SHARE)


def plan_group(
    storage: Storage,
    slices: Sequence[FileSlice],
    files: int,
    extra: Mapping[str, str] | None = None,
) -> ClusteringGroup:
    """A group of a plan: slices, and how many file groups take their rows."""
    logs = [log.size_bytes for each in slices for log in each.logs]
    read_mb = sum(each.size_bytes for each in slices) / _MB
    written_mb = _base_bytes(slices) / _MB
    return ClusteringGroup(
        slices=tuple(_slice(storage, each) for each in slices),
        output_file_groups=files,
        metrics={
            "TOTAL_IO_MB": read_mb + written_mb,
            "TOTAL_IO_READ_MB": read_mb,
            "TOTAL_IO_WRITE_MB": written_mb,
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(sum(logs)),
        },
        extra=extra,
    )


def _slice(storage: Storage, each: FileSlice) -> ClusteringSlice:
    base = each.base
    return ClusteringSlice(
        file_id=each.file_id,
        partition_path=each.partition,
        data_file_address=None if base is None else f"{storage.root}/{each.path_of(base.name)}",
        log_file_addresses=tuple(f"{storage.root}/{each.path_of(log.name)}" for log in each.logs),
    )
