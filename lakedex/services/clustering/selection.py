"""Which file slices a clustering rewrites, and how much of a table it takes on at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakedex.config.service_options import ClusteringScope, PartitionFilter
from lakedex.config.write_option_names import CLUSTERING_PATTERN
from lakedex.errors import InvalidInput
from lakedex.expr import bind_predicate, evaluate, parse_predicate
from lakedex.expr.tree import columns_of
from lakedex.filegroup import FileSlice, partition_layout
from lakedex.keys.partition_path import matching_paths
from lakedex.table import Snapshot
from lakedex.txn.conflicts import pending_groups

_PARTS_OF_A_DAY = 24


@dataclass(frozen=True, slots=True)
class Selection:
    """What to cluster."""

    scope: ClusteringScope
    where: str | None = None
    """A SQL condition on partition columns."""
    time_zone: str = "UTC"

    def slices(self, snapshot: Snapshot) -> dict[str, tuple[FileSlice, ...]]:
        """The file slices by partition.

        What a pending compaction or clustering is about to write again is left out.

        Raises:
            InvalidInput: there is no such partition, or the condition is about something else.
        """
        closed = pending_groups(snapshot.timeline)
        wanted = self.partitions(snapshot)
        found: dict[str, list[FileSlice]] = {partition: [] for partition in wanted}
        for each in snapshot.slices:
            is_small = each.size_bytes < self.scope.most_bytes
            if each.partition in found and is_small and each.id not in closed:
                found[each.partition].append(each)
        return within_limits(found, self.scope)

    def partitions(self, snapshot: Snapshot) -> list[str]:
        """The partitions, the first to take first.

        Raises:
            InvalidInput: there is no such partition, or the condition is about something else.
        """
        present = sorted(snapshot.slices.partitions)
        wanted = chosen_partitions(present, self.scope)
        if self.where is None:
            return wanted
        fitting = {*_matching(snapshot, present, self.where, self.time_zone)}
        return [partition for partition in wanted if partition in fitting]


def _matching(
    snapshot: Snapshot, partitions: Sequence[str], condition: str, time_zone: str
) -> list[str]:
    """The partitions for whose values a condition is true."""
    tree = bind_predicate(parse_predicate(condition), snapshot.schema, time_zone=time_zone)
    fields = snapshot.config.partition_fields
    columns = {column.path: column.type for column in columns_of(tree)}
    for path in columns:
        if path not in [(name,) for name in fields]:
            known = ", ".join(fields) or "which this table has none of"
            raise InvalidInput(
                f"{'.'.join(path)!r} is no partition column; name only those ({known})"
            )
    if not columns:
        raise InvalidInput(f"the condition {condition!r} names no partition column")
    types = {path[0]: kind for path, kind in columns.items() if kind is not None}
    layout = partition_layout(snapshot.config)
    values = [layout.values(path, types) for path in partitions]
    for partition, row in zip(partitions, values, strict=True):
        texts = layout.texts(partition)
        for name in types:
            # The folder of nulls tells no value, which is as good as null here.
            if not row[name].known and texts.get(name, "") is not None:
                raise InvalidInput(
                    f"the partition {partition!r} does not tell its value of {name!r}; name "
                    "partitions by their paths (hoodie.clustering.plan.strategy.partition.selected)"
                )
    rows = pa.table(
        {name: pa.array([row[name].value for row in values], kind) for name, kind in types.items()}
    )
    is_true = evaluate(tree, rows, time_zone=time_zone).to_pylist()
    return [path for path, fits in zip(partitions, is_true, strict=True) if fits]


def chosen_partitions(
    present: Sequence[str], scope: ClusteringScope, hour: int | None = None
) -> list[str]:
    """Those of the partitions of a table that a clustering looks at, the first to take first.

    Args:
        present: The paths of all partitions.
        scope: What options say.
        hour: The hour of the day; that of the clock unless told.

    Raises:
        InvalidInput: a partition is named that is not there, or the pattern is wrong.
    """
    unknown = [path for path in scope.partitions if path not in present]
    if unknown:
        raise InvalidInput(f"the table has no partition {unknown[0]!r}")
    paths = sorted(scope.partitions or present)
    if scope.pattern:
        paths = matching_paths(paths, scope.pattern, option=CLUSTERING_PATTERN.name)
    if scope.filter is PartitionFilter.RECENT_DAYS:
        return paths[::-1][scope.days_skipped :][: scope.days]
    if scope.filter is PartitionFilter.SELECTED_PARTITIONS:
        return [p for p in paths if scope.begin <= p and (not scope.end or p <= scope.end)]
    if scope.filter is PartitionFilter.DAY_ROLLING:
        now = datetime.now().hour if hour is None else hour
        return paths[now::_PARTS_OF_A_DAY]
    return paths


def within_limits(
    slices: Mapping[str, Iterable[FileSlice]], scope: ClusteringScope
) -> dict[str, tuple[FileSlice, ...]]:
    """As many of some slices as the groups of a plan may hold, by partition.

    Each group is of one partition; where groups are limited in bytes, a partition has several.
    """
    taken: dict[str, list[FileSlice]] = {}
    groups = 0
    for partition, own in slices.items():
        for group in _groups(own, scope.group_bytes):
            if len(group) == 1 and not scope.lone_files:
                continue
            if groups == scope.most_groups:
                break
            taken.setdefault(partition, []).extend(group)
            groups += 1
    return {partition: tuple(found) for partition, found in taken.items()}


def _groups(slices: Iterable[FileSlice], most_bytes: int | None) -> Iterator[list[FileSlice]]:
    """Slices put together, in so many bytes if they are limited, the largest first as Hudi does."""
    if most_bytes is not None:
        slices = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    group: list[FileSlice] = []
    total = 0
    for each in slices:
        if group and most_bytes is not None and total + each.size_bytes > most_bytes:
            yield group
            group, total = [], 0
        group.append(each)
        total += each.size_bytes
    if group:
        yield group
