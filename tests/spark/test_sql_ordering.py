"""Rows laid out by SQL: the hint ORDER BY, and columns that come to column_stats."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidInput

SOURCE = "SELECT concat('k', id) AS id, id AS ts, CAST(id % 24 AS int) AS part FROM range(2400)"


@pytest.fixture(scope="module")
def events(lake, spark):
    """A table of small files, with an index on the minute."""
    spark.sql(
        "CREATE TABLE ordered (id string, ts bigint, part int) USING hudi TBLPROPERTIES "
        "(primaryKey='id', orderingFields='ts', 'hoodie.parquet.max.file.size'='8000')"
    )
    spark.sql("INSERT INTO ordered VALUES ('first', 0, 0)")
    spark.sql(
        "CREATE INDEX idx_minute ON ordered USING column_stats(ts) "
        "OPTIONS (expr='from_unixtime', format='mm')"
    )
    return lake.table("ordered")


def files_of_minute(lake) -> tuple[int, int]:
    """How many files a minute is read from, and how many there are."""
    asked = "SELECT id FROM ordered WHERE from_unixtime(ts, 'mm') = '07'"
    told = lake.explain(asked)
    return len(told.files), len(lake.table("ordered").snapshot.slices)


@pytest.mark.parametrize(
    "hint", ["ORDER BY idx_minute", "COALESCE(1), ORDER BY (idx_minute)", "order by IDX_minute, Id"]
)
def test_the_hint_lays_out_the_rows_of_an_insert(lake, spark, events, hint):
    hinted = SOURCE.replace("SELECT", f"SELECT /*+ {hint} */", 1)
    spark.sql(f"INSERT OVERWRITE ordered {hinted} ORDER BY ts DESC LIMIT 2400")
    assert spark.table("ordered").count() == 2400
    read, there = files_of_minute(lake)
    assert there > 5
    assert read == 1


def test_without_a_hint_rows_lie_as_they_come(lake, spark, events):
    spark.sql(f"INSERT OVERWRITE ordered SELECT /*+ COALESCE(1) */ * FROM ({SOURCE}) ORDER BY id")
    read, there = files_of_minute(lake)
    assert there > 5
    assert read > 1


def test_a_hint_that_names_nothing_known_is_refused(lake, spark, events):
    before = spark.table("ordered").count()
    for named in ("idx_none", "idx_minute DESC", "", "(range.id)"):
        hinted = SOURCE.replace("SELECT", f"SELECT /*+ ORDER BY {named} */", 1)
        with pytest.raises(InvalidInput, match=r"to lay rows out by|not .*range"):
            lake.sql(f"INSERT INTO ordered {hinted}")
    assert spark.table("ordered").count() == before


def test_columns_come_to_column_stats_by_sql(lake, spark):
    spark.sql(
        "CREATE TABLE covered (id string, x int, y int) USING hudi TBLPROPERTIES "
        "(primaryKey='id', 'hoodie.metadata.index.column.stats.column.list'='x', "
        "'hoodie.parquet.small.file.limit'='0')"
    )
    for number in range(3):
        spark.sql(f"INSERT INTO covered VALUES ('k{number}', {number}, {10 * number})")
    assert len(lake.explain("SELECT * FROM covered WHERE y = 10").files) == 3
    spark.sql("CREATE INDEX idx_y ON covered USING column_stats(y)")
    spark.sql("CREATE INDEX idx_id ON covered USING bloom_filters(id)")
    assert len(lake.explain("SELECT * FROM covered WHERE y = 10").files) == 1
    shown = {
        row.index_name: row.col_name for row in spark.sql("SHOW INDEXES FROM covered").collect()
    }
    assert shown["column_stats"] == "x,y"
    assert "bloom_filters" in shown
    with pytest.raises(InvalidInput, match="has the index column_stats already"):
        lake.sql("CREATE INDEX again ON covered USING column_stats(y)")
    spark.sql("DROP TABLE covered")
