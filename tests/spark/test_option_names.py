"""Option names wherever they come in through Spark: misspelled, not served, a user's own."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import lakedex
from lakedex.config import option_check
from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature

OPTIONS = {
    "hoodie.table.name": "named",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ver",
}
SYNC = "hoodie.datasource.hive_sync.enable"
LIST = "hoodie.metadata.index.column.stats.column.list"


def rows(spark: Any, count: int, version: int = 1) -> Any:
    return spark.range(count).selectExpr("concat('k', id) AS id", f"{version}L AS ver")


def save(spark: Any, path: str, **more: str) -> None:
    spelled = {name.replace("__", "."): value for name, value in more.items()}
    writer = rows(spark, 3).write.format("hudi").options(**OPTIONS, **spelled)
    writer.mode("append").save(path)


@pytest.fixture
def path(lake, tmp_path) -> str:
    place = str(tmp_path / "named")
    save(lake.spark, place)
    return place


@pytest.fixture
def warnings(monkeypatch, caplog) -> Any:
    """What is logged in a process that has warned of nothing yet."""
    monkeypatch.setattr(option_check, "_warned", set())
    caplog.set_level(logging.WARNING, logger="lakedex")
    return caplog


# cases B82, B83: misspelled option; option without effect
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("as.of.instnt", "2026", "'as.of.instnt'; did you mean 'as.of.instant'"),
        ("as_of", "2026", "no option is called 'as_of'"),
        ("hoodie.datasource.query.tpye", "snapshot", "did you mean 'hoodie.datasource.query.type'"),
        ("hoodie.my.company.thing", "1", "no option is called 'hoodie.my.company.thing'"),
        ("hoodie.datasource.read.incr.path.glob", "a/*", "incr.path.glob=a/. .filter the rows"),
        ("timestampAsOf", "2026-01-01", "use as.of.instant instead"),
        ("modifiedAfter", "2026-01-01", "filter the rows"),
    ],
)
def test_a_reader_refuses_what_it_does_not_know(lake, path, name, value, words):
    spark = lake.spark
    with pytest.raises(Exception, match=words):
        spark.read.format("hudi").option(name, value).load(path)
    with pytest.raises(Exception, match=words):
        spark.readStream.format("hudi").option(name, value).load(path)
    assert spark.read.format("hudi").load(path).count() == 3


def test_a_reader_warns_once_of_what_changes_no_row(lake, path, warnings):
    reader = lake.spark.read.format("hudi").option("mergeSchema", "true").option("basePath", path)
    reader = reader.option("hoodie.file.index.enable", "true").option(SYNC, "true")
    for _ in range(2):
        assert reader.load(path).count() == 3
    said = sorted(record.getMessage() for record in warnings.records)
    assert len(said) == 4, said
    assert all("has no effect on a read" in each for each in said)
    warnings.clear()
    whole = lake.spark.read.format("hudi").option("HOODIE.enable.data.skipping", "false")
    assert whole.load(path).count() == 3
    assert not warnings.records


def test_options_of_a_name_are_those_of_one_query(lake, path):
    """Spark keeps one relation for each name, whatever the options of the first query were."""
    spark = lake.spark
    spark.sql(f"CREATE TABLE by_name USING hudi LOCATION '{path}'")
    begun = lakedex.open(path).timeline.completed()[0]
    first = begun.requested_time
    rows(spark, 5, 2).write.format("hudi").options(**OPTIONS).mode("append").save(path)
    span = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "earliest",
        "hoodie.datasource.read.end.instanttime": begun.completion_time,
    }
    for _ in range(2):
        assert spark.read.option("as.of.instant", first).table("by_name").count() == 3
        assert spark.table("by_name").count() == 5
        assert spark.read.options(**span).table("default.by_name").count() == 3
        with pytest.raises(Exception, match=r"did you mean 'as.of.instant'"):
            spark.read.option("as.of.instnt", first).table("by_name")
        assert spark.sql("SELECT * FROM by_name").count() == 5
    spark.catalog.refreshTable("by_name")
    travelled = spark.read.option("as.of.instant", first).table("by_name")
    assert travelled.join(spark.table("by_name"), "id", "right").count() == 5
    if spark.version.startswith("4"):
        query = "SELECT n.id FROM by_name WITH (`{}` = '{}') AS n"
        assert spark.sql(query.format("as.of.instant", first)).count() == 3
        assert spark.sql("SELECT * FROM by_name").count() == 5
        with pytest.raises(Exception, match=r"did you mean 'as.of.instant'"):
            spark.sql(query.format("as.of.instnt", first))
        twice = "SELECT * FROM by_name TIMESTAMP AS OF '2199-01-01' WITH (`as.of.instant` = '{}')"
        with pytest.raises(Exception, match="says twice as of when"):
            spark.sql(twice.format(first))
        insert = "INSERT INTO by_name WITH (`{}` = '{}') VALUES ('k0', 9)"
        with pytest.raises(Exception, match=r"did you mean .*insert.into.operation'"):
            spark.sql(insert.format("hoodie.spark.sql.insert.into.operatoin", "upsert"))
        spark.sql(insert.format("hoodie.spark.sql.insert.into.operation", "upsert"))
        assert spark.table("by_name").count() == 5
    spark.sql("DROP TABLE by_name")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("typ", "mor", "'typ'; did you mean 'type'"),
        ("hoodie.datasource.write.opration", "insert", "did you mean .*write.operation'"),
        (SYNC, "true", f"{SYNC}=true .no other catalog is synced"),
        ("hoodie.bucket.index.num.buckets", "4", "says nothing without hoodie.index.type=BUCKET"),
        ("my.own", "1", "no option is called 'my.own'"),
    ],
)
def test_a_writer_refuses_what_it_does_not_do(lake, tmp_path, path, name, value, words):
    before = len(lakedex.open(path).timeline)
    for place in (path, str(tmp_path / "new")):
        with pytest.raises(Exception, match=words):
            save(lake.spark, place, **{name: value})
    assert len(lakedex.open(path).timeline) == before
    assert not (tmp_path / "new").exists()


def test_a_writer_warns_once_and_takes_short_names(lake, tmp_path, warnings):
    path = str(tmp_path / "short")
    for _ in range(2):
        writer = rows(lake.spark, 3).write.format("hudi").option("primaryKey", "id")
        writer = writer.option("TYPE", "mor").option(SYNC, "false")
        writer.option("hoodie.upsert.shuffle.parallelism", "2").mode("append").save(path)
    said = [each.getMessage() for each in warnings.records]
    assert len(said) == 1, said
    assert said[0].startswith("option hoodie.upsert.shuffle.parallelism has no effect on a write")
    assert lakedex.open(path).snapshot.config.table_type.value == "MERGE_ON_READ"


def test_properties_of_a_table(lake, tmp_path, sql):
    made = "CREATE TABLE props (id STRING, ver BIGINT) USING hudi {} LOCATION '{}'"
    place = str(tmp_path / "props")
    for clause in ("TBLPROPERTIES (primaryKey='id', typ='mor')", "OPTIONS (primary_key='id')"):
        with pytest.raises(Exception, match=r"did you mean '(type|primaryKey)'"):
            sql(made.format(clause, place))
    with pytest.raises(Exception, match=r"hive_sync\.enable=true"):
        sql(made.format(f"TBLPROPERTIES (primaryKey='id', '{SYNC}'='true')", place))
    assert not (tmp_path / "props").exists()
    own = "'hoodie.my.company.thing'='x', steward='me', 'team.name'='lake'"
    sql(made.format(f"TBLPROPERTIES (primaryKey='id', {own})", place))
    sql("INSERT INTO props VALUES ('a', 1)")
    with pytest.raises(Exception, match=r"did you mean 'hoodie.clean.policy'"):
        sql("ALTER TABLE props SET TBLPROPERTIES ('hoodie.clean.polcy'='KEEP_LATEST_BY_HOURS')")
    with pytest.raises(Exception, match=r"says nothing without hoodie\.index\.type=BUCKET"):
        sql("ALTER TABLE props SET TBLPROPERTIES ('hoodie.bucket.index.hash.field'='id')")
    for value in ("x", "y"):
        given = f"'hoodie.my.other.thing'='{value}', 'cost.center'='7'"
        sql(f"ALTER TABLE props SET TBLPROPERTIES ({given})")
    shown = {row["key"]: row["value"] for row in sql("SHOW TBLPROPERTIES props").collect()}
    wanted = {"hoodie.my.company.thing": "x", "hoodie.my.other.thing": "y", "cost.center": "7"}
    assert wanted.items() <= shown.items()
    assert lake.table("props").properties["hoodie.my.company.thing"] == "x"
    sql("INSERT INTO props VALUES ('b', 2)")
    assert sql("SELECT * FROM props").count() == 2
    sql("DROP TABLE props")


def test_settings_of_the_session(lake, tmp_path, setting):
    sql, place = lake.sql, str(tmp_path / "set")
    sql(
        f"CREATE TABLE named_set (id STRING, name STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey='id') LOCATION '{place}'"
    )
    with pytest.raises(InvalidInput, match=r"did you mean 'hoodie.metadata.enable'"):
        sql("SET hoodie.metadta.enable=false")
    setting("hoodie.my.company.thing", "x")
    setting("hoodie.metdata.enable", "false")
    with pytest.raises(InvalidInput, match=r"did you mean 'hoodie.metadata.enable'"):
        sql("INSERT INTO named_set VALUES ('a', 'x')")
    lake.spark.conf.unset("hoodie.metdata.enable")
    setting(SYNC, "true")
    with pytest.raises(UnsupportedFeature, match=r"hive_sync\.enable=true"):
        sql("INSERT INTO named_set VALUES ('a', 'x')")
    setting(SYNC, "false")
    # A list of columns that is said after CREATE; one of another table is left out.
    setting(LIST, "name,elsewhere")
    sql("INSERT INTO named_set VALUES ('a', 'x'), ('b', 'y')")
    (stats,) = [each for each in lakedex.open(place).indexes() if each.name == "column_stats"]
    assert {each for each in stats.columns if not each.startswith("_hoodie")} == {"name"}
    setting(LIST, "id")
    sql("INSERT INTO named_set VALUES ('c', 'x')")
    assert lakedex.open(place).verify().ok
    assert sql("SELECT id FROM named_set WHERE id >= 'a' AND name = 'x'").count() == 2
    sql("DROP TABLE named_set")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_settings_of_the_session_are_checked_by_reads(lake, tmp_path, setting, warnings, kind):
    spark, place = lake.spark, str(tmp_path / "read_set")
    save(spark, place, type=kind)
    save(spark, place)  # merged by our own reader where there are log files
    frame = spark.read.format("hudi").load(place)
    setting("hoodie.my.company.thing", "x\ny")
    setting(SYNC, "false")
    setting("hoodie.index.type", "SIMPLE")
    assert frame.count() == 3
    assert not warnings.records
    for name, value, words in [
        ("hoodie.metdata.enable", "false", "did you mean 'hoodie.metadata.enable'"),
        ("lakedex.record.index.window.dais", "1", "did you mean .*window.days'"),
        (SYNC, "true", "hive_sync.enable=true .no other catalog is synced"),
        ("hoodie.read.blob.inline.mode", "CONTENT", "blob.inline.mode=CONTENT .blobs are read"),
        ("spark.lakedex.index.usag", "false", "no setting is called 'spark.lakedex.index.usag'"),
    ]:
        setting(name, value)
        with pytest.raises(Exception, match=words):
            frame.where("ver > 0").collect()
        with pytest.raises(Exception, match=words):
            spark.read.format("hudi").load(place).count()
        with pytest.raises(Exception, match=words):
            spark.readStream.format("hudi").load(place)
        with pytest.raises(Exception, match=words):
            save(spark, place)
        with pytest.raises(Exception, match=words):
            lake.sql(f"SET {name}={value}")
        spark.conf.unset(name)
        assert frame.where("ver > 0").count() == 3
    for name in ("spark.lakedex.index.usage", "hoodie.enable.data.skipping"):
        setting(name, "flase")
        with pytest.raises(Exception, match=f"{name} is true or false, not 'flase'"):
            frame.where("ver > 0").collect()
        spark.conf.unset(name)
    # Options of a reader that a session does not say for it: a warning, once.
    setting("hoodie.datasource.query.type", "incremental")
    setting("hoodie.file.index.enable", "false")
    for _ in range(2):
        assert frame.count() == 3
    said = sorted(record.getMessage() for record in warnings.records)
    assert [each.split()[1] for each in said] == [
        "hoodie.datasource.query.type",
        "hoodie.file.index.enable",
    ]


def test_a_sample_of_the_list_meets_its_verdict_in_spark(lake, path, tmp_path, warnings):
    """What the test of the whole list shows without Spark, by the ways that only Spark has."""
    spark, before = lake.spark, len(lakedex.open(path).timeline)
    sample = [each for each in option_check.hudi_options() if "*" not in each.name][::30]
    refused = [each for each in sample if each.verdict is option_check.Verdict.REFUSED]
    assert len(refused) >= 3
    made = "CREATE TABLE sampled (id STRING) USING hudi TBLPROPERTIES (primaryKey='id', '{}'='?')"
    for each in refused:
        words = rf"{each.name}=\? \({each.reason}"
        if option_check.Use.WRITE in each.uses:
            with pytest.raises(Exception, match=words):
                save(spark, path, **{each.name: "?"})
            with pytest.raises(Exception, match=words):
                lake.sql(made.format(each.name))
        else:
            with pytest.raises(Exception, match=words):
                spark.read.format("hudi").option(each.name, "?").load(path)
        with pytest.raises(UnsupportedFeature, match=words):
            lake.sql(f"SET {each.name}=?")
    assert len(lakedex.open(path).timeline) == before
    warned = [each for each in sample if each.verdict is option_check.Verdict.WARNED]
    writes = [each.name for each in warned if option_check.Use.WRITE in each.uses]
    warnings.clear()
    save(spark, path, **dict.fromkeys(writes, "?"))
    assert {each.getMessage().split()[1] for each in warnings.records} == set(writes)
    assert len(warnings.records) == len(writes) >= 8
    assert spark.read.format("hudi").load(path).count() == 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("show_commits(tabel => '{}')", InvalidDefinition, "'tabel' is unknown; did you mean"),
        (
            "run_clustering(path => '{}', options => 'hoodie.clustering.plan.strategy.max=1')",
            InvalidInput,
            "no option is called 'hoodie.clustering.plan.strategy.max'",
        ),
        (
            "run_ttl(path => '{}', options => 'hoodie.partition.ttl.strategy.days.retai=1')",
            InvalidInput,
            "did you mean 'hoodie.partition.ttl.strategy.days.retain'",
        ),
    ],
)
def test_arguments_of_a_call(lake, path, call, error, words):
    with pytest.raises(error, match=words):
        lake.sql(f"CALL {call.format(path)}")


def test_stream_writers_take_the_names_of_spark(lake, path, tmp_path):
    spark = lake.spark
    copy = str(tmp_path / "copy")
    source = spark.readStream.format("hudi").option("maxCommitsPerTrigger", "1").load(path)
    writer = source.writeStream.format("hudi").options(**OPTIONS).outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.option("hoodie.datasource.write.streaming.checkpoint.identifier", "orders")
    writer = writer.option("_source.offset", "42")
    query = writer.trigger(availableNow=True).start(copy)
    assert query.awaitTermination(120)
    assert spark.read.format("hudi").load(copy).count() == 3
    timeline = lakedex.open(copy).timeline
    said = timeline.commit_metadata(timeline.write_instants()[-1]).extra
    assert '"orders"' in said["_hudi_streaming_sink_checkpoint"]
    assert said["_source.offset"] == "42"
    assert "_source.offset" not in lake.table(copy).properties


def test_expired_partitions_are_those_that_options_say(lake, tmp_path, setting):
    sql, days = lake.sql, "hoodie.partition.ttl.strategy.days.retain"
    sql(
        "CREATE TABLE expiring (id STRING, p STRING) USING hudi PARTITIONED BY (p) "
        f"TBLPROPERTIES (primaryKey='id', '{days}'='100') LOCATION '{tmp_path / 'expiring'}'"
    )
    sql("INSERT INTO expiring VALUES ('a', 'x'), ('b', 'y'), ('c', 'z')")

    def expired(options: str = "") -> list[str]:
        told = f", options => '{options}'" if options else ""
        return [row[0] for row in sql(f"CALL run_ttl(table => 'expiring'{told})").collect()]

    assert expired() == [], "by the property of the table"
    sql(f"ALTER TABLE expiring SET TBLPROPERTIES ('{days}'='0')")
    setting("hoodie.partition.ttl.strategy.max.delete.partitions", "1")
    assert expired() == ["p=x"], "by the setting of the session"
    assert expired(f"{days}=5") == []
    for name in ("management.strategy.type", "strategy.type"):
        with pytest.raises(InvalidInput, match="must be one of KEEP_BY_TIME"):
            expired(f"hoodie.partition.ttl.{name}=SOMETIMES")
    assert expired("hoodie.partition.ttl.management.strategy.type=KEEP_BY_CREATION_TIME") == ["p=y"]
    assert [row[0] for row in sql("SELECT id FROM expiring").collect()] == ["c"]
    sql("DROP TABLE expiring")
