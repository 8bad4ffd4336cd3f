"""Tables with a bucket index that lakedex and Hudi write by turns: each key stays in one bucket."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.clustering.resizing import pending_resizes, run_resize, schedule_resize
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.resizing import ResizeLimits
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

ROUNDS = 6
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("num", pa.int64()),
        ("day", pa.date32()),
        ("ver", pa.int64()),
        ("txt", pa.string()),
        ("p", pa.string()),
    ]
)
DDL = "id string, num long, day date, ver long, txt string, p string"
STRATEGIES = "org.apache.hudi.client.clustering"
RESIZES = {
    "hoodie.clustering.plan.strategy.class": (
        f"{STRATEGIES}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{STRATEGIES}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.bucket.index.max.num.buckets": "32",
    "hoodie.bucket.index.min.num.buckets": "2",
}
SPLITS = RESIZES | {
    "hoodie.parquet.max.file.size": "1000",
    "hoodie.bucket.index.split.threshold": "1.0",
}
MERGES = RESIZES | {
    "hoodie.parquet.max.file.size": "10000000",
    "hoodie.bucket.index.merge.threshold": "0.2",
}
TEXTS = ("a:b", "a,b", "x:1,y:2", ",", ":", "é", "𝔘", "id:k", "null", "0", "-1", "k" * 40)
Key = tuple[Any, ...]
Row = dict[str, Any]


class Shared:
    """A table with a bucket index, with a model of its rows and a session of Hudi beside it."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        engine: str,
        kind: str,
        key: Sequence[str],
        partition: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.spark, self.key, self.partition = spark, tuple(key), partition
        self.path = str(folder / "shared")
        self.buckets = {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": engine,
            "hoodie.bucket.index.num.buckets": "4",
            **(more or {}),
        }
        self.kind = kind
        self.model: dict[Key, Row] = {}
        self.places: dict[Key, str] = {}

    def create(self) -> None:
        """Let lakedex make the table."""
        spec = TableSpec("shared", SCHEMA, self.key, "ver", self.partition, self.kind, self.buckets)
        create_table(StorageAddress.of(self.path).open(), spec)

    def writer(self) -> TableWriter:
        """lakedex, which is not given any option."""
        return TableWriter(StorageAddress.of(self.path), LocalEngine(2))

    def frame(self, rows: Sequence[Row]) -> Any:
        """The rows for Hudi."""
        return self.spark.createDataFrame([tuple(each.values()) for each in rows], DDL)

    def hudi(self, rows: Sequence[Row], operation: str, **more: str) -> None:
        """Let Hudi write."""
        generator = "ComplexKeyGenerator" if len(self.key) > 1 else "SimpleKeyGenerator"
        if not self.partition:
            generator = "NonpartitionedKeyGenerator"
        options = {
            "hoodie.table.name": "shared",
            "hoodie.datasource.write.recordkey.field": ",".join(self.key),
            "hoodie.datasource.write.partitionpath.field": self.partition,
            "hoodie.datasource.write.precombine.field": "ver",
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
            "hoodie.datasource.write.table.type": (
                "COPY_ON_WRITE" if self.kind == "cow" else "MERGE_ON_READ"
            ),
            "hoodie.datasource.write.operation": operation,
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": "2",
            **self.buckets,
            **more,
        }
        frame = self.frame(rows)
        frame.write.format("hudi").options(**options).mode("append").save(self.path)

    def upsert(self, rows: Sequence[Row], *, by_hudi: bool) -> None:
        """Let one of the two put rows in."""
        if by_hudi:
            self.hudi(rows, "upsert")
        else:
            self.writer().upsert(ArrowRowSource(pa.Table.from_pylist(list(rows), SCHEMA)))
        self.model |= {self.key_of(each): each for each in rows}

    def delete(self, rows: Sequence[Row], *, by_hudi: bool) -> None:
        """Let one of the two take rows away."""
        if by_hudi:
            self.hudi(rows, "delete")
        else:
            self.writer().delete(ArrowRowSource(pa.Table.from_pylist(list(rows), SCHEMA)))
        for each in rows:
            self.model.pop(self.key_of(each), None)

    def hudi_calls(self, operation: str, options: Mapping[str, str]) -> None:
        """Let Hudi plan a resize, or run those that pend."""
        key = {"hoodie.datasource.write.recordkey.field": self.key[0]}
        said = {**self.buckets, **options, **key}
        listed = ",".join(f"{name}={value}" for name, value in said.items())
        self.spark.sql(
            f"CALL run_clustering(path => '{self.path}', op => '{operation}', "
            f"options => '{listed}')"
        ).collect()

    def resize(self, *, planned_by_hudi: bool, run_by_hudi: bool, splits: bool) -> int:
        """Split or merge buckets, and answer how many there are."""
        if planned_by_hudi:
            self.hudi_calls("schedule", SPLITS if splits else MERGES)
        else:
            limits = ResizeLimits.of(1000, split=1.0, merge=0.0)
            if not splits:
                limits = ResizeLimits.of(10_000_000, split=2.0, merge=0.2, least=2)
            assert schedule_resize(self.writer(), limits)
        (instant,) = pending_resizes(lakedex.open(self.path).timeline)
        if run_by_hudi:
            self.hudi_calls("execute", SPLITS if splits else MERGES)
        else:
            run_resize(self.writer(), instant)
        assert pending_resizes(lakedex.open(self.path).timeline) == ()
        self.places = {}
        self.assert_holds()
        return len(lakedex.open(self.path).files())

    def key_of(self, each: Row) -> Key:
        """What makes a row one of its own."""
        own = tuple(each[name] for name in self.key)
        return (*own, each["p"]) if self.partition else own

    def assert_holds(self) -> None:
        """Both read the rows of the model, and every key is where it was."""
        by_hudi = self.spark.read.format("hudi").load(self.path)
        table = lakedex.open(self.path)
        wanted = sorted(tuple(each.values()) for each in self.model.values())
        assert sorted(map(tuple, by_hudi.select(*SCHEMA.names).collect())) == wanted
        ours = table.to_arrow().to_pylist()
        assert sorted(tuple(each[name] for name in SCHEMA.names) for each in ours) == wanted
        # Hudi names a file by its whole name, a log by the file group alone.
        places = {self.key_of(each): each["_hoodie_file_name"][:36] for each in ours}
        assert len(places) == len(ours)
        known = self.places.keys() & places.keys()
        assert {key: places[key] for key in known} == {key: self.places[key] for key in known}
        self.places = places
        report = table.verify()
        assert report.ok, report


