"""The options of table services: compaction, cleaning, archiving and clustering.

They say when a service runs after a write, how much of the table it takes on, and how clustering,
and writes, lay rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakedex.config import write_option_names as options
from lakedex.config.option_values import FlagOption
from lakedex.errors import InvalidInput, UnsupportedFeature


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


class CleaningPolicy(Enum):
    """What decides how long an old version of a file group stays; the values are Hudi's words."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """When old file versions are removed, and which.

    Example:
        >>> chosen = CleaningOptions.resolve({"hoodie.cleaner.commits.retained": "3"})
        >>> chosen.commits, chosen.after_commits
        (3, 1)
    """

    automatic: bool = True
    """Whether a write looks after its commit for what is to be cleaned."""
    policy: CleaningPolicy = CleaningPolicy.COMMITS
    commits: int = 10
    hours: int = 24
    """Readers that began within so many hours find their files."""
    versions: int = 3
    after_commits: int = 5
    """How many commits make the next clean due.

    Hudi cleans after each one. A clean costs about half a small write, so it waits for as many
    commits as half of those that it retains, five at most: little more is kept than was requested.
    """
    incremental: bool = True
    """Whether only partitions that changed since the last clean are looked at."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> CleaningOptions:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong.
        """
        commits = options.CLEAN_COMMITS.value(settings)
        after = options.CLEAN_AFTER_COMMITS.value(settings)
        if options.CLEAN_AFTER_COMMITS.given(settings) is None:
            after = max(1, min(after, commits // 2))
        return cls(
            automatic=_beside_writes(options.CLEAN_AUTOMATIC, settings),
            policy=CleaningPolicy(options.CLEAN_POLICY.value(settings)),
            commits=commits,
            hours=options.CLEAN_HOURS.value(settings),
            versions=options.CLEAN_VERSIONS.value(settings),
            after_commits=after,
            incremental=options.CLEAN_INCREMENTAL.value(settings),
        )


@dataclass(frozen=True, slots=True)
class ArchivingOptions:
    """When instants leave the active timeline.

    Example:
        >>> ArchivingOptions.resolve({"hoodie.keep.max.commits": "40"}).most
        40
        >>> ArchivingOptions.resolve({"hoodie.keep.max.commits": "10"}).least
        9
    """

    automatic: bool = True
    least: int = 20
    """So many commits stay in the active timeline."""
    most: int = 30
    """With more commits than that archiving is due."""
    files_a_level: int = 10
    """So many files of one level of the history are merged into one of the next."""
    beyond_savepoints: bool = False
    """Whether commits after a savepoint may go; the commit that it keeps stays."""
    delta_commits: int | None = 5
    """So many deltacommits since the last compaction stay, because the next one counts them; None
    where it is not due by their number."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> ArchivingOptions:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong, or fewer commits are to stay than must.
        """
        least, most = options.KEEP_LEAST.value(settings), options.KEEP_MOST.value(settings)
        # Of two limits of which one was chosen, the default of the other gives way.
        if options.KEEP_LEAST.given(settings) is None:
            least = min(least, max(most - 1, 1))
        elif options.KEEP_MOST.given(settings) is None:
            most = max(most, least + 1)
        if least >= most:
            raise InvalidInput(
                f"{options.KEEP_LEAST.name}={least} must be less than "
                f"{options.KEEP_MOST.name}={most}"
            )
        return cls(
            automatic=_beside_writes(options.ARCHIVE_AUTOMATIC, settings),
            least=least,
            most=most,
            files_a_level=options.HISTORY_BATCH.value(settings),
            beyond_savepoints=options.ARCHIVE_BEYOND_SAVEPOINT.value(settings),
            delta_commits=_counted_delta_commits(settings),
        )


def _counted_delta_commits(settings: Mapping[str, str]) -> int | None:
    trigger = Trigger(options.COMPACTION_TRIGGER.value(settings))
    is_counted = trigger in (Trigger.NUM_COMMITS, Trigger.NUM_AND_TIME)
    return options.COMPACT_AFTER_COMMITS.value(settings) if is_counted else None


def _beside_writes(option: FlagOption, settings: Mapping[str, str]) -> bool:
    """Whether a service runs after writes: all of them can be left to others at once."""
    return option.value(settings) and options.TABLE_SERVICES.value(settings)


LOCKING_OPTIONS: Final = (
    *(options.LOCK_WAIT_MS, options.LOCK_RETRY_WAIT_MS, options.LOCK_VALIDITY_S),
    *(options.LOCK_RENEWAL_S, options.HEARTBEAT_MS, options.HEARTBEAT_MISSES),
)
"""How long a service waits for the lock."""
CLEANING_OPTIONS: Final = (
    *(options.CLEAN_AUTOMATIC, options.CLEAN_POLICY, options.CLEAN_COMMITS, options.CLEAN_HOURS),
    *(options.CLEAN_VERSIONS, options.CLEAN_AFTER_COMMITS, options.CLEAN_INCREMENTAL),
    *LOCKING_OPTIONS,
)
"""What a clean obeys."""
ARCHIVING_OPTIONS: Final = (
    *(options.ARCHIVE_AUTOMATIC, options.KEEP_LEAST, options.KEEP_MOST, options.HISTORY_BATCH),
    *(options.ARCHIVE_BEYOND_SAVEPOINT, options.COMPACTION_TRIGGER, options.COMPACT_AFTER_COMMITS),
)
"""What archiving obeys, besides the options of cleans."""


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
"""Hudi's classes, with the filter of some of them."""
_RUN_CLASSES: Final = frozenset(f"{engine}SortAndSizeExecutionStrategy" for engine in _ENGINES)
_BUCKET_PLAN_CLASSES: Final = frozenset(
    f"{engine}ConsistentBucketClusteringPlanStrategy" for engine in _ENGINES
)
_BUCKET_RUN_CLASSES: Final = frozenset({"SparkConsistentBucketClusteringExecutionStrategy"})
"""Those of resizes, which a table with a ring of buckets needs in Hudi."""


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
        self._require(_PLAN_CLASSES.keys(), _RUN_CLASSES)

    def require_bucket_classes(self) -> None:
        """The same for a clustering that resizes buckets.

        Raises:
            UnsupportedFeature: naming the option and the class.
        """
        self._require(
            _PLAN_CLASSES.keys() | _BUCKET_PLAN_CLASSES, _RUN_CLASSES | _BUCKET_RUN_CLASSES
        )

    def _require(self, plan_classes: Set[str], run_classes: Set[str]) -> None:
        for option, name, known in (
            (options.CLUSTERING_PLAN_CLASS, self.plan_class, plan_classes),
            (options.CLUSTERING_RUN_CLASS, self.run_class, run_classes),
        ):
            if _bare(name) not in known:
                raise UnsupportedFeature(f"{option.name}={name[:200]}")


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


