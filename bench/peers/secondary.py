"""How each engine finds rows by the value of a column, and what its index takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakedex
from peers.engines import KEY, ORDER, PART, Engine, Hudi, HudiMor, Lakedex, LakedexMor, Parquet

COLUMN, INDEX = "rider", "secondary_index_idx_rider"
SORTED = {"hoodie.bulkinsert.sort.mode": "PARTITION_SORT"}
"""Without it Hudi holds a writer for each of 2,000 partitions open, which 4 GiB do not hold."""
LOCK = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
"""Hudi makes no index unless a lock is chosen."""


class Finder:
    """A table with a name, which can be asked and indexed."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    def load(self, rows: Any) -> None:
        """Make the table."""
        self.engine.load(rows)
        self.engine.spark.read.parquet(self.engine.folder).createOrReplaceTempView(self.name)

    def find(self, value: str) -> list[Any]:
        """The rows of a value."""
        condition = f"{COLUMN} = '{value}'"
        return self.engine.spark.sql(f"SELECT * FROM {self.name} WHERE {condition}").collect()

    def index(self) -> None:
        """Make the secondary index."""
        self.engine.spark.sql(f"CREATE INDEX idx_{COLUMN} ON {self.name} ({COLUMN})")

    def index_bytes(self) -> int:
        """What the index takes."""
        found = lakedex.open(self.engine.folder).indexes()
        return sum(each.size_bytes for each in found if each.name == INDEX)


class LakedexFinder(Finder):
    """This project."""

    def load(self, rows: Any) -> None:
        engine = self.engine
        self.table = engine.lake.create_table(
            self.name,
            rows.schema,
            path=engine.folder,
            record_key=KEY,
            ordering=ORDER,
            partition_by=PART,
            table_type=engine.kind,
            properties={"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
        )
        engine.table = self.table
        self.table.bulk_insert(rows)


class HudiFinder(Finder):
    """Hudi 1.2.0."""

    def load(self, rows: Any) -> None:
        self.engine.more = SORTED
        self.engine.load(rows)
        spark = self.engine.spark
        for option in ("hoodie.metadata.enable", "hoodie.enable.data.skipping"):
            spark.sql(f"SET {option}=true")
        spark.sql(f"SET hoodie.write.lock.provider={LOCK}")
        spark.sql(f"CREATE TABLE {self.name} USING hudi LOCATION '{self.engine.folder}'")


KINDS: dict[str, tuple[type[Engine], type[Finder]]] = {
    "parquet": (Parquet, Finder),
    "lakedex": (Lakedex, LakedexFinder),
    "lakedex-mor": (LakedexMor, LakedexFinder),
    "hudi": (Hudi, HudiFinder),
    "hudi-mor": (HudiMor, HudiFinder),
}


def finder(engine: str, spark: Any, folder: Path, name: str) -> Finder:
    """A table of an engine that is still to be loaded."""
    kind, own = KINDS[engine]
    folder.mkdir()
    return own(kind(spark, folder), name)
