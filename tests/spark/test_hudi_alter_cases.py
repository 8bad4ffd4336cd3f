"""The cases that Hudi's own SQL tests have for partitions and tables, as they come out here."""

from __future__ import annotations

import pytest

HIVE = "hoodie.datasource.write.hive_style_partitioning"
ENCODE = "hoodie.datasource.write.partitionpath.urlencode"


@pytest.fixture
def made(lake, spark, tmp_path):
    """Creates a table in the folder of the test."""

    def create(name, columns, properties="", partition_by="dt"):
        parted = f"PARTITIONED BY ({partition_by})" if partition_by else ""
        spark.sql(
            f"CREATE TABLE {name} ({columns}) USING hudi TBLPROPERTIES (primaryKey = 'id'"
            f"{properties}) {parted} LOCATION '{tmp_path / name}'"
        )

    return create


def test_partitions_are_added_in_every_style(spark, made, rows):
    cases = [
        ("plain", "id INT, dt STRING", f", '{HIVE}' = 'false'", "dt", "dt = '2023-08-01'",
         "2023-08-01"),
        ("hive", "id INT, dt STRING", "", "dt", "dt = '2023-08-01'", "dt=2023-08-01"),
        ("percent", "id INT, p STRING", "", "p", "p = 'url%a'", "p=url%a"),
        ("encoded", "id INT, p STRING, q STRING", f", '{ENCODE}' = 'true'", "p, q",
         "p = 'url%a', q = 'key=val'", "p=url%25a/q=key%3Dval"),
        ("levels", "id INT, p STRING, q STRING", f", '{HIVE}' = 'false'", "p, q",
         "p = '2023', q = '08'", "2023/08"),
        ("equals", "id INT, p STRING, q STRING", "", "p, q", "p = 'url%a', q = 'key=val'",
         "p=url%a/q=key=val"),
    ]  # fmt: skip
    for name, columns, properties, partition_by, spec, path in cases:
        made(name, columns, properties, partition_by)
        spark.sql(f"ALTER TABLE {name} ADD PARTITION ({spec})")
        spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS PARTITION ({spec})")
        assert rows(f"SHOW PARTITIONS {name}") == [(path,)], name
    with pytest.raises(Exception, match="has the partition dt=2023-08-01 already"):
        spark.sql("ALTER TABLE hive ADD PARTITION (dt = '2023-08-01')")
    with pytest.raises(Exception, match="ADD PARTITION with a LOCATION"):
        spark.sql("ALTER TABLE hive ADD PARTITION (dt = '2023-08-02') LOCATION '/elsewhere'")
    made("flat", "id INT, dt STRING", partition_by="")
    with pytest.raises(Exception, match="it has none"):
        spark.sql("ALTER TABLE flat ADD PARTITION (dt = '2023-08-01')")
    with pytest.raises(Exception, match="those are none"):
        spark.sql("ALTER TABLE flat DROP PARTITION (dt = '2023-08-01')")
    assert rows("SHOW PARTITIONS flat") == []


@pytest.mark.parametrize("encode", ["true", "false"])
def test_partitions_of_a_data_frame_are_dropped_and_truncated(lake, spark, tmp_path, rows, encode):
    path = str(tmp_path / "framed")
    frame = spark.createDataFrame(
        [(1, "v1", "2021/10/01"), (2, "v1", "2021/10/02"), (3, "v1", "2021/10/03")],
        "id int, ts string, dt string",
    )
    options = {
        "hoodie.table.name": "framed",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        ENCODE: encode,
    }
    frame.write.format("hudi").options(**options).mode("overwrite").save(path)
    spark.sql(f"CREATE TABLE framed USING hudi LOCATION '{path}'")
    frame.write.format("hudi").options(**options).mode("append").save(path)
    spark.sql("ALTER TABLE framed DROP PARTITION (dt = '2021/10/01')")
    spark.sql("TRUNCATE TABLE framed PARTITION (dt = '2021/10/02')")
    assert rows("SELECT id, dt FROM framed") == [(3, "2021/10/03")]
    shown = "2021%2F10%2F03" if encode == "true" else "2021/10/03"
    assert rows("SHOW PARTITIONS framed") == [(shown,)]
    newest = lake.table("framed").snapshot.timeline
    assert newest.commit_metadata(newest.write_instants()[-1]).extra["schema"]
    spark.sql("DELETE FROM framed WHERE dt = '2021/10/03'")
    spark.sql("TRUNCATE TABLE framed")
    spark.sql("INSERT INTO framed VALUES (5, 'v2', '2021/10/05')")
    assert rows("SELECT id FROM framed") == [(5,)]