class BulkSort(Enum):
    """How a bulk insert sorts the rows of a partition."""

    NONE = "none"
    """As they come; every file is of one partition, whatever Hudi's repartitioning modes say."""
    IN_FILES = "in files"
    """The rows inside of each file."""
    ACROSS_FILES = "across files"
    """All of them, so that each file has a range of its own."""


_LEAST_BYTES, _INSTEAD_BYTES = 1 << 10, 1 << 20
"""Where writes make a file of every row, a clustering makes files of this size."""
_SORTS = {"GLOBAL_SORT": BulkSort.ACROSS_FILES, "PARTITION_SORT": BulkSort.IN_FILES}


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """How rows are laid out.

    Example:
        >>> LayoutOptions.resolve({"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}).bulk_sort
        <BulkSort.ACROSS_FILES: 'across files'>
    """

    write_columns: tuple[str, ...]
    """What new rows are sorted by, columns or expression indexes; none leaves them as they come."""
    bulk_sort: BulkSort
    bulk_columns: tuple[str, ...]
    """What a bulk insert sorts by; `write_columns`, else the record key, where none is named."""
    strategy: str
    """How several columns become one order: `linear`, `z-order` or `hilbert`."""
    clustering_columns: tuple[str, ...]
    clustering_file_bytes: int
    clustering_scope: ClusteringScope
    clustering_keeps_meta: bool

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> LayoutOptions:
        """The options by their names; files of a clustering are as large as others by default.

        Raises:
            InvalidInput: a value is wrong.
        """
        columns = options.BULK_SORT_COLUMNS.value(settings)
        sort = _SORTS.get(options.BULK_SORT_MODE.value(settings), BulkSort.NONE)
        if columns and sort is BulkSort.NONE:
            # To Hudi these are the columns of a partitioner, which goes before the mode.
            sort = BulkSort.ACROSS_FILES
        size = options.CLUSTERING_FILE_SIZE.value(settings)
        if options.CLUSTERING_FILE_SIZE.given(settings) is None:
            size = options.MAX_FILE_SIZE.value(settings)
            size = size if size >= _LEAST_BYTES else _INSTEAD_BYTES
        return cls(
            write_columns=options.WRITE_SORT_COLUMNS.value(settings),
            bulk_sort=sort,
            bulk_columns=columns,
            strategy=options.LAYOUT_STRATEGY.value(settings),
            clustering_columns=options.CLUSTERING_COLUMNS.value(settings),
            clustering_file_bytes=size,
            clustering_scope=ClusteringScope.resolve(settings),
            clustering_keeps_meta=options.CLUSTERING_KEEPS_META.value(settings),
        )

    def require_kept_meta(self) -> None:
        """Refuse a clustering that would make every row look newly written.

        Raises:
            UnsupportedFeature: the option requests that.
        """
        if not self.clustering_keeps_meta:
            name = options.CLUSTERING_KEEPS_META.name
            raise UnsupportedFeature(f"{name}=false (rows keep their commit times)")
