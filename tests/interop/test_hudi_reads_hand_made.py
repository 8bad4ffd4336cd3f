"""Real Hudi judges hand-made tables: it must prune with every index, then write on the table.

Every question is asked with the indexes and without. The rows must be the same, and the number of
files says that the index was used.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hudi import HudiTable

import lakedex
from tests.interop.reading import Answer, ask, ask_without_indexes, rows_by_hudi
from tests.support import TableBuilder
from tests.support.sample_tables import (
    SCHEMA,
    changed_cow,
    changed_mor,
    make_rows,
    sorted_rows,
)

TABLES = {
    "cow": changed_cow,
    "cow with base HFiles": lambda path: changed_cow(path, metadata="base"),
    "mor": changed_mor,
    "mor with base HFiles": lambda path: changed_mor(path, metadata="base"),
    "mor with parquet log blocks": lambda path: changed_mor(path, block="parquet"),
}
ALL_FILES = 4
# Predicate -> file slices that Hudi may read of four; each is answered by one index.
FILES_READ = {
    "record key": ("id = 'k003'", 1),
    "two record keys": ("id in ('k003', 'k025')", 2),
    "deleted record key": ("id = 'k011'", 0),
    "absent record key within the range of a file": ("id = 'k0030'", 0),
    "secondary value": ("s = 'moved'", 1),
    "secondary value with a dollar sign": ("s = '007-with$dollar'", 1),
    "overwritten secondary value": ("s = '004-ünïcode'", 0),
    "absent secondary value": ("s = '005-nowhere'", 0),
    "range of column stats": ("n between 120 and 130", 1),
    "value outside all ranges": ("n = 4000", 0),
    "decimal in column stats": ("price = 4.50", 1),
    "negative decimal in column stats": ("big = -12000000000000.000", 1),
    "date in column stats": ("day = date '1969-12-31'", 1),
    "timestamp in column stats": ("ts < timestamp '2024-01-01 05:00:00'", 1),
    "float in column stats": ("f > 8", 1),
    "expression outside all ranges": ("upper(s) = 'ZZZ'", 0),
    "expression in one file": ("upper(s) = '025-WITH$DOLLAR'", None),
    "expression over time": ("date_format(ts, 'yyyy-MM-dd') = '2024-01-01'", 3),
    "expression over time outside all ranges": ("date_format(ts, 'yyyy-MM-dd') = '2025-01-01'", 0),
}


@pytest.fixture(scope="module", params=TABLES)
def table(request, tmp_path_factory) -> TableBuilder:
    return TABLES[request.param](tmp_path_factory.mktemp("built") / "sample")


@pytest.fixture(scope="module")
def plain_answers(spark, table) -> dict[str, Answer]:
    """What Hudi answers by reading everything."""
    return ask_without_indexes(spark, table.path, [each for each, _ in FILES_READ.values()])


def test_hudi_reads_exactly_the_rows_that_were_written(spark, table):
    columns = [
        "id",
        "ver",
        "n",
        "s",
        "f",
        "d",
        "flag",
        "raw",
        "price",
        "big",
        "day",
        "tags",
        "pair",
    ]
    expected = sorted(table.rows().select(columns).to_pylist(), key=lambda row: row["id"])
    found = rows_by_hudi(spark, table.path, columns)
    assert [row | {"raw": bytes(row["raw"])} for row in found] == expected


@pytest.mark.parametrize("question", FILES_READ)
def test_hudi_reads_only_the_files_that_the_index_names(spark, table, plain_answers, question):
    predicate, files = FILES_READ[question]
    answer, plain = ask(spark, table.path, predicate), plain_answers[predicate]
    assert answer.ids == plain.ids
    assert plain.files == ALL_FILES
    assert answer.files < ALL_FILES if files is None else answer.files == files
    assert sorted(lakedex.open(str(table.path)).to_arrow(predicate)["id"].to_pylist()) == plain.ids


# The options under which Hudi keeps all indexes of the table while it writes.
KEEP_INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.streaming.write.enabled": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
}
# Hudi compacts the metadata table after ten deltacommits, and each index was one.
NO_COMPACTION = {"hoodie.metadata.compact.max.delta.commits": "100"}

WRITTEN_ON = {
    "cow": (changed_cow, {}),
    "mor": (changed_mor, {}),
    "mor with base HFiles": (TABLES["mor with base HFiles"], {}),
    "cow with base HFiles and no compaction": (TABLES["cow with base HFiles"], NO_COMPACTION),
}


@pytest.mark.parametrize("case", WRITTEN_ON)
def test_hudi_writes_on_and_all_three_readers_agree(spark, tmp_path, case):
    path = tmp_path / "sample"
    make, more_options = WRITTEN_ON[case]
    builder = make(path)
    options = KEEP_INDEXES | more_options
    before = sorted_rows(builder.rows())
    name = f"written_on_{len(case)}"
    spark.sql(f"create table {name} using hudi location '{path}'")
    try:
        for option, value in options.items():
            spark.sql(f"set {option}={value}")
        spark.sql(f"update {name} set s = 'by hudi', ver = 9 where id = 'k007'")
        spark.sql(f"delete from {name} where id = 'k025'")
        spark.sql(
            f"insert into {name} select 'k900' id, ver, n, 'fresh' s, f, d, flag, raw, price, big,"
            f" day, ts, tags, pair, p from {name} where id = 'k008'"
        )
    finally:
        for option in options:
            spark.sql(f"reset {option}")
        spark.sql(f"drop table {name}")
    compactions = list((path / ".hoodie/metadata/.hoodie/timeline").glob("*.commit"))
    assert bool(compactions) == (not more_options)
    expected = expected_after_hudi(before)
    ours = lakedex.open(str(path))
    assert sorted_rows(ours.to_arrow()) == expected
    assert sorted_rows(pa.Table.from_batches(HudiTable(str(path)).read())) == expected
    columns = ["id", "ver", "n", "s", "p"]
    by_hudi = rows_by_hudi(spark, path, columns)
    assert by_hudi == [{column: row[column] for column in columns} for row in expected]
    for predicate, ids in QUESTIONS_AFTER.items():
        assert ask(spark, path, predicate).ids == ids, predicate
        assert sorted(ours.to_arrow(predicate)["id"].to_pylist()) == ids, predicate
        assert len(ours.files(predicate)) == len(ids), predicate


QUESTIONS_AFTER = {
    "id = 'k007'": ["k007"],
    "id = 'k025'": [],
    "id = 'k900'": ["k900"],
    "s = 'by hudi'": ["k007"],
    "s = 'fresh'": ["k900"],
    "s = '007-with$dollar'": [],
}


def expected_after_hudi(rows: list[dict]) -> list[dict]:
    by_id = {row["id"]: row for row in rows}
    by_id["k900"] = by_id["k008"] | {"id": "k900", "s": "fresh"}
    by_id["k007"] = by_id["k007"] | {"s": "by hudi", "ver": 9}
    del by_id["k025"]
    return sorted(by_id.values(), key=lambda row: row["id"])


def test_hudi_upserts_with_the_bloom_index_through_our_footers(spark, tmp_path):
    builder = TableBuilder(
        tmp_path / "sample", SCHEMA, record_key="id", partition_by="p", ordering="ver"
    )
    builder.commit([("a", make_rows(0, 10)), ("a", make_rows(10, 20))])
    path = builder.finish()
    frame = spark.read.format("hudi").load(path).where("id in ('k001', 'k015')")
    frame = frame.drop(*[column for column in frame.columns if column.startswith("_hoodie_")])
    options = {
        "hoodie.table.name": "sample",
        "hoodie.index.type": "BLOOM",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": "ver",
        "hoodie.clean.automatic": "false",
    }
    changed = frame.withColumn("ver", frame.ver + 1)
    changed.write.format("hudi").options(**options).mode("append").save(path)
    rows = lakedex.open(path).to_arrow()
    assert rows.num_rows == 20
    newer = rows.filter(pc.equal(rows["ver"], 2))["id"].to_pylist()
    assert sorted(newer) == ["k001", "k015"]
