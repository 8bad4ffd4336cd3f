"""A table in a Spark session: the verbs that write, as Spark jobs, and those that only read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from lakedex import api
from lakedex.api import Filter, ReadOptions
from lakedex.config.option_check import is_own_name
from lakedex.config.write_index import bucket_options
from lakedex.config.write_option_names import EXPRESSION_TIME_ZONE
from lakedex.engine import Engine
from lakedex.errors import InvalidInput, LakedexError
from lakedex.index.catalog import IndexInfo
from lakedex.prune import Report
from lakedex.prune.usage import TableUsage
from lakedex.services.advising import Advice
from lakedex.services.clustering import cluster_table, run_clustering, schedule_clustering
from lakedex.services.clustering.resizing import resize_buckets, schedule_resize
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.services.file_index_creating import FileIndexBuild
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.index_estimating import IndexEstimate, estimate_index
from lakedex.services.indexing import BackgroundBuild
from lakedex.services.inline import writer_with_services
from lakedex.services.partition_evolving import evolve_partitions
from lakedex.services.repairing import RepairReport, repair_table
from lakedex.services.rescaling import rescale_buckets
from lakedex.services.resharding import reshard_index
from lakedex.services.restoring import RestoreResult, restore_table
from lakedex.services.rolling_back import RollbackResult, rollback_instant
from lakedex.services.verifying import VerifyReport
from lakedex.spark.expression_checking import SparkJudge
from lakedex.spark.jobs import is_cancelled
from lakedex.spark.jvm_contract import DATA_SOURCE
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.streams import batch_of
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.timeline import (
    QueryTime,
    load_table_config,
    query_time_text,
    update_properties,
)
from lakedex.txn.lock import open_lock
from lakedex.upkeep.archiving import ArchiveResult, archive_table
from lakedex.upkeep.cleaning import CleanResult, clean_table
from lakedex.upkeep.savepoints import Savepoint, create_savepoint, delete_savepoint
from lakedex.write.result import WriteResult
from lakedex.write.row_source import ArrowRowSource, RowSource
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.verbs import TableWriter


class TableViews(ABC):
    """The verbs that look at a table as it is when they are called."""

    @abstractmethod
    def _open(self) -> api.Table:
        """The table as it is now."""

    def indexes(self) -> list[IndexInfo]:
        """Every index of the table: its kind, columns, state and size, and how it was used."""
        return self._open().indexes()

    def usage(self) -> TableUsage:
        """How queries used each index and what it saved, and how columns were compared."""
        return self._open().usage()

    def explain(
        self,
        filter: Filter | None = None,
        as_of: QueryTime | None = None,
        *,
        assuming: Sequence[str] = (),
    ) -> Report:
        """What would be read for a filter, and why; see `lakedex.api.Table.explain`."""
        return self._open().explain(filter, as_of, assuming=assuming)

    def advise(self, name: str | None = None) -> Advice:
        """Indexes to create and to drop; see `lakedex.api.Table.advise`."""
        return self._open().advise(name)

    def verify(self, indexes: Sequence[str] | None = None) -> VerifyReport:
        """Hold every entry of every index, or of some, against the data."""
        return self._open().verify(indexes)


Rows: TypeAlias = "DataFrame | pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream"


class ArrowStream(Protocol):
    """Rows of another library in Arrow's C stream form, such as a pandas or Polars DataFrame."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with the stream."""


Options: TypeAlias = "Mapping[str, str] | None"
_ZONE = "spark.sql.session.timeZone"
_QUERY_TYPE = "hoodie.datasource.query.type"


