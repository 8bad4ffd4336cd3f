"""The options that a write obeys, with Hudi's names and defaults, and a few of our own."""

from __future__ import annotations

from typing import Final

from lakedex.config.option_values import (
    ChoiceOption,
    FactorOption,
    FlagOption,
    NamesOption,
    NumberOption,
    RateOption,
    TextOption,
)

OPERATION: Final = "hoodie.datasource.write.operation"
"""Chosen by the verb; an option that says another one is refused."""

OVERWRITE_MODE: Final = "hoodie.datasource.overwrite.mode"
"""Which partitions INSERT OVERWRITE takes away: `static` or `dynamic`."""

# The write index.
INDEX_TYPE: Final = TextOption("hoodie.index.type", "SIMPLE")
SIMPLE_UPDATE_PARTITION: Final = FlagOption("hoodie.simple.index.update.partition.path", "true")
BLOOM_UPDATE_PARTITION: Final = FlagOption("hoodie.bloom.index.update.partition.path", "true")
BLOOM_USE_METADATA: Final = FlagOption("hoodie.bloom.index.use.metadata", "true")
RECORD_UPDATE_PARTITION: Final = FlagOption("hoodie.record.index.update.partition.path", "false")

# The bucket index; with `hoodie.index.type=BUCKET` only.
BUCKET_ENGINE: Final = TextOption("hoodie.index.bucket.engine", "SIMPLE", ("BUCKET_INDEX_ENGINE",))
BUCKET_COUNT: Final = NumberOption(
    "hoodie.bucket.index.num.buckets", "256", ("BUCKET_INDEX_NUM_BUCKETS",), most=1_000_000
)
BUCKET_HASH_FIELD: Final = NamesOption("hoodie.bucket.index.hash.field", "")
BUCKET_EXPRESSIONS: Final = TextOption("hoodie.bucket.index.partition.expressions", "")
BUCKET_RULE: Final = TextOption("hoodie.bucket.index.partition.rule.type", "REGEX")
BUCKET_MOST: Final = NumberOption("hoodie.bucket.index.max.num.buckets", "", most=1_000_000)
BUCKET_LEAST: Final = NumberOption("hoodie.bucket.index.min.num.buckets", "", most=1_000_000)
BUCKET_SPLIT_THRESHOLD: Final = FactorOption("hoodie.bucket.index.split.threshold", "2.0")
BUCKET_MERGE_THRESHOLD: Final = RateOption("hoodie.bucket.index.merge.threshold", "0.2")
BUCKET_RESIZE_POLICY: Final = ChoiceOption(
    "lakedex.bucket.resize.policy", "records", choices=("records", "middle")
)
UPDATES_STRATEGY: Final = TextOption(
    "hoodie.clustering.updates.strategy",
    "org.apache.hudi.client.clustering.update.strategy.SparkRejectUpdateStrategy",
)
BUCKET_RESIZE_WRITES: Final = ChoiceOption(
    "lakedex.bucket.resize.writes", "refuse", choices=("refuse", "dual", "virtual")
)
BUCKET_RESIZE_BYTES: Final = NumberOption("lakedex.bucket.resize.max.bytes", "2147483648")
BUCKET_RESIZE_PARTITIONS: Final = NumberOption("lakedex.bucket.resize.max.partitions", "1000")

# A record index of the newest days only, which Hudi has not.
RECORD_INDEX_WINDOW_DAYS: Final = NumberOption("lakedex.record.index.window.days", "", most=100_000)
RECORD_INDEX_WINDOW_FORMAT: Final = TextOption("lakedex.record.index.window.format", "yyyy-MM-dd")
RECORD_INDEX_WINDOW_OUTSIDE: Final = ChoiceOption(
    "lakedex.record.index.window.outside", "lookup", choices=("lookup", "insert")
)

# Base files.
SMALL_FILE_LIMIT: Final = NumberOption("hoodie.parquet.small.file.limit", "104857600", least=0)
MAX_FILE_SIZE: Final = NumberOption("hoodie.parquet.max.file.size", "125829120")
COMPRESSION: Final = ChoiceOption(
    "hoodie.parquet.compression.codec",
    "snappy",
    choices=("snappy", "gzip", "zstd", "lz4_raw", "uncompressed"),
)

