"""Secondary indexes by SQL and by the table's own verbs, built and kept up in Spark jobs."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidInput, UnsupportedFeature

PROPERTIES = (
    "primaryKey='uuid', orderingFields='ts', type='mor', "
    "'hoodie.metadata.record.index.enable'='true', 'hoodie.index.type'='RECORD_INDEX', "
    "'hoodie.metadata.global.record.level.index.min.filegroup.count'='2', "
    "'hoodie.metadata.global.record.level.index.max.filegroup.count'='2'"
)
NAME = "secondary_index_idx_rider"


def test_a_secondary_index_from_first_to_last(lake, spark, tmp_path):
    sql = spark.sql
    sql(
        "CREATE TABLE trips_si (uuid string, ts bigint, rider string, fare double, city string) "
        f"USING hudi TBLPROPERTIES ({PROPERTIES}) PARTITIONED BY (city) LOCATION '{tmp_path}/t'"
    )
    sql(
        "INSERT INTO trips_si VALUES ('a1', 1, 'ann', 1.5, 'oslo'), ('a2', 1, 'ann', 2.5, 'rio'), "
        "('b1', 1, 'bob', 3.5, 'oslo'), ('c1', 1, null, 4.5, 'lima')"
    )
    sql("CREATE INDEX idx_rider ON trips_si (RIDER)")
    sql("CREATE INDEX IF NOT EXISTS idx_rider ON TABLE trips_si USING secondary_index (rider)")
    with pytest.raises(InvalidInput, match="already"):
        lake.sql("CREATE INDEX idx_rider ON trips_si (city)")
    shown = {row["index_name"]: row for row in sql("SHOW INDEXES FROM trips_si").collect()}
    assert (shown[NAME]["col_name"], shown[NAME]["index_type"]) == ("rider", "secondary_index")
    trips = lake.table("trips_si")

    def found(condition: str) -> list[str]:
        rows = sql(f"SELECT uuid FROM trips_si WHERE {condition}").collect()
        return sorted(row["uuid"] for row in rows)

    assert found("rider = 'ann'") == ["a1", "a2"]
    assert len(trips.explain("rider = 'bob'").files) == 1
    sql("UPDATE trips_si SET rider = 'zoe' WHERE uuid = 'a1'")
    sql("DELETE FROM trips_si WHERE uuid = 'b1'")
    sql(
        "MERGE INTO trips_si t USING (SELECT 'c1' uuid, 5L ts, 'ann' rider, 'lima' city) s "
        "ON t.uuid = s.uuid WHEN MATCHED THEN UPDATE SET rider = s.rider, ts = s.ts"
    )
    assert found("rider = 'ann'") == ["a2", "c1"]
    assert found("rider in ('zoe', 'bob')") == ["a1"]
    assert found("rider <=> null") == []
    assert trips.verify().ok
    sql("REFRESH INDEX idx_rider ON trips_si")
    trips.create_index("idx_fare", "fare", using="secondary_index", options={}, wait=True)
    with pytest.raises(UnsupportedFeature, match="wait=False"):
        trips.create_index("idx_city", "city", wait=False)
    assert trips.verify().ok
    sql("DROP INDEX idx_rider ON trips_si")
    sql("DROP INDEX idx_fare")
    sql("DROP INDEX IF EXISTS idx_rider ON trips_si")
    assert not [each.name for each in trips.indexes() if each.kind == "secondary_index"]
    assert found("rider = 'ann'") == ["a2", "c1"]
