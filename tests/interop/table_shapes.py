"""Tables of many shapes as real Hudi writes them: each a function from a session to a path.

Every table has the columns id, ver, name, n, day, ts; what differs is how it is laid out, changed,
cleaned and indexed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCHEMA = "id string, ver int, name string, n int, day string, ts timestamp"
BASE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


class Writer:
    """Writes one table step by step through the Hudi data source."""

    def __init__(self, spark: Any, path: str, **options: str) -> None:
        self.spark = spark
        self.path = path
        self.options = BASE | {"hoodie.table.name": "t"} | options

    def rows(self, first: int, last: int, ver: int, days: int = 3) -> Any:
        """Rows `first` to `last` with values made from their numbers."""
        return self.spark.sql(
            f"select concat('k', lpad(id, 4, '0')) id, {ver} ver, concat('name-', id % 7) name,"
            f" cast(id * {ver} as int) n, concat('2024-01-0', id % {days} + 1) day,"
            f" timestamp_millis(1700000000123 + id * 3600000) ts from range({first}, {last})"
        )

    def write(self, frame: Any, operation: str = "upsert", **more: str) -> Writer:
        """One commit."""
        options = self.options | {"hoodie.datasource.write.operation": operation} | more
        frame.write.format("hudi").options(**options).mode("append").save(self.path)
        return self

    def call(self, procedure: str) -> Writer:
        """A Hudi procedure on the table's path."""
        self.spark.sql(f"call {procedure.replace('PATH', self.path)}").collect()
        return self


def updated(writer: Writer) -> Writer:
    """Insert, update a part, delete a part."""
    writer.write(writer.rows(0, 60, 1), "insert")
    writer.write(writer.rows(0, 20, 2))
    return writer.write(writer.rows(20, 30, 3), "delete")


def copy_on_write(spark: Any, path: str) -> str:
    """A plain table."""
    return updated(Writer(spark, path)).path


def merge_on_read(spark: Any, path: str) -> str:
    """Log files over base files."""
    return updated(Writer(spark, path, **MOR)).path


def parquet_log_blocks(spark: Any, path: str) -> str:
    """Log files whose blocks are Parquet."""
    options = MOR | {"hoodie.logfile.data.block.format": "parquet"}
    return updated(Writer(spark, path, **options)).path


def late_updates(spark: Any, path: str) -> str:
    """Updates and deletes with lower ordering values than what is stored."""
    writer = Writer(spark, path, **MOR)
    writer.write(writer.rows(0, 40, 5), "insert").write(writer.rows(0, 10, 3))
    return writer.write(writer.rows(5, 15, 7)).write(writer.rows(0, 40, 6)).path


def two_ordering_fields(spark: Any, path: str) -> str:
    """Ordering by two columns."""
    writer = Writer(spark, path, **MOR | {"hoodie.datasource.write.precombine.field": "ver,n"})
    return updated(writer).path