# How rows are laid out.
BULK_SORT_MODE: Final = ChoiceOption(
    "hoodie.bulkinsert.sort.mode",
    "NONE",
    choices=(
        "NONE",
        "GLOBAL_SORT",
        "PARTITION_SORT",
        "PARTITION_PATH_REPARTITION",
        "PARTITION_PATH_REPARTITION_AND_SORT",
    ),
)
BULK_SORT_COLUMNS: Final = NamesOption(
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns", ""
)
WRITE_SORT_COLUMNS: Final = NamesOption("hoodie.write.sort.columns", "")
LAYOUT_STRATEGY: Final = ChoiceOption(
    "hoodie.layout.optimize.strategy", "linear", choices=("linear", "z-order", "hilbert")
)
CLUSTERING_COLUMNS: Final = NamesOption("hoodie.clustering.plan.strategy.sort.columns", "")
CLUSTERING_FILE_SIZE: Final = NumberOption(
    "hoodie.clustering.plan.strategy.target.file.max.bytes", "125829120", least=1024
)
CLUSTERING_SMALL_FILES: Final = NumberOption(
    "hoodie.clustering.plan.strategy.small.file.limit", "9" * 18, least=0
)
CLUSTERING_PARTITIONS: Final = NamesOption("hoodie.clustering.plan.strategy.partition.selected", "")
CLUSTERING_PATTERN: Final = TextOption(
    "hoodie.clustering.plan.strategy.partition.regex.pattern", ""
)
CLUSTERING_FILTER: Final = ChoiceOption(
    "hoodie.clustering.plan.partition.filter.mode",
    "NONE",
    choices=("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
)
CLUSTERING_DAYS: Final = NumberOption(
    "hoodie.clustering.plan.strategy.daybased.lookback.partitions", "2"
)
CLUSTERING_DAYS_SKIPPED: Final = NumberOption(
    "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions", "0", least=0
)
CLUSTERING_BEGIN: Final = TextOption("hoodie.clustering.plan.strategy.cluster.begin.partition", "")
CLUSTERING_END: Final = TextOption("hoodie.clustering.plan.strategy.cluster.end.partition", "")
CLUSTERING_MOST_GROUPS: Final = NumberOption("hoodie.clustering.plan.strategy.max.num.groups", "30")
CLUSTERING_GROUP_BYTES: Final = NumberOption(
    "hoodie.clustering.plan.strategy.max.bytes.per.group", "2147483648"
)
CLUSTERING_LONE_FILES: Final = FlagOption(
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled", "true"
)
CLUSTERING_PLAN_CLASS: Final = TextOption(
    "hoodie.clustering.plan.strategy.class",
    "org.apache.hudi.client.clustering.plan.strategy.SparkSizeBasedClusteringPlanStrategy",
)
CLUSTERING_RUN_CLASS: Final = TextOption(
    "hoodie.clustering.execution.strategy.class",
    "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy",
)
CLUSTERING_KEEPS_META: Final = FlagOption("hoodie.clustering.preserve.commit.metadata", "true")

# Duplicates in the input.
COMBINE_BEFORE_INSERT: Final = FlagOption("hoodie.combine.before.insert", "false")
INSERT_DUPLICATES: Final = ChoiceOption(
    "hoodie.datasource.insert.dup.policy", "none", choices=("none", "drop", "fail")
)
ALLOW_DUPLICATE_INSERTS: Final = FlagOption("hoodie.merge.allow.duplicate.on.inserts", "true")
DROP_DUPLICATES: Final = FlagOption("hoodie.datasource.write.insert.drop.duplicates", "false")

# Columns of the table that the rows leave out.
NULL_FOR_MISSING: Final = FlagOption("hoodie.write.set.null.for.missing.columns", "false")
RECONCILE_SCHEMA: Final = FlagOption("hoodie.datasource.write.reconcile.schema", "false")
DROP_MISSING: Final = FlagOption(
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop", "false"
)

# Bloom filters in footers.
BLOOM_ENTRIES: Final = NumberOption("hoodie.index.bloom.num_entries", "60000", most=100_000_000)
BLOOM_ERROR_RATE: Final = RateOption("hoodie.index.bloom.fpp", "0.000000001")

# The metadata table.
METADATA_ENABLE: Final = FlagOption("hoodie.metadata.enable", "true")
COLUMN_STATS: Final = FlagOption("hoodie.metadata.index.column.stats.enable", "true")
COLUMN_STATS_COLUMNS: Final = NamesOption("hoodie.metadata.index.column.stats.column.list", "")
COLUMN_STATS_MOST_COLUMNS: Final = NumberOption(
    "hoodie.metadata.index.column.stats.max.columns.to.index", "32", most=100_000
)
PARTITION_STATS: Final = FlagOption("hoodie.metadata.index.partition.stats.enable", "true")
BLOOM_FILTERS: Final = FlagOption("hoodie.metadata.index.bloom.filter.enable", "false")
GLOBAL_RECORD_INDEX: Final = FlagOption(
    "hoodie.metadata.global.record.level.index.enable",
    "false",
    ("hoodie.metadata.record.index.enable",),
)
PARTITIONED_RECORD_INDEX: Final = FlagOption(
    "hoodie.metadata.record.level.index.enable",
    "false",
    ("hoodie.metadata.partitioned.record.index.enable",),
)
COLUMN_STATS_GROUPS: Final = NumberOption(
    "hoodie.metadata.index.column.stats.file.group.count", "2", most=10_000
)
PARTITION_STATS_GROUPS: Final = NumberOption(
    "hoodie.metadata.index.partition.stats.file.group.count", "1", most=10_000
)
BLOOM_FILTER_GROUPS: Final = NumberOption(
    "hoodie.metadata.index.bloom.filter.file.group.count", "4", most=10_000
)
GLOBAL_RECORD_INDEX_LEAST_GROUPS: Final = NumberOption(
    "hoodie.metadata.global.record.level.index.min.filegroup.count",
    "10",
    ("hoodie.metadata.record.index.min.filegroup.count",),
    most=100_000,
)
GLOBAL_RECORD_INDEX_MOST_GROUPS: Final = NumberOption(
    "hoodie.metadata.global.record.level.index.max.filegroup.count",
    "10000",
    ("hoodie.metadata.record.index.max.filegroup.count",),
    most=100_000,
)
PARTITIONED_RECORD_INDEX_LEAST_GROUPS: Final = NumberOption(
    "hoodie.metadata.record.level.index.min.filegroup.count",
    "1",
    ("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    most=100_000,
)
PARTITIONED_RECORD_INDEX_MOST_GROUPS: Final = NumberOption(
    "hoodie.metadata.record.level.index.max.filegroup.count",
    "10",
    ("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    most=100_000,
)
RECORD_INDEX_GROUP_SIZE: Final = NumberOption(
    "hoodie.metadata.record.index.max.filegroup.size", "1073741824", least=1024
)
RECORD_INDEX_GROWTH: Final = FactorOption("hoodie.metadata.record.index.growth.factor", "2.0")
EXPRESSION_TIME_ZONE: Final = TextOption("lakedex.expression.time.zone", "")
EXPRESSION_COLUMN: Final = TextOption("hoodie.metadata.index.expression.column", "")
EXPRESSION_OPTIONS: Final = TextOption("hoodie.metadata.index.expression.options", "")
EXPRESSION_TYPE: Final = TextOption("hoodie.expression.index.type", "")
SECONDARY_COLUMN: Final = TextOption("hoodie.metadata.index.secondary.column", "")
INDEX_NAME: Final = TextOption("hoodie.index.name", "")
INDEX_MAINTENANCE: Final = ChoiceOption(
    "lakedex.index.maintenance", "sync", choices=("sync", "async")
)
RESHARD_INLINE: Final = FlagOption("lakedex.record.index.reshard.inline", "false")
REFRESH_INDEXES_AFTER: Final = NumberOption(
    "lakedex.index.refresh.inline.max.commits", "0", least=0, most=1_000_000
)
METADATA_COMPACT_AFTER: Final = NumberOption(
    "hoodie.metadata.compact.max.delta.commits", "10", most=1_000_000
)

METADATA_LOG_COMPACT: Final = FlagOption("hoodie.metadata.log.compaction.enable", "false")
LOG_COMPACT: Final = FlagOption("hoodie.log.compaction.enable", "false")
METADATA_LOG_COMPACT_AFTER: Final = NumberOption(
    "hoodie.metadata.log.compaction.blocks.threshold", "5", least=2, most=1_000_000
)

# Cleaning and archiving.
CLEAN_AUTOMATIC: Final = FlagOption("hoodie.clean.automatic", "true")
CLEAN_POLICY: Final = ChoiceOption(
    "hoodie.clean.policy",
    "KEEP_LATEST_COMMITS",
    ("hoodie.cleaner.policy",),
    choices=("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"),
)
CLEAN_COMMITS: Final = NumberOption(
    "hoodie.clean.commits.retained", "10", ("hoodie.cleaner.commits.retained",), most=1_000_000
)
CLEAN_HOURS: Final = NumberOption(
    "hoodie.clean.hours.retained", "24", ("hoodie.cleaner.hours.retained",), most=1_000_000
)
CLEAN_VERSIONS: Final = NumberOption(
    "hoodie.clean.fileversions.retained",
    "3",
    ("hoodie.cleaner.fileversions.retained",),
    most=1_000_000,
)
CLEAN_AFTER_COMMITS: Final = NumberOption(
    "hoodie.clean.trigger.max.commits", "5", ("hoodie.clean.max.commits",), most=1_000_000
)
CLEAN_INCREMENTAL: Final = FlagOption(
    "hoodie.clean.incremental.enabled", "true", ("hoodie.cleaner.incremental.mode",)
)
ARCHIVE_AUTOMATIC: Final = FlagOption("hoodie.archive.automatic", "true")
KEEP_LEAST: Final = NumberOption("hoodie.keep.min.commits", "20", most=1_000_000)
KEEP_MOST: Final = NumberOption("hoodie.keep.max.commits", "30", most=1_000_000)
ARCHIVE_BEYOND_SAVEPOINT: Final = FlagOption("hoodie.archive.beyond.savepoint", "false")
HISTORY_BATCH: Final = NumberOption(
    "hoodie.timeline.compaction.batch.size", "10", least=2, most=10_000
)

# Partitions that expire, dropped by a call.
TTL_POLICY: Final = ChoiceOption(
    "hoodie.partition.ttl.management.strategy.type",
    "KEEP_BY_TIME",
    ("hoodie.partition.ttl.strategy.type",),
    choices=("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"),
)
TTL_DAYS: Final = NumberOption("hoodie.partition.ttl.strategy.days.retain", "-1", least=-1)
TTL_MOST_PARTITIONS: Final = NumberOption(
    "hoodie.partition.ttl.strategy.max.delete.partitions", "1000"
)

# What commits say besides.
COMMIT_NOTES: Final = TextOption("hoodie.datasource.write.commitmeta.key.prefix", "_")

# Services beside writes.
TABLE_SERVICES: Final = FlagOption("hoodie.table.services.enabled", "true")
COMPACT_INLINE: Final = FlagOption("hoodie.compact.inline", "false")
COMPACT_ASYNC: Final = FlagOption("hoodie.datasource.compaction.async.enable", "true")
SCHEDULE_COMPACTION_INLINE: Final = FlagOption("hoodie.compact.schedule.inline", "false")
COMPACT_AFTER_COMMITS: Final = NumberOption("hoodie.compact.inline.max.delta.commits", "5")
COMPACT_AFTER_SECONDS: Final = NumberOption("hoodie.compact.inline.max.delta.seconds", "3600")
COMPACTION_TRIGGER: Final = ChoiceOption(
    "hoodie.compact.inline.trigger.strategy",
    "NUM_COMMITS",
    choices=(
        "NUM_COMMITS",
        "NUM_COMMITS_AFTER_LAST_REQUEST",
        "TIME_ELAPSED",
        "NUM_AND_TIME",
        "NUM_OR_TIME",
    ),
)
COMPACTION_STRATEGY: Final = TextOption(
    "hoodie.compaction.strategy",
    "org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy",
)
COMPACTION_TARGET_IO: Final = NumberOption("hoodie.compaction.target.io", "512000")
COMPACTION_LOG_SIZE: Final = NumberOption("hoodie.compaction.logfile.size.threshold", "0", least=0)
COMPACTION_LOG_COUNT: Final = NumberOption("hoodie.compaction.logfile.num.threshold", "0", least=0)
COMPACTION_DAY_PARTITIONS: Final = NumberOption(
    "hoodie.compaction.daybased.target.partitions", "10"
)
COMPACTION_PATTERN: Final = TextOption("hoodie.compaction.partition.path.regex", "")
CLUSTER_INLINE: Final = FlagOption(
    "hoodie.clustering.inline", "false", ("hoodie.datasource.clustering.inline.enable",)
)
SCHEDULE_CLUSTERING_INLINE: Final = FlagOption("hoodie.clustering.schedule.inline", "false")
CLUSTER_AFTER_COMMITS: Final = NumberOption("hoodie.clustering.inline.max.commits", "4")

# Many writers.
LOCK_WAIT_MS: Final = NumberOption("hoodie.write.lock.wait_time_ms", "60000", least=0)
LOCK_RETRY_WAIT_MS: Final = NumberOption("hoodie.write.lock.wait_time_ms_between_retry", "1000")
LOCK_VALIDITY_S: Final = NumberOption(
    "hoodie.write.lock.storage.validity.timeout.secs", "300", least=10, most=86_400
)
LOCK_RENEWAL_S: Final = NumberOption(
    "hoodie.write.lock.storage.renew.interval.secs", "30", most=86_400
)
HEARTBEAT_MS: Final = NumberOption(
    "hoodie.client.heartbeat.interval_in_ms", "60000", least=1000, most=86_400_000
)
HEARTBEAT_MISSES: Final = NumberOption(
    "hoodie.client.heartbeat.tolerable.misses", "2", most=1_000_000
)
EARLY_CONFLICTS: Final = FlagOption(
    "hoodie.write.concurrency.early.conflict.detection.enable", "false"
)

OBEYED: Final[tuple[TextOption, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, TextOption)
)
"""All options of this module."""
