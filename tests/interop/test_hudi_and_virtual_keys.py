"""Tables without meta columns: Hudi reads and writes on ours, we read and write on Hudi's."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import UnsupportedFeature
from lakedex.services.clustering.runner import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_dropping import drop_index
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SCHEMA = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("ts", pa.int64()), ("dt", pa.string())]
)
DDL = "id int, name string, ts bigint, dt string"


def options(kind: str, more: dict[str, str]) -> dict[str, str]:
    """What a Hudi writer says of the table."""
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.table.type": (
            "COPY_ON_WRITE" if kind == "cow" else "MERGE_ON_READ"
        ),
        "hoodie.populate.meta.fields": "false",
        "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        **more,
    }


def ours(rows: list[tuple]) -> ArrowRowSource:
    """Rows for our writer."""
    return ArrowRowSource(
        pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    )


def both(spark, path: str) -> list[tuple]:
    """The rows, which Hudi and lakedex must find alike, with indexes and without."""
    by_hudi = spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(path)
    found = sorted(map(tuple, by_hudi.select(*SCHEMA.names).collect()))
    for without in (set(), {"all"}):
        table = lakedex.open(path, options=lakedex.ReadOptions(without_indexes=without))
        mine = table.to_arrow(columns=SCHEMA.names).to_pylist()
        assert sorted(tuple(row.values()) for row in mine) == found
    assert lakedex.open(path).verify().ok
    return found


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_hudi_goes_on_with_our_table_and_we_with_that(spark, tmp_path, kind, index):
    more = {"hoodie.index.type": index}
    path = str(tmp_path / "t")
    address = StorageAddress.of(path)
    properties = {"hoodie.populate.meta.fields": "false", **more}
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ts", "dt", kind, properties))
    writer = TableWriter(address, LocalEngine(2), {})
    writer.upsert(ours([(1, "a", 1, "x"), (2, "b", 1, "x"), (3, "c", 1, "y")]))
    writer.upsert(ours([(1, "aa", 2, "x")]))
    assert both(spark, path) == [(1, "aa", 2, "x"), (2, "b", 1, "x"), (3, "c", 1, "y")]
    frame = spark.createDataFrame([(2, "bb", 2, "x"), (4, "d", 1, "y")], DDL)
    frame.write.format("hudi").options(**options(kind, more)).mode("append").save(path)
    gone = options(kind, more) | {"hoodie.datasource.write.operation": "delete"}
    one = spark.createDataFrame([(3, "c", 1, "y")], DDL)
    one.write.format("hudi").options(**gone).mode("append").save(path)
    expected = [(1, "aa", 2, "x"), (2, "bb", 2, "x"), (4, "d", 1, "y")]
    assert both(spark, path) == expected
    writer.upsert(ours([(4, "dd", 2, "y")]))
    writer.delete(ours([(1, "", 0, "x")]))
    expected = [(2, "bb", 2, "x"), (4, "dd", 2, "y")]
    assert both(spark, path) == expected
    if kind == "mor":
        compact_table(writer)
        assert both(spark, path) == expected
    cluster_table(writer, by="name")
    assert both(spark, path) == expected


def of_hudi(generator: str, key: str) -> dict[str, str]:
    """The settings of a merge-on-read table with a key generator."""
    more = {
        "hoodie.index.type": "SIMPLE",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.datasource.write.recordkey.field": key,
    }
    return options("mor", more)


@pytest.mark.parametrize(
    ("generator", "key"), [("SimpleKeyGenerator", "id"), ("ComplexKeyGenerator", "id,name")]
)
def test_we_go_on_with_a_table_of_hudi(spark, tmp_path, generator, key):
    path, settings = str(tmp_path / "t"), of_hudi(generator, key)
    first = spark.createDataFrame([(1, "a", 1, "x"), (2, "b", 1, "x"), (3, "c", 1, "y")], DDL)
    first.write.format("hudi").options(**settings).mode("append").save(path)
    gone = settings | {"hoodie.datasource.write.operation": "delete"}
    first.limit(1).write.format("hudi").options(**gone).mode("append").save(path)
    assert both(spark, path) == [(2, "b", 1, "x"), (3, "c", 1, "y")]
    writer = TableWriter(StorageAddress.of(path), LocalEngine(2), {})
    writer.upsert(ours([(2, "b", 2, "x"), (5, "e", 1, "y")]))
    writer.delete(ours([(3, "c", 0, "y")]))
    assert both(spark, path) == [(2, "b", 2, "x"), (5, "e", 1, "y")]


def test_keys_that_hudi_computes_in_two_ways_are_read_and_not_written(spark, tmp_path):
    """Its delete blocks say `id:1`, and its readers compute `1` where positions do not help."""
    path, settings = str(tmp_path / "t"), of_hudi("ComplexKeyGenerator", "id")
    first = spark.createDataFrame([(1, "a", 1, "x"), (2, "b", 1, "x")], DDL)
    first.write.format("hudi").options(**settings).mode("append").save(path)
    gone = settings | {"hoodie.datasource.write.operation": "delete"}
    first.limit(1).write.format("hudi").options(**gone).mode("append").save(path)
    assert both(spark, path) == [(2, "b", 1, "x")]
    writer = TableWriter(StorageAddress.of(path), LocalEngine(2), {})
    with pytest.raises(UnsupportedFeature, match="key generator COMPLEX"):
        writer.upsert(ours([(2, "bb", 2, "x")]))
    assert both(spark, path) == [(2, "b", 1, "x")]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_record_index_of_hudi_does_not_prune(spark, tmp_path, kind):
    """Hudi 1.2.0 makes one and puts no key into it."""
    path = str(tmp_path / "t")
    more = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
    first = spark.createDataFrame([(1, "a", 1, "x"), (2, "b", 1, "x")], DDL)
    first.write.format("hudi").options(**options(kind, more)).mode("append").save(path)
    table = lakedex.open(path)
    assert table.metadata("record_index").num_rows == 0
    assert table.to_arrow("id = 2", columns=["name"]).to_pylist() == [{"name": "b"}]
    writer = TableWriter(StorageAddress.of(path), LocalEngine(2), {})
    with pytest.raises(UnsupportedFeature, match="record_index but no meta columns"):
        writer.upsert(ours([(2, "bb", 2, "x")]))
    drop_index(StorageAddress.of(path), "record_index", writer.target().patience)
    writer.upsert(ours([(2, "bb", 2, "x")]))
    assert both(spark, path) == [(1, "a", 1, "x"), (2, "bb", 2, "x")]
