"""Expression indexes between lakedex and real Hudi: each prunes by what both keep up."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import IndexUnusable
from lakedex.services.index_creating import create_index
from tests.interop.handing_over import (
    by_hudi,
    by_lakedex,
    hudi_writes,
    make_table,
    source,
    writer_of,
)
from tests.interop.reading import ask

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ver", pa.int64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("d", pa.string()),
        ("p", pa.string()),
    ]
)
NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
COLUMNS = ("id", "ver", "s")
ZONE = "lakedex.expression.time.zone"
DAY = "date_format(ts, 'yyyy-MM-dd')"
LATER = "date_add(d, 10) = date'2024-03-13' and id < 'k007'"
"""Of a text, which Spark casts to a date."""


def rows(first: int, last: int, ver: int) -> pa.Table:
    """Rows of four partitions, each with days and names of its own."""
    found = [
        {
            "id": f"k{i:03}",
            "ver": ver,
            "s": f"{'abcd'[i % 4]}X{i}-{ver}",
            "ts": NOON + dt.timedelta(days=i % 4, minutes=i),
            "d": f"2024-03-0{1 + i % 4}",
            "p": f"p{i % 4}",
        }
        for i in range(first, last)
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def assert_both_prune(spark, path: str, predicate: str, keys: list[str], files: int) -> None:
    """Both engines find the rows of a predicate, in as many files."""
    answer = ask(spark, path, predicate)
    assert (answer.ids, answer.files) == (keys, files), predicate
    assert [row[0] for row in by_lakedex(path, predicate, COLUMNS)] == keys
    assert len(lakedex.open(path).explain(predicate).files) == files, predicate


def test_hudi_prunes_by_our_indexes_and_goes_on_writing(spark, tmp_path):
    # cases B61, B65: expression index and its bare column; empty commit with an expression index
    path = str(tmp_path / "t")
    writer = make_table(path, "mor", SCHEMA)
    writer.upsert(source(rows(0, 40, 1)))
    create_index(writer, "up", "s", options={"expr": "upper"})
    create_index(writer, "day", "date_format(ts, 'yyyy-MM-dd')")
    create_index(writer, "later", "d", options={"expr": "date_add", "days": "10"})
    assert_both_prune(spark, path, "upper(s) = 'EX5-1'", [], 0)
    assert_both_prune(spark, path, LATER, ["k002", "k006"], 1)
    assert_both_prune(spark, path, f"{DAY} = '2024-03-03' and id < 'k007'", ["k002", "k006"], 1)
    writer.upsert(source(rows(4, 6, 2)))
    writer.delete(source(rows(7, 8, 3)))
    hudi_writes(spark, path, rows(5, 8, 4), tmp_path)
    assert_both_prune(spark, path, "upper(s) = 'BX5-4'", ["k005"], 1)
    assert_both_prune(spark, path, "upper(s) = 'DX7-4'", ["k007"], 1)
    writer_of(path).upsert(source(rows(5, 6, 5)))
    assert_both_prune(spark, path, "upper(s) = 'BX5-5'", ["k005"], 1)
    assert_both_prune(spark, path, LATER, ["k002", "k006"], 1)
    assert by_hudi(spark, path, columns=COLUMNS) == by_lakedex(path, columns=COLUMNS)
    report = lakedex.open(path).verify()
    assert report.ok, report.problems[:3]


def test_we_keep_up_indexes_that_hudi_built(spark, tmp_path):
    path = str(tmp_path / "t")
    make_table(path, "cow", SCHEMA).upsert(source(rows(0, 40, 1)))
    hudi_indexes(spark, path)
    with pytest.raises(IndexUnusable, match=ZONE):
        writer_of(path).upsert(source(rows(5, 6, 2)))
    writer = writer_of(path, {ZONE: "UTC"})
    writer.upsert(source(rows(5, 7, 2)))
    assert_both_prune(spark, path, "upper(s) = 'BX5-2'", ["k005"], 1)
    assert_both_prune(spark, path, LATER, ["k002", "k006"], 1)
    assert_both_prune(spark, path, f"{DAY} = '2024-03-03' and id < 'k007'", ["k002", "k006"], 1)
    report = lakedex.open(path).verify()
    assert report.ok, report.problems[:3]


def hudi_indexes(spark, path: str) -> None:
    """Let Hudi make these indexes, for which it wants a lock to be chosen."""
    lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    spark.sql(f"create table to_compute using hudi location '{path}'")
    spark.sql(f"set hoodie.write.lock.provider={lock}")
    day = "expr='date_format', format='yyyy-MM-dd'"
    try:
        spark.sql("create index up on to_compute using column_stats(s) options(expr='upper')")
        spark.sql(f"create index day on to_compute using column_stats(ts) options({day})")
        later = "expr='date_add', days='10'"
        spark.sql(f"create index later on to_compute using column_stats(d) options({later})")
    finally:
        spark.sql("reset hoodie.write.lock.provider")
        spark.sql("drop table to_compute")


def test_hudi_writes_beside_an_index_that_it_does_not_know(spark, tmp_path):
    # case B61: expression index and its bare column
    path = str(tmp_path / "t")
    writer = make_table(path, "mor", SCHEMA)
    writer.upsert(source(rows(0, 40, 1)))
    create_index(writer, "who", "concat(lower(s), '@', p)")
    create_index(writer, "n", "length(trim(s)) * 2")
    asked = "concat(lower(s), '@', p) = '{}'"
    assert_found(path, asked.format("bx5-1@p1"), ["k005"], 1)
    for version in (2, 3, 4):
        # Hudi compacts the metadata table, the partitions that none of its properties names too.
        compacts = {"hoodie_metadata_compact_max_delta_commits": "1"} if version > 2 else {}
        hudi_writes(spark, path, rows(3 + version, 6 + version, version), tmp_path, **compacts)
        assert_found(path, asked.format("bx5-2@p1"), ["k005"], None)
    assert by_hudi(spark, path, columns=COLUMNS) == by_lakedex(path, columns=COLUMNS)
    writer_of(path).upsert(source(rows(20, 21, 4)))
    assert_found(path, asked.format("ax20-4@p0"), ["k020"], None)
    assert_found(path, asked.format("zx5-1@p1"), [], None)
    assert by_hudi(spark, path, "upper(s) = 'AX20-4'", COLUMNS) == [("k020", 4, "aX20-4")]
    config = lakedex.open(path).snapshot.config
    assert config.own_metadata_partitions == ("expr_index_own-n", "expr_index_own-who")
    report = lakedex.open(path).verify()
    assert report.ok, report.problems[:3]


def assert_found(path: str, predicate: str, keys: list[str], files: int | None) -> None:
    """Lakedex finds the rows of a predicate, in as many files where that is told."""
    assert [row[0] for row in by_lakedex(path, predicate, COLUMNS)] == keys
    read = len(lakedex.open(path).explain(predicate).files)
    assert files is None or read == files, predicate
