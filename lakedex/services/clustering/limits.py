"""How much of a table a clustering takes on, by Hudi's options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from lakedex.config.service_options import ClusteringScope, PartitionFilter
from lakedex.config.write_option_names import CLUSTERING_PATTERN
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice
from lakedex.services.partition_patterns import matching_paths

_PARTS_OF_A_DAY = 24


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