def commit_time_ordering(spark: Any, path: str) -> str:
    """No ordering field: the last write wins."""
    options = MOR | {
        "hoodie.datasource.write.precombine.field": "",
        "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    writer = Writer(spark, path, **options)
    writer.write(writer.rows(0, 40, 5), "insert").write(writer.rows(0, 10, 3))
    return writer.write(writer.rows(8, 12, 1), "delete").path


def pending_compaction(spark: Any, path: str) -> str:
    """A compaction that was scheduled and not run, and more log files after it."""
    writer = updated(Writer(spark, path, **MOR))
    writer.call("run_compaction(op => 'schedule', path => 'PATH')")
    return writer.write(writer.rows(10, 35, 9)).path


def compacted(spark: Any, path: str) -> str:
    """A compaction that ran, and more log files after it."""
    writer = updated(Writer(spark, path, **MOR))
    writer.call("run_compaction(op => 'scheduleAndExecute', path => 'PATH')")
    return writer.write(writer.rows(10, 35, 9)).path


def clustered_then_updated(spark: Any, path: str) -> str:
    """Clustering replaced the file groups."""
    writer = updated(Writer(spark, path))
    writer.call("run_clustering(path => 'PATH', order => 'n')")
    return writer.write(writer.rows(0, 5, 9)).path


def insert_overwrite(spark: Any, path: str) -> str:
    """A partition overwritten, then the whole table."""
    writer = updated(Writer(spark, path))
    writer.write(writer.rows(100, 110, 1, days=1), "insert_overwrite")
    return writer.write(writer.rows(200, 205, 2, days=2), "upsert").path


def insert_overwrite_table(spark: Any, path: str) -> str:
    """The whole table overwritten."""
    writer = updated(Writer(spark, path))
    return writer.write(writer.rows(100, 110, 1), "insert_overwrite_table").path


def delete_partition(spark: Any, path: str) -> str:
    """A partition dropped."""
    writer = updated(Writer(spark, path))
    more = {"hoodie.datasource.write.partitions.to.delete": "2024-01-02"}
    return writer.write(writer.rows(0, 1, 1), "delete_partition", **more).path


def url_encoded_two_levels(spark: Any, path: str) -> str:
    """Two partition columns, hive style, url-encoded, with odd characters and nulls."""
    options = {
        "hoodie.datasource.write.partitionpath.field": "name,day",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    writer = Writer(spark, path, **options)
    frame = writer.rows(0, 30, 1).selectExpr(
        "id",
        "ver",
        "case n % 4 when 0 then 'a/b=c' when 1 then null when 2 then 'x y%' else 'é' end name",
        "n",
        "day",
        "ts",
    )
    return (
        writer.write(frame, "insert")
        .write(frame.where("n < 10").withColumn("ver", frame.ver + 1))
        .path
    )


def timestamp_partitions(spark: Any, path: str) -> str:
    """Partition paths that are formatted times."""
    options = {
        "hoodie.datasource.write.partitionpath.field": "ts",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
        ),
        "hoodie.keygen.timebased.timestamp.type": "SCALAR",
        "hoodie.keygen.timebased.timestamp.scalar.time.unit": "microseconds",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    return updated(Writer(spark, path, **options)).path


def dropped_partition_columns(spark: Any, path: str) -> str:
    """Partition columns that stand in the path only."""
    return updated(
        Writer(spark, path, **{"hoodie.datasource.write.drop.partition.columns": "true"})
    ).path


def non_partitioned_composite_key(spark: Any, path: str) -> str:
    """No partitions, a key of two columns."""
    options = {
        "hoodie.datasource.write.recordkey.field": "id,name",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        ),
    }
    return updated(Writer(spark, path, **options)).path


def record_index_per_partition(spark: Any, path: str) -> str:
    """A record index with file groups for each partition."""
    options = {
        "hoodie.metadata.record.index.enable": "false",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
    }
    return updated(Writer(spark, path, **options)).path


def many_commits(spark: Any, path: str) -> str:
    """Enough commits that the metadata table is compacted twice and the timeline archived."""
    options = MOR | {
        "hoodie.metadata.compact.max.delta.commits": "4",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "5",
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "2",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "3",
    }
    writer = Writer(spark, path, **options)
    writer.write(writer.rows(0, 30, 1), "insert")
    for number in range(11):
        writer.write(writer.rows(number * 3, number * 3 + 8, number + 2))
    return writer.path


def added_column(spark: Any, path: str) -> str:
    """A column added and one widened by later writes."""
    writer = Writer(spark, path, **MOR)
    writer.write(writer.rows(0, 20, 1), "insert")
    wider = writer.rows(10, 25, 2).selectExpr(
        "id", "ver", "name", "cast(n as bigint) n", "day", "ts", "nullif(n * 2.5D, -1D) extra"
    )
    return writer.write(wider).path


def soft_deletes(spark: Any, path: str) -> str:
    """Rows that mark themselves deleted."""
    writer = Writer(spark, path, **MOR)
    frame = writer.rows(0, 20, 1).selectExpr("*", "false _hoodie_is_deleted")
    gone = writer.rows(5, 9, 2).selectExpr("*", "true _hoodie_is_deleted")
    return writer.write(frame, "insert").write(gone).path


def duplicates(spark: Any, path: str) -> str:
    """The same keys inserted twice: the record index knows one copy of each."""
    writer = Writer(spark, path)
    writer.write(writer.rows(0, 30, 1), "bulk_insert")
    return writer.write(writer.rows(0, 10, 2), "bulk_insert").path


def without_meta_columns(spark: Any, path: str) -> str:
    """Files without Hudi's meta columns."""
    options = {
        "hoodie.populate.meta.fields": "false",
        "hoodie.metadata.record.index.enable": "false",
    }
    writer = Writer(spark, path, **options)
    return writer.write(writer.rows(0, 30, 1), "bulk_insert").path


def table_version(number: int, *, table_type: dict[str, str]) -> Callable[[Any, str], str]:
    """A table of an older version, written by the newest release."""

    def write(spark: Any, path: str) -> str:
        options = {"hoodie.write.table.version": str(number), "hoodie.write.auto.upgrade": "false"}
        writer = updated(Writer(spark, path, **table_type | options))
        return writer.write(writer.rows(10, 35, 9)).path

    return write


def merge_into(spark: Any, path: str) -> str:
    """MERGE INTO on a merge-on-read table: log blocks with partial updates."""
    spark.sql("drop table if exists merged")
    spark.sql(
        f"create table merged ({SCHEMA}) using hudi tblproperties (primaryKey='id', type='mor',"
        f" preCombineField='ver') partitioned by (day) location '{path}'"
    )
    writer = Writer(spark, path)
    writer.rows(0, 20, 1).selectExpr("id", "ver", "name", "n", "ts", "day").createOrReplaceTempView(
        "s"
    )
    spark.sql("insert into merged select id, ver, name, n, ts, day from s")
    writer.rows(5, 12, 4).createOrReplaceTempView("changes")
    spark.sql(
        "merge into merged t using changes c on t.id = c.id"
        " when matched then update set n = c.n + 1000, ver = c.ver"
    )
    spark.sql(
        "merge into merged t using (select * from changes where n < 40) c on t.id = c.id"
        " when matched then update set name = 'merged', ver = 9"
    )
    return path


def two_secondary_indexes(spark: Any, path: str) -> str:
    """Two secondary indexes on merge-on-read, of which Hudi 1.2.0 keeps up only the first."""
    spark.sql("drop table if exists two")
    lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    spark.sql(f"set hoodie.write.lock.provider={lock}")
    spark.sql(
        f"create table two ({SCHEMA}) using hudi tblproperties (primaryKey='id', type='mor',"
        " preCombineField='ver', 'hoodie.metadata.record.index.enable'='true')"
        f" partitioned by (day) location '{path}'"
    )
    Writer(spark, path).rows(0, 30, 1).createOrReplaceTempView("s")
    spark.sql("insert into two select id, ver, name, n, ts, day from s")
    spark.sql("create index idx_n on two (n)")
    spark.sql("create index idx_name on two (name)")
    spark.sql("update two set name = 'renamed', ver = 2 where id in ('k0004', 'k0011')")
    spark.sql("update two set n = 777, ver = 3 where id = 'k0007'")
    spark.sql("reset hoodie.write.lock.provider")
    return path


SHAPES: dict[str, Callable[[Any, str], str]] = {
    shape.__name__: shape
    for shape in (
        copy_on_write,
        merge_on_read,
        parquet_log_blocks,
        late_updates,
        two_ordering_fields,
        commit_time_ordering,
        pending_compaction,
        compacted,
        clustered_then_updated,
        insert_overwrite,
        insert_overwrite_table,
        delete_partition,
        url_encoded_two_levels,
        timestamp_partitions,
        dropped_partition_columns,
        non_partitioned_composite_key,
        record_index_per_partition,
        many_commits,
        added_column,
        soft_deletes,
        duplicates,
        without_meta_columns,
        merge_into,
        two_secondary_indexes,
    )
} | {
    "version_6_cow": table_version(6, table_type={}),
    "version_6_mor": table_version(6, table_type=MOR),
    "version_8_mor": table_version(8, table_type=MOR),
}
