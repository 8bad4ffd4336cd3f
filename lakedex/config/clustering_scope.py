"""The options that say how much of a table a clustering takes on: partitions, groups, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakedex.config import write_option_names as options
from lakedex.errors import UnsupportedFeature


class PartitionFilter(Enum):
    """Which partitions a clustering takes; the values are Hudi's names."""

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    """The last ones by their paths, some of them left out."""
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    """Those from one path to another."""
    DAY_ROLLING = "DAY_ROLLING"
    """One of 24 parts of them, by the hour of the day."""


_ENGINES: Final = ("Spark", "Java", "Flink")
_PLAN_CLASSES: Final = {
    f"{engine}{name}ClusteringPlanStrategy": mode
    for engine in _ENGINES
    for name, mode in (
        ("SizeBased", None),
        ("RecentDays", PartitionFilter.RECENT_DAYS),
        ("SelectedPartitions", PartitionFilter.SELECTED_PARTITIONS),
    )
}
"""Hudi's classes, with the filter that some of them stand for."""
_RUN_CLASSES: Final = frozenset(f"{engine}SortAndSizeExecutionStrategy" for engine in _ENGINES)


@dataclass(frozen=True, slots=True)
class ClusteringScope:
    """How much a clustering takes on.

    Example:
        >>> scope = ClusteringScope.resolve({
        ...     "hoodie.clustering.plan.partition.filter.mode": "recent_days"})
        >>> scope.filter, scope.days
        (<PartitionFilter.RECENT_DAYS: 'RECENT_DAYS'>, 2)
    """

    partitions: tuple[str, ...]
    """Only these; none named means all."""
    pattern: str
    """A pattern of Java that the whole path has to match; empty for none."""
    filter: PartitionFilter
    days: int
    """How many of the last partitions are taken by their paths."""
    days_skipped: int
    """How many of the last are left out before."""
    begin: str
    end: str
    most_bytes: int
    """Only smaller file groups are taken."""
    most_groups: int | None
    """How many groups a plan has at most, of which each is of one partition."""
    group_bytes: int | None
    """How many bytes a group has at most."""
    lone_files: bool
    """Whether a group of one file group is worth it."""
    plan_class: str
    run_class: str

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> ClusteringScope:
        """The options by their names; what is not limited by them is not limited.

        Raises:
            InvalidInput: a value is wrong.
        """
        plan_class = options.CLUSTERING_PLAN_CLASS.text(settings)
        mode = PartitionFilter(options.CLUSTERING_FILTER.value(settings))
        by_class = _PLAN_CLASSES.get(_bare(plan_class))
        return cls(
            partitions=options.CLUSTERING_PARTITIONS.value(settings),
            pattern=options.CLUSTERING_PATTERN.text(settings),
            filter=by_class or mode,
            days=options.CLUSTERING_DAYS.value(settings),
            days_skipped=options.CLUSTERING_DAYS_SKIPPED.value(settings),
            begin=options.CLUSTERING_BEGIN.text(settings),
            end=options.CLUSTERING_END.text(settings),
            most_bytes=options.CLUSTERING_SMALL_FILES.value(settings),
            most_groups=options.CLUSTERING_MOST_GROUPS.value_if_given(settings),
            group_bytes=options.CLUSTERING_GROUP_BYTES.value_if_given(settings),
            lone_files=options.CLUSTERING_LONE_FILES.value(settings),
            plan_class=plan_class,
            run_class=options.CLUSTERING_RUN_CLASS.text(settings),
        )

    def require_known_classes(self) -> None:
        """Refuse classes whose work lakedex does not do; only a clustering minds them.

        Raises:
            UnsupportedFeature: naming the option and the class.
        """
        for option, name, known in (
            (options.CLUSTERING_PLAN_CLASS, self.plan_class, _PLAN_CLASSES),
            (options.CLUSTERING_RUN_CLASS, self.run_class, _RUN_CLASSES),
        ):
            if _bare(name) not in known:
                raise UnsupportedFeature(f"{option.name}={name[:200]}")


def _bare(name: str) -> str:
    return name.rpartition(".")[2]
