"""How each table format lays rows out along a curve, and how its files are counted.

A table has no partitions: what leaves files out is the layout alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import lakedex
from peers.engines import Delta, Hudi, Iceberg

COLUMNS = ("at", "cents")
KEY = "id"


class Layout(ABC):
    """A table that is loaded as rows come, then laid out anew in about so many files."""

    jars: tuple[str, ...] = ()
    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, spark: Any, folder: Path, files: int) -> None:
        self.spark = spark
        self.folder = str(folder / "table")
        self.files = files

    @abstractmethod
    def load(self, rows: Any) -> None:
        """Make the table of these rows."""

    @abstractmethod
    def arrange(self) -> None:
        """Lay its rows out by the two columns."""

    @abstractmethod
    def frame(self) -> Any:
        """The table to ask."""

    def live_bytes(self) -> int:
        """The bytes of its data files, before anything was laid out."""
        data = [
            file
            for file in Path(self.folder).rglob("*.parquet")
            if not {".hoodie", "_delta_log"} & set(file.parts)
        ]
        return sum(file.stat().st_size for file in data)

    def file_bytes(self) -> int:
        """How large files must be for the number of them."""
        return -(-self.live_bytes() // self.files)


class LakedexLayout(Layout):
    """This project, along a Z-order curve."""

    strategy = "zorder"

    def load(self, rows: Any) -> None:
        self.lake = lakedex.attach(self.spark)
        self.table = self.lake.create_table(
            "rides", rows.schema, path=self.folder, record_key=KEY, properties=STATS
        )
        self.table.bulk_insert(rows)

    def arrange(self) -> None:
        size = {TARGET: str(self.file_bytes())}
        self.table.cluster(by=COLUMNS, strategy=self.strategy, options=size)

    def frame(self) -> Any:
        return self.spark.table("rides")


class LakedexHilbert(LakedexLayout):
    """This project, along a Hilbert curve."""

    strategy = "hilbert"


class HudiLayout(Layout):
    """Hudi 1.2.0: its clustering procedure, along a Z-order curve."""

    jars, settings = Hudi.jars, Hudi.settings
    strategy = "z-order"

    def load(self, rows: Any) -> None:
        options = {
            "hoodie.table.name": "rides",
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.bulkinsert.shuffle.parallelism": "8",
            **STATS,
        }
        rows.write.format("hudi").options(**options).mode("overwrite").save(self.folder)

    def arrange(self) -> None:
        options = {
            **STATS,
            TARGET: str(self.file_bytes()),
            "hoodie.layout.optimize.strategy": self.strategy,
        }
        told = ",".join(f"{name}={value}" for name, value in options.items())
        self.spark.sql(
            f"CALL run_clustering(path => '{self.folder}', order => '{','.join(COLUMNS)}', "
            f"order_strategy => '{self.strategy}', options => '{told}')"
        ).collect()

    def frame(self) -> Any:
        reader = self.spark.read.format("hudi").option("hoodie.metadata.enable", "true")
        return reader.option("hoodie.enable.data.skipping", "true").load(self.folder)


class HudiHilbert(HudiLayout):
    """Hudi 1.2.0, along a Hilbert curve."""

    strategy = "hilbert"


class DeltaLayout(Layout):
    """Delta 3.3: OPTIMIZE ZORDER BY."""

    jars, settings = Delta.jars, Delta.settings

    def load(self, rows: Any) -> None:
        rows.write.format("delta").save(self.folder)

    def arrange(self) -> None:
        size = self.file_bytes()
        self.spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(size))
        self.spark.sql(f"OPTIMIZE delta.`{self.folder}` ZORDER BY ({', '.join(COLUMNS)})")

    def frame(self) -> Any:
        return self.spark.read.format("delta").load(self.folder)


class IcebergLayout(Layout):
    """Iceberg 1.10: rewrite_data_files with a z-order."""

    jars, settings = Iceberg.jars, Iceberg.settings

    def __init__(self, spark: Any, folder: Path, files: int) -> None:
        super().__init__(spark, folder, files)
        spark.conf.set("spark.sql.catalog.ice.warehouse", str(folder))
        self.folder = str(folder / "db" / "rides")

    def load(self, rows: Any) -> None:
        writer = rows.writeTo("ice.db.rides").using("iceberg")
        writer.tableProperty("write.distribution-mode", "none").create()

    def arrange(self) -> None:
        self.spark.sql(
            "CALL ice.system.rewrite_data_files(table => 'db.rides', strategy => 'sort', "
            f"sort_order => 'zorder({', '.join(COLUMNS)})', "
            f"options => map('rewrite-all', 'true', "
            f"'target-file-size-bytes', '{self.file_bytes()}'))"
        ).collect()

    def frame(self) -> Any:
        return self.spark.table("ice.db.rides")


TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
STATS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
LAYOUTS: dict[str, type[Layout]] = {
    "lakedex z-order": LakedexLayout,
    "lakedex hilbert": LakedexHilbert,
    "delta z-order": DeltaLayout,
    "iceberg z-order": IcebergLayout,
    "hudi z-order": HudiLayout,
    "hudi hilbert": HudiHilbert,
}
