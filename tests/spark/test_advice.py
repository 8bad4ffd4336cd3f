"""Queries of plain Spark SQL are counted, and what they asked for comes back as advice."""

from __future__ import annotations

import pytest

from lakedex.errors import TableNotFound

PROPERTIES = (
    "primaryKey='uuid', orderingFields='ts', 'hoodie.metadata.index.column.stats.enable'='false'"
)


def test_advice_from_queries_to_a_built_index(lake, spark, tmp_path, monkeypatch):
    monkeypatch.setenv("LAKEDEX_INDEX_USAGE", "on")
    sql = spark.sql
    sql("CREATE DATABASE IF NOT EXISTS advised")
    sql(
        "CREATE TABLE advised.trips (uuid string, ts bigint, rider string, city string) USING hudi "
        f"TBLPROPERTIES ({PROPERTIES}) PARTITIONED BY (city) LOCATION '{tmp_path}/t'"
    )
    sql(f"CREATE TABLE advised.gone (uuid string) USING hudi LOCATION '{tmp_path}/gone'"
        " TBLPROPERTIES (primaryKey='uuid')")  # fmt: skip
    (tmp_path / "gone" / ".hoodie" / "hoodie.properties").unlink()
    sql("CREATE OR REPLACE TEMP VIEW somebody AS SELECT 1 AS x")
    sql(
        "INSERT INTO advised.trips SELECT concat('k', id), id, concat('r', id * 7 % 24), "
        "concat('c', id % 6) FROM range(24)"
    )
    for _ in range(3):
        assert sql("SELECT * FROM advised.trips WHERE rider = 'r5'").count() == 1
    advice = lake.advise()
    # Tables of other tests may be in the catalog, but nobody has asked them anything.
    (told,) = advice.proposals
    assert told.table == "advised.trips"
    assert told.statement.startswith("CREATE INDEX idx_rider ON advised.trips (rider) OPTIONS")
    assert (told.queries, told.files_saved) == (3, 15)
    assert any(note.startswith("advised.gone: ") for note in advice.notes)
    trips = lake.table("advised.trips")
    assert trips.explain("rider = 'r5'", assuming=["rider"]).expected == 1
    assert [each.index for each in lake.advise([trips.path]).proposals] == ["idx_rider"]
    sql(told.statement)
    assert len(trips.explain("rider = 'r5'").files) == 1
    assert not lake.advise("advised.trips").proposals
    sql("DROP INDEX idx_rider ON advised.trips")
    # A table is named by its path as well.
    (again,) = trips.advise().statements
    sql(again)
    assert len(trips.explain("rider = 'r5'").files) == 1
    assert trips.verify().ok
    with pytest.raises(TableNotFound):
        lake.advise("nobody")
