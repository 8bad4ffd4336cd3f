"""Where the effect of each served option is shown: no option is served in name only."""

from __future__ import annotations

from pathlib import Path

from lakedex.config.option_check import Verdict, hudi_options
from lakedex.config.restated_options import RESTATED, is_timebased
from lakedex.config.write_option_names import OBEYED

TESTS = Path(__file__).parents[2]
SHOWN = {
    "spark/test_data_source_writes.py": """
        hoodie.datasource.write.operation
        hoodie.datasource.write.partitions.to.delete
    """,
    "spark/test_bucket_tables.py": """
        hoodie.bucket.index.query.pruning
    """,
    "spark/test_hudi_insert_cases.py": """
        hoodie.spark.sql.insert.into.operation
        hoodie.sql.bulk.insert.enable
        hoodie.sql.insert.mode
    """,
    "spark/test_insert_overwrite.py": """
        hoodie.datasource.overwrite.mode
    """,
    "spark/test_option_names.py": """
        hoodie.datasource.write.streaming.checkpoint.identifier
        hoodie.partition.ttl.management.strategy.type
        hoodie.partition.ttl.strategy.days.retain
        hoodie.partition.ttl.strategy.max.delete.partitions
    """,
    "spark/test_query_walk.py": """
        hoodie.datasource.query.type
        hoodie.datasource.read.begin.instanttime
        hoodie.datasource.view.type
        hoodie.enable.data.skipping
    """,
    "spark/test_sql_columns.py": """
        hoodie.schema.on.read.enable
    """,
    "spark/test_sql_tables.py": """
        hoodie.query.as.ro.table
    """,
    "spark/test_streaming.py": """
        hoodie.datasource.query.incremental.format
        hoodie.datasource.streaming.startOffset
    """,
    "unit/cli/test_cli_compact.py": """
        hoodie.compaction.strategy
    """,
    "unit/config/test_write_options.py": """
        hoodie.datasource.compaction.async.enable
        hoodie.log.compaction.enable
        hoodie.metadata.index.bloom.filter.file.group.count
        hoodie.metadata.index.column.stats.enable
        hoodie.metadata.index.partition.stats.enable
        hoodie.write.lock.wait_time_ms_between_retry
    """,
    "unit/index/test_mdt_creation.py": """
        hoodie.metadata.compact.max.delta.commits
    """,
    "unit/index/test_mdt_log_compaction.py": """
        hoodie.metadata.log.compaction.blocks.threshold
        hoodie.metadata.log.compaction.enable
    """,
    "unit/read/test_change_stream.py": """
        hoodie.datasource.read.incr.fallback.fulltablescan.enable
    """,
    "unit/services/test_async_expressions.py": """
        hoodie.metadata.index.async
    """,
    "unit/services/test_async_indexing.py": """
        hoodie.metadata.global.record.level.index.max.filegroup.count
        hoodie.metadata.global.record.level.index.min.filegroup.count
    """,
    "unit/services/test_async_maintenance.py": """
        hoodie.index.name
        hoodie.metadata.index.secondary.column
    """,
    "unit/services/test_clustering.py": """
        hoodie.clustering.plan.strategy.class
        hoodie.clustering.plan.strategy.partition.selected
        hoodie.clustering.plan.strategy.small.file.limit
        hoodie.clustering.plan.strategy.sort.columns
        hoodie.clustering.plan.strategy.target.file.max.bytes
        hoodie.clustering.preserve.commit.metadata
        hoodie.layout.optimize.strategy
    """,
    "unit/services/test_clustering_limits.py": """
        hoodie.clustering.execution.strategy.class
        hoodie.clustering.plan.partition.filter.mode
        hoodie.clustering.plan.strategy.cluster.begin.partition
        hoodie.clustering.plan.strategy.cluster.end.partition
        hoodie.clustering.plan.strategy.daybased.lookback.partitions
        hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions
        hoodie.clustering.plan.strategy.max.bytes.per.group
        hoodie.clustering.plan.strategy.max.num.groups
        hoodie.clustering.plan.strategy.partition.regex.pattern
        hoodie.clustering.plan.strategy.single.group.clustering.enabled
    """,
    "unit/services/test_clustering_races.py": """
        hoodie.write.num.retries.on.conflict.failures
    """,
    "unit/services/test_compaction.py": """
        hoodie.compact.inline
        hoodie.compact.inline.max.delta.commits
        hoodie.compact.inline.max.delta.seconds
        hoodie.compact.inline.trigger.strategy
        hoodie.compact.schedule.inline
        hoodie.compaction.daybased.target.partitions
        hoodie.compaction.logfile.num.threshold
        hoodie.compaction.logfile.size.threshold
        hoodie.compaction.partition.path.regex
        hoodie.compaction.target.io
    """,
    "unit/services/test_indexes_by_options.py": """
        hoodie.metadata.index.expression.column
        hoodie.metadata.index.expression.options
    """,
    "unit/services/test_lost_timeline.py": """
        hoodie.clean.trigger.max.commits
    """,
    "unit/services/test_plain_columns.py": """
        hoodie.metadata.index.column.stats.column.list
    """,
    "support/resizing.py": """
        hoodie.clustering.updates.strategy
    """,
    "unit/services/test_rollback_and_restore.py": """
        hoodie.clean.fileversions.retained
        hoodie.clean.policy
    """,
    "unit/services/test_scheduled_clustering.py": """
        hoodie.clustering.schedule.inline
    """,
    "unit/upkeep/test_after_commits.py": """
        hoodie.archive.automatic
        hoodie.clean.automatic
    """,
    "unit/upkeep/test_archiving.py": """
        hoodie.keep.max.commits
        hoodie.keep.min.commits
    """,
    "unit/upkeep/test_archiving_beyond_savepoints.py": """
        hoodie.archive.beyond.savepoint
    """,
    "unit/upkeep/test_cleaning.py": """
        hoodie.clean.commits.retained
        hoodie.clean.hours.retained
    """,
    "unit/upkeep/test_upkeep_kills.py": """
        hoodie.timeline.compaction.batch.size
    """,
    "unit/write/test_bad_input.py": """
        hoodie.datasource.write.reconcile.schema
        hoodie.datasource.write.schema.allow.auto.evolution.column.drop
        hoodie.write.set.null.for.missing.columns
    """,
    "unit/write/test_bucket_options.py": """
        hoodie.bucket.index.hash.field
        hoodie.bucket.index.max.num.buckets
        hoodie.bucket.index.merge.threshold
        hoodie.bucket.index.min.num.buckets
        hoodie.bucket.index.num.buckets
        hoodie.bucket.index.partition.expressions
        hoodie.bucket.index.partition.rule.type
        hoodie.bucket.index.split.threshold
        hoodie.index.bucket.engine
    """,
    "unit/write/test_bulk_sort.py": """
        hoodie.bulkinsert.sort.mode
        hoodie.bulkinsert.user.defined.partitioner.sort.columns
        hoodie.parquet.max.file.size
    """,
    "unit/write/test_commit_notes.py": """
        hoodie.datasource.write.commitmeta.key.prefix
    """,
    "unit/write/test_early_conflicts.py": """
        hoodie.write.concurrency.early.conflict.detection.enable
    """,
    "unit/write/test_metadata_build.py": """
        hoodie.metadata.index.column.stats.file.group.count
    """,
    "unit/write/test_option_effects.py": """
        as.of.instant
        hoodie.clean.incremental.enabled
        hoodie.client.heartbeat.interval_in_ms
        hoodie.client.heartbeat.tolerable.misses
        hoodie.clustering.inline
        hoodie.clustering.inline.max.commits
        hoodie.datasource.read.end.instanttime
        hoodie.datasource.read.end.timestamp
        hoodie.datasource.read.start.timestamp
        hoodie.datasource.write.insert.drop.duplicates
        hoodie.index.bloom.fpp
        hoodie.index.bloom.num_entries
        hoodie.metadata.global.record.level.index.enable
        hoodie.metadata.index.bloom.filter.enable
        hoodie.metadata.index.partition.stats.file.group.count
        hoodie.metadata.record.index.growth.factor
        hoodie.metadata.record.index.max.filegroup.size
        hoodie.metadata.record.level.index.enable
        hoodie.metadata.record.level.index.max.filegroup.count
        hoodie.metadata.record.level.index.min.filegroup.count
        hoodie.parquet.compression.codec
        hoodie.table.services.enabled
        hoodie.write.lock.storage.renew.interval.secs
        hoodie.write.lock.storage.validity.timeout.secs
        hoodie.write.lock.wait_time_ms
    """,
    "unit/write/test_own_expressions.py": """
        hoodie.expression.index.type
    """,
    "unit/write/test_record_index_size.py": """
        hoodie.metadata.enable
    """,
    "unit/write/test_regressions_review.py": """
        hoodie.datasource.insert.dup.policy
    """,
    "unit/write/test_repeated_keys.py": """
        hoodie.merge.allow.duplicate.on.inserts
    """,
    "unit/write/test_row_versions.py": """
        hoodie.combine.before.insert
        hoodie.record.index.update.partition.path
    """,
    "unit/write/test_stat_column_options.py": """
        hoodie.metadata.index.column.stats.max.columns.to.index
    """,
    "unit/write/test_tag_hints.py": """
        hoodie.bloom.index.use.metadata
    """,
    "unit/write/test_tag_places.py": """
        hoodie.bloom.index.update.partition.path
        hoodie.index.type
        hoodie.simple.index.update.partition.path
    """,
    "unit/write/test_write_order.py": """
        hoodie.parquet.small.file.limit
        hoodie.write.sort.columns
    """,
}
"""The test file that shows what an option does, with the options below it."""
OLDER = {name for option in OBEYED for name in option.older_names}


def test_every_served_option_has_a_test_of_its_effect():
    """Options that are compared with the table, and older names, are all in one test each.

    Those are in `tests/unit/write/test_option_effects.py`.
    """
    served = {each.name for each in hudi_options() if each.verdict is Verdict.SERVED}
    compared = {name for name in served if name in RESTATED or is_timebased(name)}
    listed = [name for names in SHOWN.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert set(listed) == served - compared - OLDER


def test_the_tests_name_the_options():
    for path, names in SHOWN.items():
        text = (TESTS / path).read_text(encoding="utf-8").replace("__", ".").replace("_", ".")
        for name in names.split():
            # A test may put a name together from its beginning and its end.
            end = name.split(".")[-1].replace("_", ".")
            assert end in text, f"{path} says nothing of {name}"
