"""How each table format loads and upserts on Spark 3.5; a table is named by its folder."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import lakedex

HUDI_CATALOG = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
KEY, PART, ORDER = "id", "part", "ver"
_HUDI_BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": os.environ.get("LAKEDEX_BENCH_BUCKETS", "4"),
    "hoodie.metadata.record.index.enable": "false",
}


class Engine(ABC):
    """A way to write a table; `settings` are those of its Spark session."""

    jars: tuple[str, ...] = ()
    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = str(folder / "table")

    @abstractmethod
    def load(self, rows: Any) -> None:
        """Make the table of these rows."""

    def upsert(self, rows: Any) -> None:
        """Update the rows that are there, and add the others."""
        raise TypeError(f"{type(self).__name__} cannot upsert {rows}")

    @abstractmethod
    def frame(self) -> Any:
        """The table to query."""

    def count(self) -> int:
        """The rows of the table."""
        return self.frame().count()


class Parquet(Engine):
    """Plain files: the floor for a load."""

    def load(self, rows: Any) -> None:
        rows.write.partitionBy(PART).parquet(self.folder)

    def frame(self) -> Any:
        return self.spark.read.parquet(self.folder)


class Lakedex(Engine):
    """This project; the record index and column stats are built."""

    kind = "cow"

    def __init__(self, spark: Any, folder: Path) -> None:
        super().__init__(spark, folder)
        self.lake = lakedex.attach(spark)
        self.table: Any = None

    def load(self, rows: Any) -> None:
        self.spark.sql("DROP TABLE IF EXISTS rides")
        self.table = self.lake.create_table(
            "rides",
            rows.schema,
            path=self.folder,
            record_key=KEY,
            ordering=ORDER,
            partition_by=PART,
            table_type=self.kind,
            properties={"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
        )
        self.last = self.table.bulk_insert(rows)

    def upsert(self, rows: Any) -> None:
        self.last = self.table.upsert(rows)

    def frame(self) -> Any:
        return self.spark.table("rides")

    def count(self) -> int:
        return lakedex.open(self.folder).to_arrow(columns=[KEY]).num_rows


class LakedexMor(Lakedex):
    """This project, merge-on-read."""

    kind = "mor"


class Hudi(Engine):
    """Hudi 1.2.0, copy-on-write with record index and column stats."""

    jars = ("hudi-spark3.5-bundle_2.12-1.2.0.jar",)
    settings: ClassVar[dict[str, str]] = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": HUDI_CATALOG,
    }
    kind = "COPY_ON_WRITE"
    more: Mapping[str, str] = MappingProxyType({})
    """Options beside those of every write."""

    def _write(self, rows: Any, operation: str, mode: str) -> None:
        options = {
            "hoodie.table.name": "rides",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.partitionpath.field": PART,
            "hoodie.table.ordering.fields": ORDER,
            "hoodie.datasource.write.operation": operation,
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.bulkinsert.shuffle.parallelism": "2",
            "hoodie.upsert.shuffle.parallelism": "2",
            **self.more,
        }
        rows.write.format("hudi").options(**options).mode(mode).save(self.folder)

    def load(self, rows: Any) -> None:
        self._write(rows, "bulk_insert", "overwrite")

    def upsert(self, rows: Any) -> None:
        self._write(rows, "upsert", "append")

    def frame(self) -> Any:
        return self.spark.read.format("hudi").load(self.folder)


class HudiMor(Hudi):
    """Hudi 1.2.0, merge-on-read."""

    kind = "MERGE_ON_READ"


class HudiSimpleBuckets(HudiMor):
    """Hudi 1.2.0, merge-on-read, with a fixed number of buckets."""

    more = MappingProxyType(_HUDI_BUCKETS | {"hoodie.index.bucket.engine": "SIMPLE"})


class HudiConsistentBuckets(HudiMor):
    """Hudi 1.2.0, merge-on-read, with buckets of a ring."""

    more = MappingProxyType(_HUDI_BUCKETS | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"})


class HudiBloom(HudiMor):
    """Hudi 1.2.0, merge-on-read, that finds keys by the bloom filters of base files."""

    more = MappingProxyType(
        {"hoodie.index.type": "BLOOM", "hoodie.metadata.record.index.enable": "false"}
    )


class Delta(Engine):
    """Delta 3.3 with MERGE."""

    jars = ("delta-spark_2.12-3.3.2.jar", "delta-storage-3.3.2.jar")
    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    def load(self, rows: Any) -> None:
        rows.write.format("delta").partitionBy(PART).save(self.folder)

    def upsert(self, rows: Any) -> None:
        rows.createOrReplaceTempView("batch")
        self.spark.sql(
            f"MERGE INTO delta.`{self.folder}` t USING batch s ON t.{KEY} = s.{KEY} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def frame(self) -> Any:
        return self.spark.read.format("delta").load(self.folder)


class Iceberg(Engine):
    """Iceberg 1.10 with MERGE, copy-on-write."""

    jars = ("iceberg-spark-runtime-3.5_2.12-1.10.0.jar",)
    settings: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
    }
    mode = "copy-on-write"

    def __init__(self, spark: Any, folder: Path) -> None:
        super().__init__(spark, folder)
        spark.conf.set("spark.sql.catalog.ice.warehouse", str(folder))

    def load(self, rows: Any) -> None:
        writer = rows.writeTo("ice.db.rides").using("iceberg").partitionedBy(rows[PART])
        for action in ("update", "merge", "delete"):
            writer = writer.tableProperty(f"write.{action}.mode", self.mode)
        writer.tableProperty("write.distribution-mode", "none").tableProperty(
            "write.spark.fanout.enabled", "true"
        ).create()

    def upsert(self, rows: Any) -> None:
        rows.createOrReplaceTempView("batch")
        self.spark.sql(
            f"MERGE INTO ice.db.rides t USING batch s ON t.{KEY} = s.{KEY} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def frame(self) -> Any:
        return self.spark.table("ice.db.rides")


class IcebergMor(Iceberg):
    """Iceberg 1.10 with MERGE, merge-on-read."""

    mode = "merge-on-read"


ENGINES: dict[str, type[Engine]] = {
    "parquet": Parquet,
    "lakedex": Lakedex,
    "lakedex-mor": LakedexMor,
    "hudi": Hudi,
    "hudi-mor": HudiMor,
    "hudi-simple-buckets": HudiSimpleBuckets,
    "hudi-consistent-buckets": HudiConsistentBuckets,
    "hudi-bloom": HudiBloom,
    "delta": Delta,
    "iceberg": Iceberg,
    "iceberg-mor": IcebergMor,
}