class SparkTable(TableViews):
    """A Hudi table; every call sees it as it is then.

    The verbs that write take a DataFrame, or rows in Arrow, and `options` with Hudi's names
    (`hoodie.*`) for that one call. Meta columns (`_hoodie_*`) in the rows are ignored.
    """

    def __init__(
        self,
        spark: SparkSession,
        address: StorageAddress,
        engine: Engine,
        batch: StreamBatch | None = None,
        catalog: Options = None,
    ) -> None:
        """Use `Lake.table` or `Lake.create_table`; `catalog` overrides options of all writes."""
        self._catalog = dict(catalog or {})
        self._spark = spark
        self._address = address
        self._engine = engine
        self._batch = batch

    def __repr__(self) -> str:
        return f"SparkTable({self._address.url!r})"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._open().name

    @property
    def path(self) -> str:
        """The URL of the table."""
        return self._address.url

    @property
    def address(self) -> StorageAddress:
        """The same with the settings of its store."""
        return self._address

    @property
    def schema(self) -> pa.Schema:
        """All columns, Hudi's five meta columns first."""
        return self._open().schema

    @property
    def properties(self) -> dict[str, str]:
        """The table's own properties, and the settings that its writers keep."""
        storage = self._address.open()
        own = read_own_properties(storage)
        return {**load_table_config(storage).raw, **own}

    def insert(self, rows: Rows, *, options: Options = None) -> WriteResult:
        """Add rows without looking for their keys."""
        return self._written(self.writer(options).insert(self._source(rows)))

    def upsert(self, rows: Rows, *, options: Options = None) -> WriteResult:
        """Insert rows whose key is new, and update the records of the others."""
        return self._written(self.writer(options).upsert(self._source(rows)))

    def bulk_insert(
        self, rows: Rows, *, sort_by: str | Sequence[str] = (), options: Options = None
    ) -> WriteResult:
        """Add rows in files of their own; for large first loads.

        Args:
            rows: The rows.
            sort_by: Columns that queries filter by: each file of a partition then has a range of
                its own, and the others are not read.
            options: Write options of this call.
        """
        return self._written(self.writer(options).bulk_insert(self._source(rows), sort_by))

    def delete(self, rows_or_condition: Rows | str, *, options: Options = None) -> WriteResult:
        """Delete the records that rows name by their keys, or for which a condition is true.

        Args:
            rows_or_condition: Rows with the key (and partition) columns, or a SQL condition.
            options: Write options of this call.
        """
        writer = self.writer(options)
        if isinstance(rows_or_condition, str):
            found = writer.delete_where(rows_or_condition, time_zone=self.time_zone)
            return self._written(found)
        return self._written(writer.delete(self._source(rows_or_condition)))

    def insert_overwrite(self, rows: Rows, *, options: Options = None) -> WriteResult:
        """Put rows in the place of all that is in the partitions that they belong to."""
        return self._written(self.writer(options).insert_overwrite(self._source(rows)))

    def insert_overwrite_table(self, rows: Rows, *, options: Options = None) -> WriteResult:
        """Put rows in the place of all that is in the table."""
        return self._written(self.writer(options).insert_overwrite_table(self._source(rows)))

    def delete_partitions(
        self, partitions: str | Sequence[str], *, options: Options = None
    ) -> WriteResult:
        """Take whole partitions away, named by their paths such as `city=Oslo`."""
        names = [partitions] if isinstance(partitions, str) else list(partitions)
        return self._written(self.writer(options).delete_partitions(names))

    def upsert_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Upsert one batch of a stream, once: `df.writeStream.foreachBatch(table.upsert_batch)`.

        A batch that Spark runs again after a failure changes nothing if it was committed before.
        """
        batch = batch_of(rows, batch_id)
        try:
            self.of_batch(batch).upsert(rows)
        except LakedexError as error:
            if not is_cancelled(error):
                raise
            # What Spark takes for a query that was stopped, not for one that failed.
            stopped = self._spark._jvm.java.lang.InterruptedException(str(error))
            raise Py4JJavaError(
                "An error occurred while calling foreachBatch.\n", stopped
            ) from None

    def of_batch(self, batch: StreamBatch | None) -> SparkTable:
        """The table as one batch of a stream writes it: what it writes is not written twice."""
        return SparkTable(self._spark, self._address, self._engine, batch, self._catalog)

    def of_catalog(self, properties: Mapping[str, str]) -> SparkTable:
        """The table under a name whose properties in the catalog may request a bucket index."""
        overrides = bucket_options(properties)
        return SparkTable(self._spark, self._address, self._engine, self._batch, overrides)

    def cluster(
        self,
        by: str | Sequence[str] = (),
        strategy: str | None = None,
        where: str | None = None,
        *,
        options: Options = None,
        schedule_only: bool = False,
    ) -> WriteResult:
        """Rewrite the rows in an order by which filters on some columns read few files.

        Args:
            by: The column or columns.
            strategy: `linear` sorts by the first column, then by the next; `zorder` and `hilbert`
                leave out files for a filter on any of them.
            where: A condition on partition columns; only these partitions are rewritten.
            options: Write options of this call, such as
                `hoodie.clustering.plan.strategy.target.file.max.bytes`.
            schedule_only: Plan it and answer the instant; `run_clustering` runs the plan later.
        """
        writer, zone = self.writer(options), self.time_zone
        if schedule_only:
            instant = schedule_clustering(writer, by, strategy, where, time_zone=zone)
            return WriteResult("CLUSTER", instant)
        return self._written(cluster_table(writer, by, strategy, where, time_zone=zone))

    def run_clustering(self, instant: str, *, options: Options = None) -> WriteResult:
        """Run a clustering that was planned before, here or by Hudi."""
        return self._written(run_clustering(self.writer(options), instant))

    def resize(
        self,
        buckets: int | None = None,
        *,
        partitions: str | Sequence[str] = (),
        options: Options = None,
        schedule_only: bool = False,
    ) -> list[WriteResult]:
        """Split the buckets of a bucket index that are too large, and merge those too small.

        Each plan rewrites about 2 GB at most; plans are made and run until nothing is due. A table
        with a fixed number of buckets gets another number, and is written as a whole.

        Args:
            buckets: The new number of buckets, for the engine SIMPLE.
            partitions: The paths of the only partitions that get it.
            options: Options of this call, such as `hoodie.bucket.index.split.threshold`.
            schedule_only: Make one plan and answer its instant; `run_clustering` runs it later.
        """
        writer = self.writer(options)
        names = [partitions] if isinstance(partitions, str) else list(partitions)
        if buckets is not None:
            if schedule_only:
                raise InvalidInput("another number of buckets is not planned apart: leave one out")
            results = [rescale_buckets(writer, buckets, names)]
        elif names:
            raise InvalidInput("partitions are named for another number of buckets only")
        elif schedule_only:
            instant = schedule_resize(writer)
            return [] if instant is None else [WriteResult("CLUSTER", instant)]
        else:
            results = resize_buckets(writer)
        self.refresh()
        return results

    def compact(self, *, options: Options = None) -> WriteResult:
        """Put the log files of a merge-on-read table into new base files.

        Plans that pend are run first, then one for what is left.

        Args:
            options: Options of this call, such as `hoodie.compaction.strategy`.
        """
        return self._written(compact_table(self.writer(options)))

    def schedule_compaction(self, *, options: Options = None) -> str | None:
        """Plan a compaction; its instant, or None when there is nothing to compact."""
        return schedule_compaction(self.writer(options))

    def run_compaction(self, instant: str, *, options: Options = None) -> WriteResult:
        """Run a compaction that was planned before, here or by Hudi."""
        return self._written(run_compaction(self.writer(options), instant))

    def clean(self, *, options: Options = None) -> CleanResult:
        """Remove file versions that no retained commit needs (`hoodie.clean.*`)."""
        return clean_table(self._address, options)

    def archive(self, *, options: Options = None) -> ArchiveResult:
        """Move old instants out of the active timeline (`hoodie.keep.min.commits` and so on)."""
        return archive_table(self._address, options)

    def savepoint(
        self, instant: str | None = None, *, user: str = "", comments: str = ""
    ) -> Savepoint:
        """Keep the files of a commit, by default the newest, until `delete_savepoint`."""
        return create_savepoint(self._address, instant, user=user, comments=comments)

    def delete_savepoint(self, instant: str) -> None:
        """Let cleans remove the files of a commit again."""
        delete_savepoint(self._address, instant)

    def rollback(self, instant: str, *, keeps_plan: bool = False) -> RollbackResult:
        """Take the newest commit back, or an instant that pends; every index is as before.

        With `keeps_plan` a clustering that was begun is planned still, as a compaction always is.
        """
        result = rollback_instant(
            self._address, instant, engine=self._engine, keeps_plan=keeps_plan
        )
        self.refresh()
        return result

    def restore(self, instant: str) -> RestoreResult:
        """Undo everything that was committed after a savepoint, or after a retained commit."""
        result = restore_table(self._address, instant, engine=self._engine)
        self.refresh()
        return result

    def to_df(self, as_of: QueryTime | None = None) -> DataFrame:
        """The rows as of an earlier time, or as they are when Spark runs, meta columns first.

        Filters of Spark's plan prune files by the table's indexes.

        Args:
            as_of: A `datetime`, an instant such as `20260102030405678`, or text such as
                `2026-01-02 03:04:05`.
        """
        reader = self._spark.read.format(DATA_SOURCE)
        if as_of is not None:
            reader = reader.option("as.of.instant", query_time_text(as_of))
        return reader.load(self._address.url)

    def changes(
        self, begin: QueryTime, end: QueryTime | None = None, *, cdc: bool = False
    ) -> DataFrame:
        """The rows written by commits after `begin` and up to `end`, in their newest version.

        Args:
            begin: A time as for `to_df`, compared with completion times, or `earliest`.
            end: A time; by default the completion time of the newest instant when Spark runs.
            cdc: Return what commits did to rows: `op`, `ts_ms`, `before`, `after`. As in Hudi,
                `begin` and `end` are then compared with the times at which commits began.
        """
        reader = self._spark.read.format(DATA_SOURCE).option(_QUERY_TYPE, "incremental")
        if cdc:
            reader = reader.option("hoodie.datasource.query.incremental.format", "cdc")
        reader = reader.option("hoodie.datasource.read.begin.instanttime", query_time_text(begin))
        if end is not None:
            reader = reader.option("hoodie.datasource.read.end.instanttime", query_time_text(end))
        return reader.load(self._address.url)

    def to_stream(self, options: Options = None) -> DataFrame:
        """The rows of the table as a stream, then those of every commit to come.

        Args:
            options: Where it starts (`hoodie.datasource.streaming.startOffset`: `earliest`,
                `latest` or an instant) and how much a batch takes (`maxCommitsPerTrigger`,
                `maxBytesPerTrigger`).
        """
        reader = self._spark.readStream.format(DATA_SOURCE).options(**dict(options or {}))
        return reader.load(self._address.url)

    def repair(
        self, indexes: Sequence[str] | None = None, *, accepts_data_loss: bool = False
    ) -> RepairReport:
        """Make every index, or some, agree with the data again; the data stays as it is.

        Args:
            indexes: Only these.
            accepts_data_loss: Whether to go on without data files that are gone.
        """
        return repair_table(self.writer(), indexes, accepts_data_loss=accepts_data_loss)

    def reshard_index(self, index: str, file_groups: int) -> None:
        """Give the record index another number of file groups; the data is not read."""
        reshard_index(self._address, self._engine, index, file_groups)

    def create_index(
        self,
        name: str,
        columns: str | Sequence[str],
        *,
        using: str = "",
        options: Options = None,
        if_missing: bool = False,
        wait: bool = True,
    ) -> WriteResult | BackgroundBuild | FileIndexBuild | None:
        """Build an index, such as a secondary one; see `services.index_creating.create_index`.

        Args:
            name: What it is called.
            columns: Its column, or an expression such as `upper(name)`.
            using: Its kind, `secondary_index` unless the name says another, and `column_stats` of
                an expression.
            options: Write options of the build and of all later writes; `expr` is the function of
                an expression index, beside its arguments.
            if_missing: Do nothing when it is there already.
            wait: Build it now; else in the background, while writers go on.
        """
        return create_index(
            self.writer(), name, columns, using=using, options=options, if_missing=if_missing,
            wait=wait, check=SparkJudge(self._spark, lambda: self.snapshot),
        )  # fmt: skip

    def drop_index(self, name: str, *, with_dependents: bool = False) -> None:
        """Take an index away; later writes do not make it again.

        Args:
            name: The index.
            with_dependents: Whether secondary indexes go with the record index that they need.
        """
        patience = self.writer().target().patience
        drop_index(self._address, name, patience, with_dependents=with_dependents)

    def estimate_index(
        self,
        column: str | Sequence[str],
        growth: float = 1.0,
        *,
        using: str = "",
        options: Mapping[str, str] | None = None,
    ) -> IndexEstimate:
        """What an index on a column would cost and bring, from a sample of the table.

        Args:
            column: The column.
            growth: How many times as many rows the table will have.
            using: A kind whose indexes describe single files; by default a
                secondary index is estimated.
            options: The options of such an index.
        """
        return estimate_index(
            self.snapshot, column, using=using, options=options, growth=growth, engine=self._engine
        )

    def refresh_index(self, name: str, *, rebuild: bool = False) -> None:
        """Bring an index up to date that writers do not maintain, or that another engine forgot.

        Args:
            name: The index.
            rebuild: Whether to build one with `maintenance=async` again from all data, instead of
                reading the file slices that it does not cover.
        """
        refresh_index(self.writer(), name, rebuild=rebuild)

    def keep_options(self, options: Mapping[str, str]) -> None:
        """Let all later writes go by some of Hudi's write options; a user's own are kept along."""
        obeyed = {name: value for name, value in options.items() if not is_own_name(name)}
        patience = self.writer(obeyed).target().patience
        storage = self._address.open()
        with open_lock(storage, patience.lock):
            write_own_properties(storage, {**read_own_properties(storage), **options})

    def forget_options(self, names: Sequence[str]) -> None:
        """Let later writes go by the defaults of some write options again."""
        storage = self._address.open()
        with open_lock(storage, self.writer().target().patience.lock):
            kept = read_own_properties(storage)
            write_own_properties(storage, {k: v for k, v in kept.items() if k not in names})

    def change_properties(self, changes: Mapping[str, str | None]) -> None:
        """Change what `hoodie.properties` says; None removes a property."""
        storage = self._address.open()
        with open_lock(storage, self.writer().target().patience.lock):
            update_properties(storage, dict(changes))

    def evolve_partitions(
        self, by: str | Sequence[str] | None = None, **how: str | int | Sequence[str]
    ) -> None:
        """Put new files into other folders; see `services.partition_evolving`."""
        evolve_partitions(self._address, self.writer().target().patience, by=by, **how)  # type: ignore[arg-type]

    def refresh(self) -> None:
        """Let the session forget what it cached of the table, data and columns."""
        caches = self._spark.sparkContext._jvm.lakedex.jvm.Caches
        caches.refresh(self._spark._jsparkSession, self.path)

    def writer(self, options: Options = None) -> TableWriter:
        """What writes the table, for statements that choose their rows from the table itself."""
        zone = {EXPRESSION_TIME_ZONE.name: self.time_zone}
        given = dict(options or {})
        for name, value in self._catalog.items():
            if given.setdefault(name, value).upper() != value.upper():
                raise InvalidInput(
                    f"{name}={given[name][:80]!r} contradicts the catalog, which has {value!r} for "
                    "the table"
                )
        chosen = {**zone, **given}
        judge = SparkJudge(self._spark, lambda: self.snapshot)
        return writer_with_services(self._address, self._engine, chosen, self._batch, judge)

    @property
    def snapshot(self) -> Snapshot:
        """The table as it is now."""
        return self._open().snapshot

    @property
    def time_zone(self) -> str:
        """The session's time zone, in which times without one are read."""
        return str(self._spark.conf.get(_ZONE))

    def _open(self) -> api.Table:
        # Java knows time zones that Python does not; only filters with times need them here.
        options = ReadOptions(time_zone=self.time_zone)
        return api.Table(Snapshot.open(self._address.open()), options)

    def _written(self, result: WriteResult) -> WriteResult:
        self.refresh()
        return result

    def _source(self, rows: Rows) -> RowSource:
        if isinstance(rows, DataFrame):
            return DataFrameSource(rows)
        if isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            return ArrowRowSource(rows, self._engine.parallelism)
        if hasattr(rows, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(rows)
            return ArrowRowSource(reader, self._engine.parallelism)
        kind = type(rows)
        raise InvalidInput(
            "rows must be a Spark DataFrame, an Arrow table, or a pandas or Polars DataFrame that "
            f"exports Arrow streams, not {kind.__module__}.{kind.__qualname__}; convert them with "
            "spark.createDataFrame(rows) or pyarrow.Table.from_pandas(rows)"
        )
