"""Options of Hudi that a lakedex write accepts and leaves alone.

They tune the JVM (parallelism, memory, storage levels), ask for services that have calls of
their own here, or talk to systems outside of the table. A Hudi script that sets them runs
unchanged. Families that lakedex never reads are accepted by their prefix.
"""

from __future__ import annotations

from typing import Final

_DATASOURCE: Final = """
    write.operation write.schema write.row.writer.enable
    write.streaming.ignore.failed.batch write.streaming.retry.count
    write.streaming.retry.interval.ms write.streaming.checkpoint.identifier
    write.streaming.disable.compaction write.commitmeta.key.prefix
    write.new.columns.nullable
    write.partitions.to.delete write.dbname
    clustering.async.enable
    query.type query.incremental.format read.paths read.begin.instanttime
    read.end.instanttime read.incr.path.glob read.enable.data.skipping
    read.extract.partition.values.from.path
    read.file.index.listing.mode read.incr.fallback.fulltablescan.enable read.table.version
    overwrite.mode read.create.filesystem.relation read.streaming.skip_insert_overwrite
"""

_WRITE: Final = """
    hoodie.insert.shuffle.parallelism hoodie.upsert.shuffle.parallelism
    hoodie.bulkinsert.shuffle.parallelism hoodie.delete.shuffle.parallelism
    hoodie.rollback.parallelism hoodie.finalize.write.parallelism
    hoodie.markers.delete.parallelism hoodie.archive.delete.parallelism
    hoodie.file.listing.parallelism hoodie.write.status.storage.level
    hoodie.write.tagged.record.storage.level hoodie.write.markers.type
    hoodie.markers.timeline_server_based.batch.num_threads
    hoodie.markers.timeline_server_based.batch.interval_ms
    hoodie.write.concurrency.mode hoodie.write.num.retries.on.conflict.failures
    hoodie.write.concurrency.early.conflict.detection.strategy
    hoodie.write.concurrency.early.conflict.check.commit.conflict
    hoodie.write.concurrency.schema.conflict.resolution.enable
    hoodie.write.commit.callback.on hoodie.write.commit.callback.class
    hoodie.write.commit.callback.http.url hoodie.write.commit.callback.http.timeout.seconds
    hoodie.write.complex.keygen.new.encoding hoodie.write.complex.keygen.validation.enable
    hoodie.write.record.positions hoodie.write.partial.updates.enabled
    hoodie.write.auto.upgrade
    hoodie.write.buffer.limit.bytes hoodie.write.executor.type
    hoodie.write.executor.disruptor.buffer.limit.bytes
    hoodie.write.executor.disruptor.wait.strategy hoodie.write.track.event.time.watermark
    hoodie.write.num.rows.to.sample
    hoodie.auto.commit hoodie.auto.adjust.lock.configs hoodie.avro.schema
    hoodie.avro.schema.validate hoodie.avro.schema.external.transformation hoodie.write.schema
    hoodie.schema.on.read.enable hoodie.combine.before.delete
    hoodie.bulkinsert.user.defined.partitioner.class
    hoodie.copyonwrite.insert.split.size hoodie.copyonwrite.insert.auto.split
    hoodie.record.size.estimation.threshold hoodie.record.size.estimator.class
    hoodie.merge.small.file.group.candidates.limit hoodie.merge.data.validation.enabled
    hoodie.merge.handle.class
    hoodie.create.handle.class hoodie.append.handle.class hoodie.concat.handle.class
    hoodie.allow.empty.commit hoodie.allow.operation.metadata.field
    hoodie.fail.writes.on.inline.table.service.exception
    hoodie.fail.on.timeline.archiving hoodie.fail.job.on.duplicate.data.file.detection
    hoodie.release.resource.on.completion.enable hoodie.rollback.using.markers
    hoodie.rollback.instant.backup.enabled hoodie.consistency.check.enabled
    hoodie.client.init.callback.classes hoodie.skip.default.partition.validation
    hoodie.sensitive.config.keys hoodie.spillable.diskmap.type
    hoodie.optimized.log.blocks.scan.enable
    hoodie.table.services.incremental.enabled
    hoodie.timeline.server.based.instants.load hoodie.write.ignore.failed hoodie.base.path
    hoodie.storage.layout.type hoodie.storage.layout.partitioner.class
    hoodie.parquet.block.size hoodie.parquet.page.size hoodie.parquet.compression.ratio
    hoodie.parquet.dictionary.enabled hoodie.parquet.outputtimestamptype
    hoodie.parquet.writelegacyformat.enabled hoodie.parquet.field_id.write.enabled
    hoodie.parquet.bloom.filter.enabled hoodie.parquet.read.array.compression.optimization
    hoodie.logfile.max.size hoodie.logfile.data.block.max.size hoodie.logfile.data.block.format
    hoodie.logfile.to.parquet.compression.ratio hoodie.hfile.block.size hoodie.hfile.max.file.size
    hoodie.hfile.compression.algorithm hoodie.orc.max.file.size hoodie.orc.stripe.size
    hoodie.orc.block.size hoodie.orc.compression.codec
    hoodie.sql.insert.mode hoodie.sql.bulk.insert.enable hoodie.sql.origin.keygen.class
    hoodie.spark.sql.insert.into.operation hoodie.spark.sql.optimized.writes.enable
    hoodie.spark.sql.merge.into.partial.updates hoodie.payload.event.time.field
    hoodie.file.index.enable hoodie.file.group.reader.enabled hoodie.reader.merge.type
    hoodie.realtime.merge.skip hoodie.enable.data.skipping
"""

