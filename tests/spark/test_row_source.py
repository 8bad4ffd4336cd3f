"""A DataFrame as the input of a write: exact types, every row once, in any session."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyspark
import pytest

from lakedex.errors import InvalidInput
from lakedex.spark.row_source import DataFrameSource

IS_4 = int(pyspark.__version__.partition(".")[0]) >= 4

ALL_TYPES = """
    select true as b, cast(1 as tinyint) as i8, cast(2 as smallint) as i16, 3 as i32, 4L as i64,
           cast(1.5 as float) as f, cast('NaN' as double) as d, cast(1.25 as decimal(38, 9)) as dec,
           'ü' as s, X'00FF' as bin, date'1582-10-04' as day, timestamp'2024-07-01 00:00:00' as at,
           timestamp_ntz'2024-07-01 00:00:00' as wall, array('x', null) as list,
           map('k', timestamp'2024-07-01 00:00:00') as dict,
           named_struct('a', 1, 'deep', array(named_struct('at', timestamp'2024-07-01 00:00:00')))
               as rec,
           cast(null as string) as nothing
"""


def rows_in(source: DataFrameSource) -> list[pa.Table]:
    def collect(_number, batches):
        return list(batches)

    parts = source.run("collect", collect)
    return [pa.Table.from_batches(part, schema=source.schema) for part in parts]


@pytest.mark.parametrize(("large", "zone"), [("false", "UTC"), ("true", "America/Los_Angeles")])
def test_every_type_arrives_as_the_schema_says(lake, spark, setting, large, zone):
    setting("spark.sql.execution.arrow.useLargeVarTypes", large)
    setting("spark.sql.session.timeZone", zone)
    source = DataFrameSource(spark.sql(ALL_TYPES))
    assert source.schema.field("at").type == pa.timestamp("us", "UTC")
    assert source.schema.field("wall").type == pa.timestamp("us")
    (rows,) = rows_in(source)
    assert rows.schema.equals(source.schema)
    (row,) = rows.to_pylist()
    instant = datetime(2024, 7, 1, 7 if zone != "UTC" else 0, tzinfo=UTC)
    assert row["at"] == row["dict"][0][1] == row["rec"]["deep"][0]["at"] == instant
    assert row["wall"] == datetime(2024, 7, 1)
    assert row["dec"] == Decimal("1.25")
    assert (row["s"], row["bin"], row["list"]) == ("ü", b"\x00\xff", ["x", None])
    assert str(row["day"]) == "1582-10-04"
    assert row["nothing"] is None


def test_every_row_is_computed_once_in_numbered_parts(lake, spark, setting):
    setting("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    computed = spark.sparkContext.accumulator(0)

    def tell(number):
        computed.add(1)
        return (number, f"r{number}")

    rdd = spark.sparkContext.parallelize(range(5000), 7).map(tell)
    rows = spark.createDataFrame(rdd, "id long, name string")
    source = DataFrameSource(rows)

    def worker(number, batches):
        return number, [name for batch in batches for name in batch.column("name").to_pylist()]

    answers = source.run("count", worker)
    assert [number for number, _ in answers] == list(range(7))
    assert [name for _, names in answers for name in names] == [f"r{n}" for n in range(5000)]
    assert computed.value == 5000


def test_empty_parts_and_shuffled_input_are_parts_too(lake, spark):
    rows = spark.range(0, 1000, 1, 4).filter("id < 10").repartition(3, "id")
    source = DataFrameSource(rows.groupBy("id").count())
    found = pa.concat_tables(rows_in(source))
    assert sorted(found["id"].to_pylist()) == list(range(10))


def test_no_rows_have_columns_all_the_same(lake, spark):
    source = DataFrameSource(spark.range(0, 10, 1, 2).filter("id < 0"))
    assert source.schema.names == ["id"]
    assert sum(part.num_rows for part in rows_in(source)) == 0


def test_odd_and_repeated_names_are_handed_on(lake, spark):
    rows = spark.sql("select 1 as `a.b`, 2 as `x y`, 3 as `_0`, 4 as `ü``q`, 5 as `_0`")
    (found,) = rows_in(DataFrameSource(rows))
    assert found.column_names == ["a.b", "x y", "_0", "ü`q", "_0"]
    assert [column.to_pylist() for column in found.columns] == [[1], [2], [3], [4], [5]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select interval '1' day as pause", "column pause has type interval day"),
        ("select interval '1' month as pause", "column pause has type interval month"),
        ("select make_interval(1, 2) as pause", "pause(:| has type )interval"),
        *(
            [
                (
                    "select 'a' collate UNICODE_CI as s",
                    "column s has type string collate UNICODE_CI",
                ),
                ("select parse_json('1') as v", "column v has type variant"),
            ]
            if IS_4
            else []
        ),
    ],
)
def test_a_type_without_a_place_is_refused_by_name(lake, spark, query, message):
    with pytest.raises(InvalidInput, match=message):
        DataFrameSource(spark.sql(query))


def test_an_error_of_the_worker_arrives_as_itself(lake, spark):
    def fail(_number, batches):
        for _ in batches:
            raise InvalidInput("the key column id is null")

    with pytest.raises(InvalidInput, match=r"^the key column id is null$"):
        DataFrameSource(spark.range(0, 10, 1, 3)).run("read the rows", fail)


def test_an_error_of_the_input_is_told_in_one_line(lake, spark):
    rows = spark.range(3).selectExpr("assert_true(id < 2, 'too large') as x", "id")

    def count(_number, batches):
        return sum(batch.num_rows for batch in batches)

    with pytest.raises(Exception, match="too large") as caught:
        DataFrameSource(rows.selectExpr("id", "x is null as y")).run("read the rows", count)
    assert "\n" not in str(caught.value)


def numbered_ids(source: DataFrameSource) -> list[list[int]]:
    def worker(_number, batches):
        return [number for batch in batches for number in batch.column(0).to_pylist()]

    return source.run("read the rows", worker)


def test_small_neighbours_are_one_part_and_rows_keep_their_order(lake, spark):
    parts = numbered_ids(DataFrameSource(spark.range(0, 1000, 1, 200)))
    assert 1 < len(parts) < 20
    assert [number for part in parts for number in part] == list(range(1000))


def test_an_order_that_was_asked_for_stays(lake, spark, setting):
    setting("spark.sql.adaptive.enabled", "false")
    setting("spark.sql.shuffle.partitions", "40")
    parts = numbered_ids(DataFrameSource(spark.range(0, 1000, 1, 3).orderBy("id", ascending=False)))
    assert len(parts) < 40
    assert [number for part in parts for number in part] == list(range(999, -1, -1))


def test_ranges_of_a_shuffled_frame_stay_together(lake, spark, setting):
    """Spark's own `coalesce` groups partitions by hosts: every task would get all ranges."""
    setting("spark.sql.adaptive.advisoryPartitionSizeInBytes", "1m")
    rows = spark.range(0, 200_000, 1, 4).repartitionByRange(50, "id")
    few = numbered_ids(DataFrameSource(rows.filter("id < 2000")))
    assert len(few) == 2 * spark.sparkContext.defaultParallelism
    parts = numbered_ids(DataFrameSource(rows))
    assert len(few) <= len(parts) < 50
    bounds = [(min(part), max(part)) for part in parts]
    assert all(low[1] < high[0] for low, high in itertools.pairwise(bounds))
    assert sorted(itertools.chain(*parts)) == list(range(200_000))