def some_rows(dice: random.Random, version: int, count: int, *, partitioned: bool) -> list[Row]:
    """Rows with keys of every kind, no key twice."""
    rows = {}
    for _ in range(count):
        number = dice.randrange(150)
        text = TEXTS[number] if number < len(TEXTS) else f"key-{number}"
        part = f"p{number % 3}" if partitioned else "p0"
        rows[number] = {
            "id": text,
            "num": number - 70,
            "day": dt.date(2026, 1, 1) + dt.timedelta(days=number % 40),
            "ver": version,
            "txt": f"v{version}",
            "p": part,
        }
    return list(rows.values())


SHAPES = [
    pytest.param("SIMPLE", "cow", ["id"], "p", id="simple-cow"),
    pytest.param("SIMPLE", "mor", ["id"], "p", id="simple-mor"),
    pytest.param("SIMPLE", "mor", ["num"], "", id="simple-mor-number-unpartitioned"),
    pytest.param("SIMPLE", "cow", ["day", "num"], "p", id="simple-cow-date-and-number"),
    pytest.param("CONSISTENT_HASHING", "mor", ["id"], "p", id="consistent"),
    pytest.param("CONSISTENT_HASHING", "mor", ["num", "id"], "", id="consistent-unpartitioned"),
]


@pytest.mark.parametrize(("engine", "kind", "key", "partition"), SHAPES)
@pytest.mark.parametrize("first", ["lakedex", "hudi"])
def test_both_find_the_same_buckets(spark, tmp_path, engine, kind, key, partition, first):
    table = Shared(spark, tmp_path, engine, kind, key, partition)
    dice = random.Random(f"{engine}{kind}{key}{first}")
    by_hudi = first == "hudi"
    if not by_hudi:
        table.create()
    for number in range(ROUNDS):
        rows = some_rows(dice, number, 60, partitioned=bool(partition))
        table.upsert(rows, by_hudi=by_hudi)
        if number % 3 == 2:
            table.delete(dice.sample(sorted(table.model.values(), key=repr), 15), by_hudi=by_hudi)
        table.assert_holds()
        by_hudi = not by_hudi


@pytest.mark.parametrize("partition", ["p", ""], ids=["partitioned", "unpartitioned"])
def test_either_resizes_what_the_other_wrote_and_planned(spark, tmp_path, partition):  # case B78
    table = Shared(spark, tmp_path, "CONSISTENT_HASHING", "mor", ["id"], partition)
    table.create()
    dice = random.Random(4)
    by_hudi, count = False, 0
    for number, (planned_by_hudi, run_by_hudi, splits) in enumerate(
        [
            (False, False, True),
            (True, True, False),
            (False, True, True),
            (True, False, False),
            (True, True, True),
            (False, True, False),
        ]
    ):
        for version in (2 * number, 2 * number + 1):
            rows = some_rows(dice, version, 50, partitioned=bool(partition))
            table.upsert(rows, by_hudi=by_hudi)
            table.assert_holds()
            by_hudi = not by_hudi
        before, count = (
            count,
            table.resize(planned_by_hudi=planned_by_hudi, run_by_hudi=run_by_hudi, splits=splits),
        )
        assert (count > before) is splits
