"""Tables with a bucket index, Hudi's and our own, by SQL, DataFrames and streams."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakedex.cli.main import app
from lakedex.errors import InvalidInput, LakedexError
from lakedex.write.stream_batches import StreamBatch
from tests.spark.conftest import newest_only
from tests.support.buckets import assert_in_buckets, places
from tests.support.golden import GOLDEN_FOLDER, golden_expected

pytestmark = newest_only
MOVING = [
    "CALL run_clustering(table => '{t}')",
    "CALL run_clustering(table => '{t}', op => 'schedule')",
]
PAGE = Path(__file__).parents[2] / "docs" / "indexes" / "bucket.md"
ENGINES = ("SIMPLE", "CONSISTENT_HASHING", "EXTENDIBLE_HASHING")


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


def known(spark, name="buckets"):
    return {row.id: row for row in spark.table(name).collect()}


def test_statements_and_frames_continue_a_table_of_hudi(lake, spark, table):  # case B81
    """Without any option, and whatever the session says of a write index: that is refused."""
    before, rows = places(str(table)), known(spark)
    some = sorted(rows)[:2]
    lake.sql(f"UPDATE buckets SET val = 7 WHERE id IN ('{some[0]}', '{some[1]}')")
    assert {known(spark)[key].val for key in some} == {7}
    assert places(str(table)) == before
    lake.sql(
        "MERGE INTO buckets t USING (SELECT id, -1.0 val, 'm' txt, ver + 1 ver, region "
        "FROM buckets WHERE id < '2' UNION ALL SELECT 'new', -1.0, 'm', 1L, 'eu') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert len(known(spark)) == len(rows) + 1
    lake.sql("INSERT INTO buckets SELECT concat('i', id), val, txt, ver, region FROM buckets")
    assert len(known(spark)) == 2 * (len(rows) + 1)
    frame = spark.sql("SELECT concat('f', id) id, val, txt, ver, region FROM buckets LIMIT 9")
    for mode, operation in (("append", "upsert"), ("append", "bulk_insert")):
        writer = frame.write.format("hudi").mode(mode).option("hoodie.table.name", table.name)
        writer.option("hoodie.datasource.write.operation", operation).save(str(table))
        frame = spark.sql("SELECT concat('g', id) id, val, txt, ver, region FROM buckets LIMIT 9")
    lake.table("buckets").of_batch(StreamBatch("orders", 1)).upsert(frame.limit(2))
    lake.sql("DELETE FROM buckets WHERE id LIKE 'i%'")
    found = places(str(table))
    assert before.items() <= found.items()
    assert_in_buckets(str(table), ["id"])
    eu = [row for row in known(spark).values() if row.region == "eu"]
    lake.sql(
        "INSERT OVERWRITE buckets PARTITION (region = 'eu') "
        "SELECT id, val, txt, ver FROM buckets WHERE region = 'eu' LIMIT 3"
    )
    assert len(known(spark)) == len(found) - len(eu) + 3
    lake.sql("CREATE INDEX idx ON buckets (txt)")
    lake.sql("ALTER TABLE buckets ADD COLUMNS (more INT)")
    lake.sql("ALTER TABLE buckets DROP PARTITION (region = 'eu')")
    lake.sql(
        "INSERT INTO buckets (id, val, txt, ver, more, region) SELECT 'x', 1.0, 'x', 1L, 2, 'eu'"
    )
    assert known(spark)["x"].more == 2
    assert_in_buckets(str(table), ["id"])
    assert lake.table("buckets").verify().ok
    spark.conf.set("hoodie.index.type", "SIMPLE")
    try:
        with pytest.raises(LakedexError, match="BUCKET"):
            lake.sql("UPDATE buckets SET val = 7 WHERE id = 'x'")
    finally:
        spark.conf.unset("hoodie.index.type")
    stored = content(table)
    for text in MOVING if "simple" in table.name else ():
        with pytest.raises(LakedexError, match="bucket index"):
            lake.sql(text.format(t="buckets"))
        assert content(table) == stored, text


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


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_is_created_and_written_by_sql(lake, spark, tmp_path, engine, kind):
    asked = f"'hoodie.index.type' = 'BUCKET', 'hoodie.index.bucket.engine' = '{engine}'"
    path = tmp_path / "own"
    lake.sql(
        "CREATE TABLE own (id INT, name STRING, ver INT, part STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ver', type = '{kind}', {asked}, "
        f"'hoodie.bucket.index.num.buckets' = '4') PARTITIONED BY (part) LOCATION '{path}'"
    )
    try:
        lake.sql(
            "INSERT INTO own SELECT cast(id AS int), 'a', 1, concat('p', id % 2) FROM range(50)"
        )
        lake.sql("UPDATE own SET name = 'b', ver = 2 WHERE id < 10")
        lake.sql("DELETE FROM own WHERE id = 3")
        lake.sql("INSERT INTO own VALUES (3, 'c', 1, 'p1')")
        lake.sql("INSERT OVERWRITE own PARTITION (part = 'p0') VALUES (2, 'd', 1), (4, 'd', 1)")
        found = {(row.id, row.name) for row in spark.table("own").collect()}
        assert found == {
            *((number, "b") for number in (1, 5, 7, 9)),
            *((number, "a") for number in range(11, 50, 2)),
            (3, "c"),
            (2, "d"),
            (4, "d"),
        }
        assert_in_buckets(str(path), ["id"])
        assert lake.table("own").verify().ok
    finally:
        lake.sql("DROP TABLE own")


def test_frames_and_ctas_make_tables_with_buckets(lake, spark, tmp_path):
    options = {
        "hoodie.table.name": "made",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ver",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
    }
    frame = spark.range(40).selectExpr("cast(id AS string) id", "1 ver")
    path = str(tmp_path / "made")
    frame.write.format("hudi").options(**options).mode("overwrite").save(path)
    later = frame.limit(30).selectExpr("id", "2 ver")
    later.write.format("hudi").option("hoodie.table.name", "made").mode("append").save(path)
    assert spark.read.format("hudi").load(path).groupBy("ver").count().orderBy("ver").collect() == [
        (1, 10),
        (2, 30),
    ]
    assert_in_buckets(path, ["id"])
    other = later.write.format("hudi").option("hoodie.bucket.index.num.buckets", "8")
    with pytest.raises(Exception, match=r"hoodie\.bucket\.index\.num\.buckets"):
        other.option("hoodie.table.name", "made").mode("append").save(path)
    ctas = str(tmp_path / "ctas")
    lake.sql(
        "CREATE TABLE ctas USING hudi TBLPROPERTIES (primaryKey = 'id', "
        "'hoodie.index.type' = 'BUCKET', BUCKET_INDEX_ENGINE = 'CONSISTENT_HASHING', "
        f"BUCKET_INDEX_NUM_BUCKETS = '4') LOCATION '{ctas}' AS SELECT id, 1 ver FROM range(40)"
    )
    lake.sql("UPDATE ctas SET ver = 2")
    assert spark.table("ctas").where("ver = 2").count() == 40
    assert_in_buckets(ctas, ["id"])
    lake.sql("DROP TABLE ctas")


def test_a_name_may_say_that_an_empty_table_has_buckets(lake, spark, tmp_path):
    """As Hudi registers a table: before the first commit only the catalog knows."""
    path = tmp_path / "empty"
    lake.sql(
        f"CREATE TABLE asked (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{path}'"
    )
    rows = spark.range(3).selectExpr("cast(id AS int) id")
    register(spark, "asked", "hoodie.index.type", "BUCKET")
    before = content(path)
    with pytest.raises(InvalidInput, match=r"hoodie\.index\.type"):
        lake.sql("INSERT INTO asked VALUES (1)")
    with pytest.raises(InvalidInput, match=r"hoodie\.index\.type"):
        lake.table("asked").upsert(rows)
    assert content(path) == before
    # What lakedex keeps of a table goes before; one that it did not make keeps nothing.
    for each in (".hoodie/lakedex.properties", ".hoodie/.lakedex/lakedex.properties"):
        (path / each).unlink()
    register(spark, "asked", "hoodie.bucket.index.num.buckets", "3")
    lake.table("asked").upsert(rows)
    assert spark.table("asked").count() == 3
    assert_in_buckets(str(path), ["id"], 3)


def test_pruning_by_bucket_is_switched_off_by_hudis_option(lake, spark, tmp_path):
    lake.sql(
        "CREATE TABLE pruned (id STRING, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        "'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.num.buckets' = '4') "
        f"LOCATION '{tmp_path / 'pruned'}'"
    )
    lake.sql("INSERT INTO pruned SELECT cast(id AS string), 1 FROM range(400)")
    switch = "hoodie.bucket.index.query.pruning"
    query = "SELECT * FROM pruned WHERE id = '7'"

    def left() -> bool:
        (step,) = [each for each in lake.explain(query).steps if each.index == "bucket"]
        return step.used

    assert left()
    reader = spark.read.format("hudi").option(switch, "false")
    whole = reader.load(str(tmp_path / "pruned")).where("id = '7'")
    assert "bucket" not in {each.index for each in lake.explain(whole).steps if each.used}
    assert whole.count() == 1
    spark.conf.set(switch, "false")
    try:
        assert not left()
        assert spark.sql(query).count() == 1
    finally:
        spark.conf.unset(switch)
        lake.sql("DROP TABLE pruned")


def test_numbers_of_buckets_are_managed_as_in_hudi(lake, spark, tmp_path):
    path = tmp_path / "managed"
    lake.sql(
        "CREATE TABLE managed (id STRING, v INT, p STRING) USING hudi TBLPROPERTIES "
        "(primaryKey = 'id', 'hoodie.index.type' = 'BUCKET', "
        "'hoodie.bucket.index.num.buckets' = '2') PARTITIONED BY (p) "
        f"LOCATION '{path}'"
    )
    lake.sql("INSERT INTO managed SELECT cast(id AS string), 1, concat('p', id % 3) FROM range(90)")

    def call(more: str) -> tuple[str, str]:
        (row,) = lake.sql(
            f"CALL partition_bucket_index_manager(table => 'managed', {more})"
        ).collect()
        assert row.result == "SUCCESS"
        return row.operation, row.details

    def counts() -> list[int]:
        report = lake.table("managed").buckets()
        assert lake.table("managed").verify().ok
        assert report.partitions[0].rows == 30
        return [len(each.buckets) for each in report.partitions]

    try:
        before = content(path)
        told = call("overwrite => 'p=p[01],5', bucket_number => 3")
        assert told == ("DRY_RUN_OVERWRITE", "p=p0 => 5;p=p1 => 5;p=p2 => 3")
        assert content(path) == before, "a dry run changes nothing"
        assert call("overwrite => 'p=p[01],5', bucket_number => 3, dry_run => false")[0] == (
            "OVERWRITE"
        )
        assert counts() == [5, 5, 3]
        assert call("add => 'p=p1,7', dry_run => false")[0] == "ADD"
        assert counts() == [5, 7, 3]
        shown = call("show_config => true")[1].split("; ")
        assert [each.partition(": ")[2] for each in shown[-2:]] == [
            "p=p[01],5 (default 3)",
            "p=p1,7;p=p[01],5 (default 3)",
        ]
        newest = shown[-1].partition(":")[0]
        assert call(f"rollback => '{newest}'")[0] == "ROLLBACK"
        assert counts() == [5, 5, 3]
        # The catalog has the number with which the table was created.
        lake.sql("INSERT INTO managed VALUES ('new', 1, 'p9')")
        assert len(lake.table("managed").buckets("p=p9").partitions[0].buckets) == 3
        for wrong, words in [
            ("overwrite => 'nonsense'", "pattern and a number"),
            ("overwrite => ' '", "needs rules"),
            ("overwrite => '.*,0'", "pattern and a number"),
            ("overwrite => '.*,4', add => '.*,4'", "one of overwrite, add"),
            ("dry_run => false", "one of overwrite, add"),
            ("rollback => '20200101000000000'", "no change of the numbers"),
            ("overwrite => '.*,4', rule => 'hash'", "rule is regex"),
        ]:
            with pytest.raises(InvalidInput, match=words):
                call(wrong)
    finally:
        lake.sql("DROP TABLE managed")


def test_the_sql_of_the_page_of_the_bucket_index_runs(lake, spark):
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    try:
        answers = [
            lake.sql(text).collect()
            for block in blocks
            for text in block.split(";\n")
            if text.strip()
        ]
        table = lake.table("trips")
        assert [(row.id, row.fare) for row in answers[3]] == [("trip-7", 2.5)]
        assert [len(each.buckets) for each in table.buckets().partitions] == [5, 3]
        table.resize(8, partitions=["city=c1"])
        assert [len(each.buckets) for each in table.buckets().partitions] == [5, 8]
        assert "partition_bucket_index_manager" in lake.advise("trips").statements[0]
        for line in re.findall(r"^lakedex (resize trips .*)$", PAGE.read_text(), re.MULTILINE):
            words = [table.path if word == "trips" else word for word in line.split()]
            result = CliRunner().invoke(app, words, prog_name="lakedex")
            assert result.exit_code == 0, result.output
        assert [len(each.buckets) for each in table.buckets().partitions] == [4, 8]
        lake.sql("DELETE FROM trips WHERE id = 'trip-8'")
        assert spark.table("trips").count() == 999
        assert table.verify().ok
    finally:
        lake.sql("DROP TABLE trips")
