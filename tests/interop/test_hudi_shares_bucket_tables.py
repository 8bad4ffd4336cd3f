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
from lakedex.storage.address import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
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

    def key_of(self, each: Row) -> Key:
        """What makes a row one of its own."""
        own = tuple(each[name] for name in self.key)
        return (*own, each["p"]) if self.partition else own

    def assert_holds(self, *, moved: bool = False) -> None:
        """Both read the rows of the model, and every key is where it was.

        Args:
            moved: Whether buckets were split or merged, so that keys are elsewhere now.
        """
        by_hudi = self.spark.read.format("hudi").load(self.path)
        table = lakedex.open(self.path)
        wanted = sorted(tuple(each.values()) for each in self.model.values())
        assert sorted(map(tuple, by_hudi.select(*SCHEMA.names).collect())) == wanted
        ours = table.to_arrow().to_pylist()
        assert sorted(tuple(each[name] for name in SCHEMA.names) for each in ours) == wanted
        # Hudi names a file by its whole name, a log by the file group alone.
        places = {self.key_of(each): each["_hoodie_file_name"][:36] for each in ours}
        assert len(places) == len(ours)
        if not moved:
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
