"""Bucket tables that Hudi made: lakedex goes on without an option given, and Hudi after it."""

from __future__ import annotations

import json
import zipfile

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import LakedexError, UnsupportedFeature
from lakedex.services.compaction import compact_table
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.golden import GOLDEN_FOLDER, golden_expected

REGIONS = ("eu", "us", "ap")
COLUMNS = ["id", "val", "txt", "ver", "region"]
DUAL_WRITES = {
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy."
    "SparkConsistentBucketDuplicateUpdateStrategy"
}


class BucketTable:
    """A golden bucket table that goes on, with the options that it was made with."""

    def __init__(self, spark, folder, name: str) -> None:
        with zipfile.ZipFile(GOLDEN_FOLDER / f"{name}.zip") as packed:
            packed.extractall(folder)
        self.spark = spark
        self.path = str(folder / golden_expected(name)["table_dir"])
        self.options = golden_expected(name)["made_with"][0]["options"]
        self.writer = TableWriter(StorageAddress.of(self.path), LocalEngine(2))

    def hudi_upserts(
        self, numbers: range, version: int, more: dict[str, str] | None = None
    ) -> None:
        rows = [(f"key-{n:05d}", n, "new", version, REGIONS[n % 3]) for n in numbers]
        kinds = "id string, val int, txt string, ver long, region string"
        frame = self.spark.createDataFrame(rows, kinds)
        frame.write.format("hudi").options(**self.options, **(more or {})).mode("append").save(
            self.path
        )

    def call(self, operation: str) -> None:
        listed = ",".join(f"{name}={value}" for name, value in self.options.items())
        self.spark.sql(
            f"CALL run_clustering(path => '{self.path}', op => '{operation}', "
            f"options => '{listed}')"
        ).collect()

    def assert_holds(self, rows: int) -> None:
        """Hudi and lakedex read the same rows, each key once."""
        by_hudi = self.spark.read.format("hudi").load(self.path).select(*COLUMNS).collect()
        ours = lakedex.open(self.path).to_arrow(columns=COLUMNS).to_pylist()
        assert sorted(map(tuple, by_hudi)) == sorted(tuple(each.values()) for each in ours)
        assert len({each["id"] for each in ours}) == len(ours) == rows
        assert lakedex.open(self.path).verify().ok

    def groups(self) -> set[tuple[str, str]]:
        return {(each.partition, each.file_id) for each in lakedex.open(self.path).files()}

    def lakedex_upserts(self, numbers: range, version: int) -> None:
        rows = [
            dict(zip(COLUMNS, (f"key-{n:05d}", n, "ours", version, REGIONS[n % 3]), strict=True))
            for n in numbers
        ]
        schema = lakedex.open(self.path).schema
        own = pa.schema([field for field in schema if not field.name.startswith("_hoodie_")])
        self.writer.upsert(ArrowRowSource(pa.Table.from_pylist(rows, own)))


@pytest.mark.parametrize("name", ["bucket_simple_mor", "bucket_consistent"])
def test_hudi_finds_its_buckets_after_a_compaction(spark, tmp_path, name):  # case B81
    table = BucketTable(spark, tmp_path, name)
    before, rows = table.groups(), lakedex.open(table.path).to_arrow().num_rows
    assert compact_table(table.writer).files
    assert table.groups() == before
    table.assert_holds(rows)
    last = max(int(key[4:]) for key in lakedex.open(table.path).to_arrow()["id"].to_pylist())
    table.hudi_upserts(range(last - 9, last + 11), 9)
    table.assert_holds(rows + 10)
    assert table.groups() == before


GOLDEN = [
    "bucket_simple_cow",
    "bucket_simple_mor",
    "bucket_consistent",
    "bucket_consistent_split",
    "bucket_consistent_merge",
]


@pytest.mark.parametrize("name", GOLDEN)
def test_lakedex_goes_on_without_an_option_and_hudi_after_it(spark, tmp_path, name):  # case B81
    table = BucketTable(spark, tmp_path, name)
    before, rows = table.groups(), lakedex.open(table.path).to_arrow().num_rows
    last = max(int(key[4:]) for key in lakedex.open(table.path).to_arrow()["id"].to_pylist())
    table.lakedex_upserts(range(last - 29, last + 31), 8)
    table.assert_holds(rows + 30)
    table.hudi_upserts(range(last - 9, last + 41), 9)
    table.assert_holds(rows + 40)
    table.lakedex_upserts(range(last - 9, last + 51), 10)
    table.assert_holds(rows + 50)
    table.hudi_upserts(range(last - 9, last + 51), 11)
    table.assert_holds(rows + 50)
    assert table.groups() == before


def test_a_resize_beside_writes_is_read_at_every_step(spark, tmp_path):  # case B81
    table = BucketTable(spark, tmp_path, "bucket_consistent")
    table.options = json.loads(json.dumps(table.options)) | {
        "hoodie.clustering.plan.strategy.class": "org.apache.hudi.client.clustering.plan.strategy."
        "SparkConsistentBucketClusteringPlanStrategy",
        "hoodie.clustering.execution.strategy.class": "org.apache.hudi.client.clustering.run."
        "strategy.SparkConsistentBucketClusteringExecutionStrategy",
    }
    table.call("schedule")
    table.hudi_upserts(range(10), 9, DUAL_WRITES)
    table.hudi_upserts(range(230, 240), 9, DUAL_WRITES)
    table.assert_holds(240)
    with pytest.raises(LakedexError, match="resizes"):
        table.lakedex_upserts(range(10), 12)
    with pytest.raises(UnsupportedFeature, match="resizes"):
        compact_table(table.writer)
    table.call("execute")
    table.assert_holds(240)
    compact_table(table.writer)
    table.hudi_upserts(range(5, 250), 10)
    table.assert_holds(250)
    table.lakedex_upserts(range(240, 260), 11)
    table.assert_holds(260)
    table.hudi_upserts(range(250, 270), 12)
    table.assert_holds(270)