_INDEX: Final = """
    hoodie.bloom.index.parallelism hoodie.bloom.index.prune.by.ranges
    hoodie.bloom.index.use.caching hoodie.bloom.index.use.treebased.filter
    hoodie.bloom.index.bucketized.checking
    hoodie.bloom.index.keys.per.bucket hoodie.bloom.index.input.storage.level
    hoodie.bloom.index.fileid.key.sorting.enable hoodie.simple.index.use.caching
    hoodie.simple.index.parallelism hoodie.simple.index.input.storage.level
    hoodie.global.simple.index.parallelism hoodie.global.index.reconcile.parallelism
    hoodie.record.index.use.caching hoodie.record.index.input.storage.level
    hoodie.bucket.index.query.pruning hoodie.bucket.index.num.buckets
    hoodie.bucket.index.hash.field hoodie.bucket.index.max.num.buckets
    hoodie.bucket.index.min.num.buckets hoodie.bucket.index.split.threshold
    hoodie.bucket.index.merge.threshold hoodie.index.bucket.engine
    hoodie.metadata.index.async hoodie.metadata.metrics.enable
    hoodie.metadata.dir.filter.regex hoodie.metadata.index.bloom.filter.parallelism
    hoodie.metadata.index.bloom.filter.column.list hoodie.metadata.index.column.stats.parallelism
    hoodie.metadata.index.column.stats.processing.mode.override
    hoodie.metadata.index.column.stats.inMemory.projection.threshold
    hoodie.metadata.index.check.timeout.seconds hoodie.metadata.optimized.log.blocks.scan.enable
    hoodie.metadata.max.deltacommits.when_pending hoodie.metadata.max.init.parallelism
    hoodie.metadata.max.reader.memory hoodie.metadata.max.reader.buffer.size
    hoodie.metadata.spillable.map.path hoodie.metadata.max.logfile.size
    hoodie.metadata.auto.initialize hoodie.metadata.auto.delete.partitions
    hoodie.metadata.index.expression.enable hoodie.metadata.index.expression.file.group.count
    hoodie.metadata.index.expression.parallelism hoodie.metadata.index.partition.stats.parallelism
    hoodie.metadata.index.secondary.enable hoodie.metadata.index.secondary.parallelism
    hoodie.metadata.range.repartition.sampling.fraction
    hoodie.metadata.range.repartition.target.records.per.partition
    hoodie.metadata.range.repartition.random.seed
    hoodie.metadata.repartition.min.partitions.threshold
    hoodie.metadata.repartition.default.partitions hoodie.metadata.file.cache.max.size.mb
    hoodie.metadata.bloom.filter.enable hoodie.metadata.bloom.filter.type
    hoodie.metadata.bloom.filter.num.entries hoodie.metadata.bloom.filter.fpp
    hoodie.metadata.bloom.filter.dynamic.max.entries
    hoodie.metadata.record.preparation.parallelism hoodie.metadata.streaming.write.enabled
    hoodie.metadata.streaming.write.datatable.write.statuses.coalesce.divisor
    hoodie.metadata.clean.async hoodie.metadata.cleaner.commits.retained
    hoodie.metadata.keep.min.commits hoodie.metadata.keep.max.commits
    hoodie.metadata.populate.meta.fields hoodie.metadata.insert.parallelism
    hoodie.metadata.write.concurrency.mode hoodie.metadata.validate
"""

_SERVICES: Final = """
    hoodie.compaction.lazy.block.read hoodie.compaction.reverse.log.read
    hoodie.compaction.sort.merge hoodie.compaction.external.sorter.type
    hoodie.compaction.progress.log.internal.num hoodie.compaction.magnification.ratio.base.file
    hoodie.compaction.magnification.ratio.log.file
    hoodie.log.compaction.inline hoodie.log.compaction.blocks.threshold
    hoodie.log.compaction.inline.max.delta.commits
    hoodie.clean.async hoodie.clean.async.enabled
    hoodie.clean.parallelism
    hoodie.clean.allow.multiple hoodie.clean.delete.bootstrap.base.file
    hoodie.clean.multiple.enabled hoodie.clean.optimization.with.local.engine
    hoodie.cleaner.parallelism hoodie.cleaner.delete.bootstrap.base.file
    hoodie.cleaner.policy.bounds
    hoodie.commits.archival.batch
    hoodie.table.cdc.enabled hoodie.table.cdc.supplemental.logging.mode
    hoodie.archive.async hoodie.archive.merge.enable
    hoodie.archive.merge.files.batch.size hoodie.archive.merge.small.file.limit.bytes
    hoodie.clustering.async.enabled hoodie.clustering.async.max.commits
    hoodie.clustering.max.parallelism hoodie.clustering.group.read.parallelism
    hoodie.file.stitching.binary.copy.schema.evolution.enable
    hoodie.clustering.rollback.pending.replacecommit.on.conflict
    hoodie.layout.optimize.enable
    hoodie.layout.optimize.curve.build.method hoodie.layout.optimize.data.skipping.enable
    hoodie.layout.optimize.build.curve.sample.size
    hoodie.savepoint.user hoodie.savepoint.comments
"""

