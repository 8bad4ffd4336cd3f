"""The same scripts through Hudi's own SQL and through `lake.sql`: the same answers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import lakedex
from tests.support.hudi_scripts import ACCOUNTS, COLUMNS, TRIPS, statements


def answers(run: Any, script: str, **words: str) -> list[list[tuple[Any, ...]]]:
    """What the queries of a script answer."""
    found = []
    table = words["t"]
    for text in statements(script):
        first = ""
        if "{first}" in text:
            first = run(f"SELECT min(_hoodie_commit_time) FROM {table}").first()[0]
        rows = run(text.format(first=first, **words))
        if text.startswith("SELECT"):
            found.append([tuple(row) for row in rows.collect()])
    return found


@pytest.fixture(scope="module")
def lake(spark):
    spark.sparkContext.pythonExec = sys.executable
    return lakedex.attach(spark)


@pytest.mark.parametrize(("name", "script"), [("trips", TRIPS), ("accounts", ACCOUNTS)])
def test_a_script_gives_what_it_gives_in_hudi(spark, lake, name, script):
    ours = answers(lake.sql, script, t=f"our_{name}", using="lakedex")
    theirs = answers(spark.sql, script, t=f"hudi_{name}", using="hudi")
    assert ours == theirs
    assert all(ours)
    # Hudi reads what we wrote.
    last = statements(script)[-1 if name == "trips" else -2]
    path = lake.table(f"our_{name}").path
    spark.read.format("hudi").load(path).createOrReplaceTempView("read_by_hudi")
    query = last.format(t="read_by_hudi")
    assert [tuple(row) for row in spark.sql(query).collect()] == ours[-1 if name == "trips" else -2]


def test_hudi_reads_columns_that_we_renamed_and_dropped(spark, lake):
    try:
        ours = answers(lake.sql, COLUMNS, t="our_columns", using="lakedex", type="mor")
        path = lake.table("our_columns").path
        spark.read.format("hudi").load(path).createOrReplaceTempView("columns_by_hudi")
        query = statements(COLUMNS)[-1].format(t="columns_by_hudi")
        assert [tuple(row) for row in spark.sql(query).collect()] == ours[-1]
        assert ours[-1] == [(1, 1, "uno", 1, "p", 2), (2, 2, "two", 2, "q", 1)]
        assert "c" not in spark.read.format("hudi").load(path).columns
    finally:
        spark.sql("RESET hoodie.schema.on.read.enable")