def test_a_partition_with_a_planned_service_is_not_dropped(spark, made, rows, table_type):
    made("planned", "id INT, v INT, dt STRING", f", type = '{table_type}'")
    spark.sql("INSERT INTO planned VALUES (1, 1, 'x'), (2, 1, 'y')")
    spark.sql("UPDATE planned SET v = 2")
    name = "run_clustering" if table_type == "cow" else "run_compaction"
    (planned,) = spark.sql(f"CALL {name}(table => 'planned', op => 'schedule')").collect()
    with pytest.raises(Exception, match=str(planned[0])):
        spark.sql("ALTER TABLE planned DROP PARTITION (dt = 'x')")
    assert rows("SELECT id, v FROM planned") == [(1, 2), (2, 2)]


def test_tables_are_created_with_what_they_can_hold(spark, made, rows, tmp_path):
    wrong = [
        ("id INT, ts BIGINT", ", preCombineField = 'ts1'", "ts1"),
        ("id1 INT, ts BIGINT", "", "'id'"),
        ("id INT, ts BIGINT", ", type = 'cow1'", "cow1"),
        ("id INT, ts BIGINT", ", type = 'cow', 'hoodie.compact.inline' = 'true'", "no log files"),
    ]
    for columns, properties, message in wrong:
        with pytest.raises(Exception, match=message):
            made("wrong", columns, properties, "")
        assert not spark.catalog.tableExists("wrong")
    made("kept", "id INT, name STRING", "", "")
    spark.sql("ALTER TABLE kept ADD COLUMNS (ts BIGINT)")
    spark.sql("CREATE TABLE IF NOT EXISTS kept (id INT, name STRING) USING hudi")
    twice = "SELECT 1 AS id, 1 AS ts UNION ALL SELECT 1, 2"
    spark.sql("CREATE TABLE twice USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = "
              f"'ts') LOCATION '{tmp_path / 'twice'}' AS {twice}")  # fmt: skip
    assert rows("SELECT id, ts FROM twice") == [(1, 1), (1, 2)]
    with pytest.raises(Exception, match=r"null|NULL"):
        spark.sql("CREATE TABLE nulls USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION "
                  f"'{tmp_path / 'nulls'}' AS SELECT CAST(NULL AS INT) AS id")  # fmt: skip
    assert not (tmp_path / "nulls").exists()


def test_purging_a_table_takes_its_other_names_along(spark, made, tmp_path):
    for dropped in ("seen", "seen_ro", "seen_rt"):
        made("seen", "id INT, v INT", ", type = 'mor'", "")
        made("seen_to", "id INT", "", "")
        for name, base_only in (("seen_ro", "true"), ("seen_rt", "false")):
            spark.sql(f"CREATE TABLE {name} USING hudi TBLPROPERTIES ('hoodie.query.as.ro.table' = "
                      f"'{base_only}') LOCATION '{tmp_path / 'seen'}'")  # fmt: skip
        spark.sql(f"DROP TABLE {dropped} PURGE")
        left = [row[1] for row in spark.sql("SHOW TABLES LIKE 'seen*'").collect()]
        assert (left, (tmp_path / "seen").exists()) == (["seen_to"], False)
        spark.sql("DROP TABLE seen_to PURGE")


def test_partition_columns_with_kinds(spark, made, rows, tmp_path):
    keygen = "hoodie.keygen.timebased"
    made("timed", "id INT, name STRING, city STRING, ts BIGINT", ", orderingFields = 'ts', "
         "'hoodie.datasource.write.partitionpath.field' = 'city:simple,ts:timestamp', "
         "'hoodie.datasource.write.keygenerator.class' = "
         "'org.apache.hudi.keygen.CustomKeyGenerator', "
         f"'{keygen}.timestamp.type' = 'SCALAR', '{keygen}.timestamp.scalar.time.unit' = 'days', "
         f"'{keygen}.output.dateformat' = 'yyyy', "
         "'hoodie.spark.sql.insert.into.operation' = 'upsert'", "city, ts")  # fmt: skip
    spark.sql("INSERT INTO timed VALUES (1, 'a', 'oslo', 400), (2, 'b', 'rome', 800)")
    spark.sql("INSERT INTO timed VALUES (1, 'c', 'oslo', 401)")
    shown = [(1, "c", "oslo", 401, "city=oslo/ts=1971"), (2, "b", "rome", 800, "city=rome/ts=1972")]
    query = "SELECT id, name, city, ts, _hoodie_partition_path FROM"
    assert rows(f"{query} timed") == shown
    assert rows(f"{query} timed WHERE ts = 800 AND city = 'rome'") == shown[1:]
    spark.sql(f"CREATE TABLE timed_again USING hudi LOCATION '{tmp_path / 'timed'}'")
    assert rows(f"{query} timed_again WHERE ts < 500") == shown[:1]