_LOCKS: Final = """
    hoodie.write.lock.num_retries hoodie.write.lock.client.num_retries
    hoodie.write.lock.client.wait_time_ms_between_retry
    hoodie.write.lock.max_wait_time_ms_between_retry
    hoodie.write.lock.filesystem.expire hoodie.write.lock.heartbeat_interval_ms
    hoodie.write.lock.conflict.resolution.strategy hoodie.write.lock.audit.enabled
"""

_TUNING: Final = """
    hoodie.record.size.estimator.max.commits hoodie.record.size.estimator.average.metadata.size
    hoodie.write.buffer.record.sampling.rate hoodie.write.buffer.record.cache.limit
    hoodie.write.lock.storage.heartbeat.poll.secs hoodie.bulkinsert.sort.suffix.record_key
    hoodie.write.concurrency.async.conflict.detector.initial_delay_ms
    hoodie.write.concurrency.async.conflict.detector.period_ms
    hoodie.block.writes.on.speculative.execution hoodie.rollback.avoid.duplicate.plan
    hoodie.rollback.instant.backup.dir hoodie.timeline.compaction.target.file.max.bytes
    hoodie.timeline.manifest.retained.versions hoodie.metadata.compact.trigger.strategy
    hoodie.metadata.compact.max.delta.seconds hoodie.metadata.fallback.enable
    hoodie.metadata.ignore.spurious.deletes hoodie.clean.optimize.using.local.engine.context
    hoodie.clustering.plan.generation.use.local.engine.context
    hoodie.expression.index.range.metadata.storage.level
    hoodie.bloom.index.bucketized.checking.enable.dynamic.parallelism
"""

_OF_READERS: Final = """
    hoodie.datasource.view.type hoodie.datasource.merge.type
    hoodie.datasource.streaming.startOffset hoodie.read.timeline.holes.resolution.policy
    hoodie.merge.use.record.positions hoodie.cdc.file.group.iterator.memory.spill.bytes
"""
"""Scripts hand the same options to readers and writers."""

_PREFIXES: Final = (
    "hoodie.datasource.read.",
    "hoodie.time.generator.",
    "hoodie.consistency.check.",
    "hoodie.optimistic.consistency.guard.",
    "hoodie.file.index.cache.",
    "hoodie.hfile.block.cache.",
    "hoodie.datasource.hive_sync.",
    "hoodie.datasource.meta.sync.",
    "hoodie.datasource.meta_sync.",
    "hoodie.meta.sync.",
    "hoodie.meta_sync.",
    "hoodie.onehouse.",
    "hoodie.gcp.",
    "hoodie.aws.",
    "hoodie.metrics.",
    "hoodie.streamer.",
    "hoodie.deltastreamer.",
    "hoodie.embed.timeline.",
    "hoodie.filesystem.",
    "hoodie.memory.",
    "hoodie.common.",
    "hoodie.errortable.",
    "hoodie.write.lock.zookeeper.",
    "hoodie.write.lock.hivemetastore.",
    "hoodie.write.lock.dynamodb.",
    "hoodie.write.commit.callback.",
    "hoodie.precommit.validators",
    "hoodie.fs.atomic_creation.",
    "hoodie.bootstrap.",
    "hoodie.index.hbase.",
    "hoodie.hbase.index.",
)
_REFUSED_BY_PREFIX: Final = ("hoodie.deltastreamer.keygen.timebased.", "hoodie.bootstrap.base.path")

IGNORED: Final = frozenset(
    [
        *(f"hoodie.datasource.{name}" for name in _DATASOURCE.split()),
        *_WRITE.split(),
        *_INDEX.split(),
        *_SERVICES.split(),
        *_LOCKS.split(),
        *_TUNING.split(),
        *_OF_READERS.split(),
    ]
)
"""Names of single options that are accepted and ignored."""


def is_ignored(name: str) -> bool:
    """Whether an option is Hudi's, known, and without meaning for a lakedex write.

    Example:
        >>> is_ignored("hoodie.upsert.shuffle.parallelism"), is_ignored("hoodie.upsert.shufle")
        (True, False)
    """
    if name in IGNORED:
        return True
    return name.startswith(_PREFIXES) and not name.startswith(_REFUSED_BY_PREFIX)