def test_a_join_is_no_larger_than_what_it_joins(lake, spark, setting):
    setting("spark.sql.autoBroadcastJoinThreshold", "-1")
    setting("spark.sql.adaptive.coalescePartitions.enabled", "false")
    setting("spark.sql.shuffle.partitions", "40")
    rows = spark.range(1000).join(spark.range(1000), "id")
    parts = numbered_ids(DataFrameSource(rows))
    assert len(parts) == 2 * spark.sparkContext.defaultParallelism
    assert sorted(itertools.chain(*parts)) == list(range(1000))


def test_rows_of_an_unknown_size_keep_their_partitions(lake, spark):
    numbers = spark.sparkContext.parallelize([(number,) for number in range(90)], 30)
    assert len(numbered_ids(DataFrameSource(spark.createDataFrame(numbers, "id long")))) == 30


def test_rows_are_read_as_they_are_each_time(lake, spark, tmp_path):
    table = lake.create_table("t", "id long, x long", path=tmp_path / "t", record_key="id")
    table.insert(spark.range(10).selectExpr("id", "0L as x"))
    rows = table.to_df()
    source = DataFrameSource(rows.select("id", "x"))
    assert sum(map(len, numbered_ids(source))) == 10
    table.insert(spark.range(10, 15).selectExpr("id", "0L as x"))
    assert sum(map(len, numbered_ids(source))) == 15
