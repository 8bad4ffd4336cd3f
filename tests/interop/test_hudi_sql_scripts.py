"""The same scripts through Hudi's own SQL and through `lake.sql`: the same answers."""

from __future__ import annotations

from typing import Any

import pytest

import lakedex
from tests.interop.hudi_scripts import ACCOUNTS, COLUMNS, QUICK_START, TRIPS, statements

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


@pytest.fixture(scope="module")
def lake(spark):
    return lakedex.attach(spark)


@pytest.mark.parametrize(
    ("name", "script"), [("start", QUICK_START), ("trips", TRIPS), ("accounts", ACCOUNTS)]
)
def test_a_script_gives_what_it_gives_in_hudi(spark, lake, name, script):
    ours = answers(lake.sql, script, t=f"our_{name}", using="lakedex")
    theirs = answers(spark.sql, script, t=f"hudi_{name}", using="hudi")
    assert ours == theirs
    assert all(ours.values())
    assert not lake.table(f"our_{name}").verify().problems
    # Hudi reads what we wrote, and we what Hudi wrote.
    path = lake.table(f"our_{name}").path
    by_hudi = spark.read.format("hudi").load(path).drop("_hoodie_file_name")
    by_us = spark.table(f"our_{name}").drop("_hoodie_file_name")
    assert by_hudi.exceptAll(by_us).count() == by_us.exceptAll(by_hudi).count() == 0


def test_hudi_reads_columns_that_we_renamed_moved_retyped_and_dropped(spark, lake):
    try:
        ours = list(answers(lake.sql, COLUMNS, t="our_columns", using="lakedex").values())[-1]
        spark.conf.set(HISTORY, "true")
        frame = spark.read.format("hudi").load(lake.table("our_columns").path)
        frame.createOrReplaceTempView("columns_by_hudi")
        query = statements(COLUMNS)[-1].format(t="columns_by_hudi")
        assert [tuple(row) for row in spark.sql(query).collect()] == ours
        assert ours == [(1, 1, "uno", 1, "p", "eleven", 2), (2, 2, "two", 2, "q", "20", 1)]
        assert frame.columns[5:] == ["id", "a", "s", "n", "ts", "bb"]
        assert dict(frame.dtypes)["n"] == "string"
    finally:
        spark.conf.unset(HISTORY)
