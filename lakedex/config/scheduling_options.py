"""The options that say when table services run beside writes, and what a compaction takes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import write_option_names as options
from lakedex.errors import InvalidInput


class Trigger(Enum):
    """What makes a compaction due; the values are Hudi's names."""

    NUM_COMMITS = "NUM_COMMITS"
    """So many deltacommits since the last compaction that completed."""
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    """So many since the last one that was scheduled."""
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionStrategy(Enum):
    """Which file slices a compaction takes, and in which order; the values are Hudi's classes."""

    LOG_FILE_SIZE = "LogFileSizeBasedCompactionStrategy"
    LOG_FILE_COUNT = "LogFileNumBasedCompactionStrategy"
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    UNBOUNDED = "UnBoundedCompactionStrategy"
    DAY_BASED = "DayBasedCompactionStrategy"
    PARTITION_PATTERN = "PartitionRegexBasedCompactionStrategy"

    @classmethod
    def parse(cls, names: str) -> tuple[CompactionStrategy, ...]:
        """The strategies of class names with commas between, with or without their packages.

        Example:
            >>> CompactionStrategy.parse("UnBoundedCompactionStrategy")
            (<CompactionStrategy.UNBOUNDED: 'UnBoundedCompactionStrategy'>,)

        Raises:
            InvalidInput: there is no such strategy here.
        """
        by_name = {strategy.value: strategy for strategy in cls}
        bare = [name.strip().rpartition(".")[2] for name in names.split(",")]
        if not set(bare) <= by_name.keys():
            option, known = options.COMPACTION_STRATEGY.name, ", ".join(by_name)
            raise InvalidInput(f"{option}={names[:120]!r} must be of {known}")
        return tuple(by_name[name] for name in bare)


@dataclass(frozen=True, slots=True)
class SchedulingOptions:
    """When services run beside writes.

    Example:
        >>> chosen = SchedulingOptions.resolve({"hoodie.compact.inline": "true"})
        >>> chosen.compact_inline, chosen.max_delta_commits, chosen.trigger.value
        (True, 5, 'NUM_COMMITS')
    """

    compact_inline: bool
    """Whether a write schedules and runs a compaction that is due."""
    schedule_compaction_inline: bool
    """Whether a write only schedules it."""
    trigger: Trigger
    max_delta_commits: int
    max_delta_seconds: int
    strategy_names: str
    """Of the classes, which may be some of a script's own: only a compaction minds that."""
    target_io_mb: int
    """How much a compaction reads and writes before it takes no further slice."""
    log_size_threshold: int
    log_count_threshold: int
    day_partitions: int
    """How many of the newest partitions a day-based compaction looks at."""
    partition_pattern: str
    """A pattern of Java that the paths of partitions have to match; empty for none."""
    cluster_inline: bool
    schedule_clustering_inline: bool
    cluster_after: int
    """The number of commits since the last clustering that makes one due."""
    reshard_inline: bool
    """Whether a write reshards a record index whose number of file groups is far off."""
    refresh_indexes_after: int
    """After so many commits a write refreshes indexes with `maintenance=async`; 0 for never."""

    @property
    def strategies(self) -> tuple[CompactionStrategy, ...]:
        """The strategies of a compaction, of which each takes from what the last one left.

        Raises:
            InvalidInput: there is no such strategy here.
        """
        return CompactionStrategy.parse(self.strategy_names)

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> SchedulingOptions:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong, or a service is both run and only scheduled.
        """
        for run, schedule in (
            (options.COMPACT_INLINE, options.SCHEDULE_COMPACTION_INLINE),
            (options.CLUSTER_INLINE, options.SCHEDULE_CLUSTERING_INLINE),
        ):
            if run.value(settings) and schedule.value(settings):
                raise InvalidInput(f"set {run.name} or {schedule.name}, not both")
        runs = options.TABLE_SERVICES.value(settings)
        schedules = options.SCHEDULE_COMPACTION_INLINE.value(settings)
        # To Hudi a compaction that is not to run beside the writes runs after them.
        compacts = options.COMPACT_INLINE.value(settings) or not (
            options.COMPACT_ASYNC.value(settings) or schedules
        )
        return cls(
            compact_inline=runs and compacts,
            schedule_compaction_inline=runs and schedules,
            trigger=Trigger(options.COMPACTION_TRIGGER.value(settings)),
            max_delta_commits=options.COMPACT_AFTER_COMMITS.value(settings),
            max_delta_seconds=options.COMPACT_AFTER_SECONDS.value(settings),
            strategy_names=options.COMPACTION_STRATEGY.text(settings),
            target_io_mb=options.COMPACTION_TARGET_IO.value(settings),
            log_size_threshold=options.COMPACTION_LOG_SIZE.value(settings),
            log_count_threshold=options.COMPACTION_LOG_COUNT.value(settings),
            day_partitions=options.COMPACTION_DAY_PARTITIONS.value(settings),
            partition_pattern=options.COMPACTION_PATTERN.text(settings),
            cluster_inline=runs and options.CLUSTER_INLINE.value(settings),
            schedule_clustering_inline=runs and options.SCHEDULE_CLUSTERING_INLINE.value(settings),
            cluster_after=options.CLUSTER_AFTER_COMMITS.value(settings),
            reshard_inline=options.RESHARD_INLINE.value(settings),
            refresh_indexes_after=options.REFRESH_INDEXES_AFTER.value(settings),
        )
