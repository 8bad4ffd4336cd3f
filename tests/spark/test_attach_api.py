"""The doors and the nouns: attach, local, create a table, find it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import lakedex
from lakedex.errors import InvalidInput, TableNotFound
from lakedex.spark.lake import Lake, address_of
from lakedex.spark.schemas import any_schema, arrow_schema, spark_schema

DDL = "id bigint not null, at timestamp, tags array<string>, price decimal(10,2)"
ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("price", pa.decimal128(10, 2)),
    ]
)


def test_a_schema_has_three_forms(lake, spark, tmp_path):
    struct = spark.createDataFrame([], DDL).schema
    assert isinstance(struct, StructType)
    tables = []
    for number, schema in enumerate([DDL, struct, ARROW]):
        table = lake.create_table(
            f"form_{number}", schema, path=tmp_path / str(number), record_key="id", ordering="at"
        )
        tables.append(table)
    assert {str(table.schema) for table in tables} == {str(tables[0].schema)}
    assert any_schema(spark, DDL).equals(ARROW)
    assert tables[0].schema.names[5:] == ARROW.names
    assert tables[0].to_df().count() == 0


def test_a_schema_goes_to_spark_and_back():
    struct = spark_schema(ARROW)
    assert struct.simpleString() == (
        "struct<id:bigint,at:timestamp,tags:array<string>,price:decimal(10,2)>"
    )
    assert [field.type for field in arrow_schema(struct)] == [field.type for field in ARROW]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id bigint, oops", "the schema 'id bigint, oops' cannot be understood"),
        ("id bigint, code char(3)", r"column code has type char\(3\)"),
        ("id bigint, code varchar(3)", r"column code has type varchar\(3\)"),
        (["id"], "a schema is a StructType, a DDL text or an Arrow schema"),
    ],
)
def test_a_wrong_schema_is_named_and_makes_nothing(lake, tmp_path, schema, message):
    with pytest.raises(InvalidInput, match=message):
        lake.create_table("t", schema, path=tmp_path / "t", record_key="id")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("name", ["", "a.b.c", "a.", "../evil", "a/b", 7])
def test_a_wrong_name_is_refused(lake, name):
    with pytest.raises(InvalidInput, match="a table's name"):
        lake.create_table(name, DDL, record_key="id")


def test_a_table_is_found_by_name_and_by_path(lake, spark, tmp_path):
    made = lake.create_table("found", DDL, path=tmp_path / "here", record_key="id")
    assert lake.table("found").path == made.path == str(tmp_path / "here")
    for path in (tmp_path / "here", str(tmp_path / "here"), (tmp_path / "here").as_uri()):
        assert lake.table(path).name == "found"
    lake.create_table("in_warehouse", DDL, record_key="id")
    # Names are those of the session's catalog, for every lake and for plain Spark.
    other = lakedex.attach(spark)
    assert other.table("in_warehouse").schema.names[5:] == ARROW.names
    assert other.table("default.found").path == made.path
    assert spark.table("found").columns[5:] == ARROW.names
    with pytest.raises(InvalidInput, match="has a table or view 'found' already"):
        lake.create_table("found", DDL, path=tmp_path / "elsewhere", record_key="id")
    assert not (tmp_path / "elsewhere").exists()
    spark.sql("DROP TABLE found")
    with pytest.raises(TableNotFound, match="there is no table 'found'"):
        other.table("found")
    with pytest.raises(TableNotFound):
        lake.table(tmp_path / "nowhere")


def test_a_place_is_for_one_table(lake, tmp_path):
    lake.create_table("one", DDL, path=tmp_path / "t", record_key="id")
    with pytest.raises(InvalidInput, match="there is a table already at"):
        lake.create_table("two", DDL, path=tmp_path / "t", record_key="id")


def test_attach_takes_a_session_of_this_process():
    class SparkSession:
        """As that of Spark Connect: the same name, another class."""

    with pytest.raises(InvalidInput, match="attach takes a SparkSession of this process, not "):
        lakedex.attach(SparkSession())


def test_local_gives_a_lake_in_the_running_session(spark):
    lake = lakedex.local(spark_sql_shuffle_partitions="3")
    assert isinstance(lake, Lake)
    assert lake.spark.sparkContext is spark.sparkContext


def test_without_pyspark_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['pyspark'] = None; import lakedex\n"
        "print(lakedex.open)\n"
        "try: lakedex.attach\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(lakedex.__file__).parent.parent,
    )
    assert "lakedex.attach needs Spark: pip install lakedex[spark]" in done.stdout


def test_store_settings_come_from_hadoop_and_are_not_shown(spark, setting):
    setting("fs.s3a.access.key", "THE-KEY")
    setting("fs.s3a.secret.key", "THE-SECRET")
    setting("fs.s3a.endpoint", "http://127.0.0.1:9")
    setting("fs.s3a.path.style.access", "true")
    setting("fs.s3a.bucket.other.access.key", "OTHER-KEY")
    address = address_of(spark, "s3a://lake/t", {"aws_region": "eu-west-1"})
    settings = dict(address.settings)
    assert settings == {
        "fs.s3a.access.key": "THE-KEY",
        "fs.s3a.secret.key": "THE-SECRET",
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.path.style.access": "true",
        "aws_region": "eu-west-1",
    }
    assert "THE-" not in repr(address)
    assert address.open().root == "s3://lake/t"
    other = dict(address_of(spark, "s3://other/t").settings)
    assert other["fs.s3a.access.key"] == "OTHER-KEY"
    assert address_of(spark, "relative/t").url == str(Path.cwd() / "relative/t")


def test_store_settings_of_a_lake_are_for_the_stores_that_know_them(lake, spark, tmp_path):
    frame = spark.range(3).selectExpr("id", "1L AS ts")
    frame.write.format("hudi").option("primaryKey", "id").save(str(tmp_path / "t"))
    with pytest.raises(InvalidInput, match=r"'aws_reggion' .* did you mean aws_region"):
        lakedex.attach(spark, storage_options={"aws_reggion": "eu-west-1"})
    remote = lakedex.attach(spark, storage_options={"aws_region": "eu-west-1"})
    try:
        assert remote.table(tmp_path / "t").to_df().count() == 3
        assert (
            dict(address_of(spark, "s3://b/t", {"aws_region": "x"}).settings)["aws_region"] == "x"
        )
    finally:
        lakedex.attach(spark)


def test_a_dead_store_does_not_tell_secrets(lake, setting):
    setting("fs.s3a.access.key", "THE-KEY")
    setting("fs.s3a.secret.key", "THE-SECRET")
    setting("fs.s3a.endpoint", "http://127.0.0.1:9")
    setting("fs.s3a.path.style.access", "true")
    setting("fs.s3a.endpoint.region", "eu-west-1")
    with pytest.raises(lakedex.LakedexError) as caught:
        lake.table("s3a://lake/t")
    assert "THE-" not in str(caught.value)
