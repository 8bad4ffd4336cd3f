"""Tables of Hudi's with a bucket index: queries and upkeep are served, writes are refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lakedex.errors import LakedexError, UnsupportedFeature
from lakedex.write.stream_batches import StreamBatch
from tests.spark.conftest import newest_only
from tests.support.golden import GOLDEN_FOLDER, golden_expected

pytestmark = newest_only
STATEMENTS = [
    "INSERT INTO {t} SELECT * FROM {t}",
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id = '1'",
    "INSERT OVERWRITE {t} PARTITION (region = 'eu') SELECT id, val, txt, ver FROM {t} LIMIT 1",
    "UPDATE {t} SET val = 7 WHERE id = '1'",
    "DELETE FROM {t} WHERE id = '1'",
    "MERGE INTO {t} USING (SELECT * FROM {t} LIMIT 2) s ON {t}.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "TRUNCATE TABLE {t}",
    "ALTER TABLE {t} DROP PARTITION (region = 'eu')",
    "ALTER TABLE {t} ADD COLUMNS (more INT)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('hoodie.index.type' = 'SIMPLE')",
    "CREATE INDEX idx ON {t} (txt)",
    "CALL run_clustering(table => '{t}')",
    "CALL run_clustering(table => '{t}', op => 'schedule')",
]


def register(spark, name, key, value):
    """Change a property of a name in the catalog behind the table's back, as a sync does."""
    catalog = spark._jsparkSession.sessionState().catalog()
    parser = spark._jsparkSession.sessionState().sqlParser()
    entry = catalog.getTableMetadata(parser.parseTableIdentifier(name))
    names = [entry.productElementName(each) for each in range(entry.productArity())]
    values = [entry.productElement(each) for each in range(entry.productArity())]
    at = names.index("properties")
    values[at] = values[at].updated(key, value)
    catalog.alterTable(entry.copy(*values))


def content(path):
    return {
        str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()
    }


@pytest.fixture(params=["bucket_simple_cow", "bucket_consistent_merge"])
def table(request, lake, spark, tmp_path):
    with zipfile.ZipFile(GOLDEN_FOLDER / f"{request.param}.zip") as packed:
        packed.extractall(tmp_path)
    path = tmp_path / golden_expected(request.param)["table_dir"]
    spark.sql(f"CREATE TABLE buckets USING hudi LOCATION '{path}'")
    yield path
    spark.sql("DROP TABLE IF EXISTS buckets")


def test_statements_and_frames_are_refused_and_change_nothing(lake, spark, table):  # case B81
    before, rows = content(table), spark.table("buckets").count()
    for text in STATEMENTS:
        with pytest.raises(LakedexError, match="bucket index"):
            lake.sql(text.format(t="buckets"))
        assert content(table) == before, text
    spark.conf.set("hoodie.index.type", "SIMPLE")
    try:
        with pytest.raises(LakedexError, match="bucket index"):
            lake.sql(STATEMENTS[0].format(t="buckets"))
    finally:
        spark.conf.unset("hoodie.index.type")
    frame = spark.table("buckets").limit(3)
    for mode, operation in (
        ("append", "upsert"),
        ("append", "bulk_insert"),
        ("overwrite", "insert"),
    ):
        writer = frame.write.format("hudi").mode(mode)
        writer = writer.option("hoodie.datasource.write.operation", operation)
        with pytest.raises(Exception, match="bucket index"):
            writer.option("hoodie.table.name", table.name).save(str(table))
        assert content(table) == before, operation
    for act in (lake.table("buckets").upsert, lake.table("buckets").insert_overwrite_table):
        with pytest.raises(UnsupportedFeature, match="bucket index"):
            act(frame)
    with pytest.raises(UnsupportedFeature, match="bucket index"):
        lake.table("buckets").of_batch(StreamBatch("orders", 1)).upsert(frame)
    assert content(table) == before
    assert spark.table("buckets").count() == rows


def test_queries_and_compaction_are_served(lake, spark, table):
    is_consistent = "consistent" in Path(table).name
    rows = sorted(map(tuple, spark.sql("SELECT id, val, ver, region FROM buckets").collect()))
    assert len(rows) == spark.sql("SELECT count(DISTINCT id) FROM buckets").first()[0]
    report = lake.explain("SELECT * FROM buckets WHERE region = 'eu'")
    assert "partition" in str(report)
    if is_consistent:
        lake.sql("CALL run_compaction(op => 'schedule', table => 'buckets')")
        lake.sql("CALL run_compaction(op => 'run', table => 'buckets')")
    assert rows == sorted(
        map(tuple, spark.sql("SELECT id, val, ver, region FROM buckets").collect())
    )
    assert lake.table("buckets").verify().ok


def test_a_name_that_asks_for_buckets_is_not_written(lake, spark, tmp_path):
    """As Hudi registers a table: before the first commit only the catalog knows."""
    asked = "primaryKey = 'id', 'hoodie.index.type' = 'BUCKET'"
    path = tmp_path / "empty"
    with pytest.raises(UnsupportedFeature, match=r"hoodie\.index\.type"):
        lake.sql(
            f"CREATE TABLE asked (id INT) USING hudi TBLPROPERTIES ({asked}) LOCATION '{path}'"
        )
    assert not spark.catalog.tableExists("asked")
    lake.sql(
        f"CREATE TABLE asked (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{path}'"
    )
    rows = spark.range(3).selectExpr("cast(id AS int) id")
    register(spark, "asked", "hoodie.index.type", "BUCKET")
    before = content(path)
    with pytest.raises(UnsupportedFeature, match=r"hoodie\.index\.type"):
        lake.sql("INSERT INTO asked VALUES (1)")
    with pytest.raises(UnsupportedFeature, match=r"hoodie\.index\.type"):
        lake.table("asked").upsert(rows)
    assert content(path) == before
    assert spark.table("asked").count() == 0
    register(spark, "asked", "hoodie.index.type", "SIMPLE")
    lake.table("asked").upsert(rows)
    assert spark.table("asked").count() == 3
