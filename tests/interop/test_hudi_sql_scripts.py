"""The same scripts through Hudi's own SQL and through `lake.sql`: the same answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import lakedex
from lakedex.errors import UnsupportedFeature
from tests.interop.hudi_scripts import (
    ACCOUNTS,
    COLUMNS,
    LEDGER,
    ORDERS,
    QUICK_START,
    TRIPS,
    statements,
)

COMPARED = ("SELECT", "SHOW PARTITIONS")
HISTORY = "hoodie.schema.on.read.enable"


def answers(run: Any, script: str, **words: str) -> dict[str, list[tuple[Any, ...]]]:
    """What the queries of a script answer."""
    found = {}
    for number, text in enumerate(statements(script)):
        first = ""
        if "{first}" in text:
            first = run(f"SELECT min(_hoodie_commit_time) FROM {words['t']}").first()[0]
        rows = run(text.format(first=first, **words))
        if text.startswith(COMPARED):
            found[f"{number} {text}"] = [tuple(row) for row in rows.collect()]
    return found


def left_to_hudi(spark: Any, lake: Any, name: str, folder: Path) -> Any:
    """A copy of a table as Hudi reads it, once nothing in the catalog has its name any more."""
    copy = str(folder / name)
    shutil.copytree(lake.table(name).path.removeprefix("file:"), copy)
    lake.sql(f"DROP TABLE {name}")
    return spark.read.format("hudi").load(copy)


@pytest.fixture(scope="module")
def lake(spark):
    return lakedex.attach(spark)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("start", QUICK_START),
        ("trips", TRIPS),
        ("accounts", ACCOUNTS),
        ("orders", ORDERS),
        ("ledger", LEDGER),
    ],
)
def test_a_script_gives_what_it_gives_in_hudi(spark, lake, tmp_path, name, script):
    ours = answers(lake.sql, script, t=f"our_{name}", using="lakedex")
    theirs = answers(spark.sql, script, t=f"hudi_{name}", using="hudi")
    assert ours == theirs
    assert all(ours.values())
    assert not lake.table(f"our_{name}").verify().problems
    by_us = sorted(map(str, spark.table(f"our_{name}").collect()))
    by_hudi = left_to_hudi(spark, lake, f"our_{name}", tmp_path).collect()
    assert by_us == sorted(map(str, by_hudi))


def test_hudi_reads_columns_that_we_renamed_moved_retyped_and_dropped(spark, lake, tmp_path):
    try:
        ours = list(answers(lake.sql, COLUMNS, t="our_columns", using="lakedex").values())[-1]
        spark.conf.set(HISTORY, "true")
        frame = left_to_hudi(spark, lake, "our_columns", tmp_path)
        frame.createOrReplaceTempView("columns_by_hudi")
        query = statements(COLUMNS)[-1].format(t="columns_by_hudi")
        assert [tuple(row) for row in spark.sql(query).collect()] == ours
        assert ours == [(1, 1, "uno", 1, "p", "eleven", 2), (2, 2, "two", 2, "q", "20", 1)]
        assert frame.columns[5:] == ["id", "a", "s", "n", "ts", "bb"]
        assert dict(frame.dtypes)["n"] == "string"
    finally:
        spark.conf.unset(HISTORY)


def test_folders_that_hudi_sql_named_by_a_time_get_no_second_one(spark, lake, tmp_path):
    path = str(tmp_path / "timed")
    spark.sql(
        "CREATE TABLE timed (id STRING, v INT, ts BIGINT, at TIMESTAMP) USING hudi PARTITIONED BY "
        f"(at) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}'"
    )
    spark.sql("INSERT INTO timed VALUES ('a', 1, 1, TIMESTAMP'2024-01-01 00:00:00')")
    rows = lake.table(path).to_df().drop("_hoodie_commit_time")
    assert [row["v"] for row in rows.collect()] == [1]
    with pytest.raises(UnsupportedFeature, match=r"at=2024-01-01 00%3A00%3A00.*Hudi's SQL"):
        lake.table(path).upsert(rows)
    spark.sql("DROP TABLE timed")
