"""VECTOR and BLOB columns: Hudi reads and writes on ours, we read and write on Hudi's."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.schema.hudi_types import BLOB_TYPE
from lakedex.services.clustering.runner import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("e", pa.list_(pa.float32()), metadata={"hudi_type": "VECTOR(4)"}),
        pa.field("f", pa.list_(pa.float32()), metadata={"hudi_type": "VECTOR(4)"}),
        pa.field("d", pa.list_(pa.float64()), metadata={"hudi_type": "VECTOR(2, DOUBLE)"}),
        pa.field("i", pa.list_(pa.int8()), metadata={"hudi_type": "VECTOR(3, INT8)"}),
        pa.field("b", BLOB_TYPE, metadata={"hudi_type": "BLOB"}),
        pa.field("ts", pa.int64()),
    ]
)
COLUMNS = SCHEMA.names
REFERENCE = {"external_path": "/x", "offset": 0, "length": 10, "managed": False}
INLINE = {"type": "INLINE", "data": b"abc", "reference": None}
OUTSIDE = {"type": "OUT_OF_LINE", "data": None, "reference": REFERENCE}
BLOB_SQL = (
    "named_struct('type', 'INLINE', 'data', cast('abc' AS binary), 'reference', cast(null AS "
    "struct<external_path:string,offset:bigint,length:bigint,managed:boolean>))"
)


def row(key, ts, e=(1.0, 2.0, 3.0, 4.0), b=INLINE, d=(0.5, 1.0)):
    vectors = {"e": e, "f": (0.0, 0.0, 0.0, 1.0), "d": d, "i": (1, -2, 3)}
    lists = {name: None if each is None else list(each) for name, each in vectors.items()}
    return {"id": key, **lists, "b": b, "ts": ts}


def write(writer, rows, verb="upsert"):
    getattr(writer, verb)(ArrowRowSource(pa.Table.from_pylist(rows, SCHEMA)))


def both(spark, path):
    """The rows, which Hudi and lakedex must find alike."""
    frame = spark.read.format("hudi").load(path).select(*COLUMNS)
    told = {field.name: field.metadata.get("hudi_type") for field in frame.schema}
    assert (told["e"], told["d"], told["b"]) == ("VECTOR(4)", "VECTOR(2, DOUBLE)", "BLOB")
    found = sorted((each.asDict(recursive=True) for each in frame.collect()), key=lambda r: r["id"])
    mine = lakedex.open(path).to_arrow(columns=COLUMNS).to_pylist()
    assert sorted(mine, key=lambda r: r["id"]) == found
    assert lakedex.open(path).verify().ok
    return found


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_hudi_goes_on_with_our_table_and_we_with_that(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    address = StorageAddress.of(path)
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ts", table_type=kind))
    writer = TableWriter(address, LocalEngine(2), {})
    write(writer, [row(1, 1), row(2, 1, e=None, b=None, d=None), row(3, 1, b=OUTSIDE)])
    write(writer, [row(1, 2, e=(9.0, 8.0, 7.0, 6.0))])
    expected = [
        row(1, 2, e=(9.0, 8.0, 7.0, 6.0)),
        row(2, 1, e=None, b=None, d=None),
        row(3, 1, b=OUTSIDE),
    ]
    assert both(spark, path) == expected
    name = f"own_{kind}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    try:
        spark.sql(f"UPDATE {name} SET e = array(5f, 5f, 5f, 5f), ts = 3 WHERE id = 2")
    finally:
        spark.sql(f"DROP TABLE {name}")
    expected[1] = row(2, 3, e=(5.0,) * 4, b=None, d=None)
    assert both(spark, path) == expected
    write(writer, [row(3, 4, b=INLINE)])
    write(writer, [row(1, 9)], "delete")
    expected = [expected[1], row(3, 4, b=INLINE)]
    if kind == "mor":
        compact_table(writer)
        assert both(spark, path) == expected
    cluster_table(writer, by="ts")
    assert both(spark, path) == expected


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_we_go_on_with_a_table_of_hudi(spark, tmp_path, kind):
    path, name = str(tmp_path / "t"), f"theirs_{kind}"
    spark.sql(
        f"CREATE TABLE {name} (id INT, e VECTOR(4), f VECTOR(4), d VECTOR(2, DOUBLE), "
        f"i VECTOR(3, INT8), b BLOB, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey='id', "
        f"preCombineField='ts', type='{kind}') LOCATION '{path}'"
    )
    values = "array(1f, 2f, 3f, 4f), array(0f, 0f, 0f, 1f), array(0.5D, 1D), array(1Y, -2Y, 3Y)"
    try:
        for key in (1, 2):
            spark.sql(f"INSERT INTO {name} SELECT {key}, {values}, {BLOB_SQL}, 1L")
        spark.sql(f"UPDATE {name} SET e = array(5f, 5f, 5f, 5f), ts = 2 WHERE id = 1")
    finally:
        spark.sql(f"DROP TABLE {name}")
    assert both(spark, path) == [row(1, 2, e=(5.0,) * 4), row(2, 1)]
    writer = TableWriter(StorageAddress.of(path), LocalEngine(2), {})
    write(writer, [row(2, 2, b=OUTSIDE), row(3, 1, e=None)])
    assert both(spark, path) == [row(1, 2, e=(5.0,) * 4), row(2, 2, b=OUTSIDE), row(3, 1, e=None)]
