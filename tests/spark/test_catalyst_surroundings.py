"""What a filter means beyond its words: zones, collations, padding, values of run time."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.expr.tree import tree_text
from lakedex.prune import PlanOptions, plan
from lakedex.spark.catalyst import translate_filters
from lakedex.spark.schemas import arrow_schema
from tests.spark.filter_lab import ANSI, ZONE, FilterLab, conditions_above
from tests.spark.filter_zoo import FILES, write_zoo, zoo_rows

SCHEMA = pa.schema(
    [("i", pa.int64()), ("s", pa.string()), ("z", pa.timestamp("us", "UTC")), ("k", pa.int64())]
)


@pytest.fixture(scope="module")
def lab(spark):
    rows = spark.sql(
        "select id as i, concat('s', id) as s, timestamp_seconds(id) as z, id % 4 as k"
        " from range(100)"
    )
    rows.createOrReplaceTempView("plain")
    yield FilterLab(spark)
    spark.catalog.dropTempView("plain")


@pytest.fixture(scope="module")
def parquet(spark, lab, tmp_path_factory):
    """A view over files of Spark's own, in folders by `k`."""
    path = str(tmp_path_factory.mktemp("by_k") / "rows")
    spark.table("plain").write.partitionBy("k").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("by_k")
    yield path
    spark.catalog.dropTempView("by_k")


@pytest.fixture(scope="module")
def zoo(spark, tmp_path_factory):
    path = write_zoo(tmp_path_factory.mktemp("zoo") / "zoo", zoo_rows())
    snapshot = lakedex.open(path).snapshot
    files = [f"{path}/{each.partition}/{each.base.name}" for each in snapshot.slices if each.base]
    spark.read.parquet(*files).createOrReplaceTempView("zoo")
    yield snapshot
    spark.catalog.dropTempView("zoo")


def test_a_filter_of_another_zone_is_not_understood(lab, parquet, setting):
    setting(ZONE, "Europe/Berlin")
    query = "select * from by_k where hour(z) = 3 and i > 5"
    plan = lab.spark.sql(query)._jdf.queryExecution().optimizedPlan()
    text = lab.describe(conditions_above(plan, 0))
    same = translate_filters(text, SCHEMA, "Europe/Berlin")
    assert "hour(z) = 3" in tree_text(same.predicate)
    other = translate_filters(text, SCHEMA, "UTC")
    assert other.unknown == ("time zone Europe/Berlin in Hour",)
    assert "hour" not in tree_text(other.predicate)
    assert "i > 5" in tree_text(other.predicate)


def test_a_zone_that_java_and_python_read_differently_is_not_understood(lab, parquet, setting):
    setting(ZONE, "EST")
    plan = lab.spark.sql("select * from by_k where hour(z) = 3")._jdf.queryExecution()
    text = lab.describe(conditions_above(plan.optimizedPlan(), 0))
    found = translate_filters(text, SCHEMA, "EST", knows_zone=False)
    assert found.unknown == ("time zone EST, which the JVM and lakedex know differently, in Hour",)


def test_patterns_of_spark_2_are_not_understood(lab, parquet, setting):
    setting("spark.sql.legacy.timeParserPolicy", "LEGACY")
    found = lab.translate("select * from by_k where date_format(z, 'yyyy') = '1970'", SCHEMA)
    assert found.unknown == ("function DateFormatClass with the patterns of Spark 2",)


def test_text_of_another_collation_is_not_understood(lab, parquet):
    if lab.spark.version.startswith("3."):
        pytest.skip("collations came with Spark 4")
    found = lab.translate("select * from by_k where s collate UTF8_LCASE = 'S1'", SCHEMA)
    assert found.predicate is None
    assert len(found.unknown) == 1
    cast = lab.translate("select * from by_k where s > 'a' collate UNICODE", SCHEMA)
    assert cast.unknown == ("cast to string collate UNICODE",)


def test_padded_text_is_not_taken_for_the_stored_text(lab, tmp_path):
    spark = lab.spark
    spark.sql(f"create table padded (c char(5), i int) using parquet location '{tmp_path}/padded'")
    try:
        schema = pa.schema([("c", pa.string()), ("i", pa.int32())])
        found = lab.translate("select * from padded where c = 'ab' and i = 1", schema)
        assert "c = 'ab'" not in tree_text(found.predicate)
        assert "i = 1" in tree_text(found.predicate)
        assert any("readSidePadding" in reason for reason in found.unknown)
    finally:
        spark.sql("drop table padded")


def test_a_function_of_the_user_is_kept(lab, parquet):
    lab.spark.udf.register("odd", lambda number: number % 2 == 1, "boolean")
    found = lab.translate("select * from by_k where odd(i) and i < 9", SCHEMA)
    assert "i < 9" in tree_text(found.predicate)


def test_a_scalar_subquery_that_has_run_is_a_constant(lab, parquet, setting):
    setting("spark.sql.adaptive.enabled", "false")
    frame = lab.spark.sql("select * from by_k where i > (select max(i) - 3 from plain)")
    executed = frame._jdf.queryExecution().executedPlan()
    before = translate_filters(lab.describe(conditions_above(executed, 0)), SCHEMA, "UTC")
    assert "a subquery, whose value is known when the query runs" in before.unknown
    assert executed.executeCollectPublic() is not None
    after = translate_filters(lab.describe(conditions_above(executed, 0)), SCHEMA, "UTC")
    assert after.unknown == ()
    assert "i > 96" in tree_text(after.predicate)


def test_a_runtime_filter_that_has_run_is_a_list(lab, parquet, setting):
    setting("spark.sql.adaptive.enabled", "false")
    frame = lab.spark.sql(
        "select by_k.i from by_k join plain on by_k.k = plain.k where plain.i in (1, 2)"
    )
    executed = frame._jdf.queryExecution().executedPlan()
    executed.executeCollectPublic()
    scan = next(node for node in nodes(executed) if is_a(node, "FileSourceScanExec"))
    filters = scan.partitionFilters()
    # Spark read the numbers off the folders, as INT.
    schema = pa.schema([("k", pa.int32())])
    found = translate_filters(lab.filter_text.describe(filters), schema, "UTC")
    assert found.unknown == ()
    assert "k in (1, 2)" in tree_text(found.predicate)


def nodes(plan):
    pending = [plan]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children().apply(at) for at in range(node.children().size()))


def is_a(node, kind):
    return node.getClass().getSimpleName() == kind


# Conditions on columns with statistics, and what the bounds of a file must be like to be read.
RANGES = {
    "i = 25": lambda low, high: low <= 25 <= high,
    "i in (10, 95)": lambda low, high: low <= 10 <= high or low <= 95 <= high,
    "l between 90000001 and 180000002": lambda low, high: low <= 180000002 and high >= 90000001,
    "n > 9": lambda low, high: high > 9,
    # From U+E000 on the order of characters depends on who wrote the bounds, so they say nothing.
    "s like 'city-0%'": lambda low, high: (low < "city-0~" or low >= "\ue000") and high >= "city-0",
    "t < '1970-01-02'": lambda low, high: str(low) < "1970-01-02",
    "z >= '2024-01-01'": lambda low, high: str(high) >= "2024-01-01",
}


@pytest.mark.parametrize("condition", RANGES)
def test_exactly_the_files_that_ranges_allow_are_left(lab, zoo, setting, condition):
    setting(ZONE, "UTC")
    found = lab.translate(f"select * from zoo where {condition}", zoo.schema)
    assert found.unknown == ()
    report = plan(zoo, found.predicate, options=PlanOptions("UTC"))
    column = condition.split()[0]
    expected = {
        f"p={partition}"
        for partition, low, high in bounds_of(column)
        if low is not None and RANGES[condition](low, high)
    }
    assert {each.partition for each in report.files} == expected
    assert 0 < len(expected) < FILES


def bounds_of(column):
    grouped = zoo_rows().group_by("p").aggregate([(column, "min"), (column, "max")])
    names = ("p", f"{column}_min", f"{column}_max")
    return list(zip(*(grouped[name].to_pylist() for name in names), strict=True))


def test_a_cast_partition_column_prunes_partitions_in_every_mode(lab, zoo, setting):
    for ansi in ("true", "false"):
        setting(ANSI, ansi)
        found = lab.translate("select * from zoo where p = 7", zoo.schema)
        report = plan(zoo, found.predicate, options=PlanOptions("UTC"))
        assert [each.partition for each in report.files] == ["p=07"]


def test_the_report_tells_what_was_not_understood_and_how_often(lab, zoo):
    condition = "i = 25 and soundex(s) > 'a' and soundex(s) > 'b' and hash(s) > 3"
    found = lab.translate(f"select * from zoo where {condition}", zoo.schema)
    report = plan(zoo, found.predicate, text=condition, unknown=found.unknown)
    assert len(report.files) < report.total
    assert [note for note in report.notes if "not understood" in note] == [
        "not understood, so nothing is pruned by it: function SoundEx (2 times)",
        "not understood, so nothing is pruned by it: function Murmur3Hash",
    ]


def test_table_takes_the_tree_as_a_filter(lab, zoo):
    found = lab.translate("select * from zoo where i = 25", zoo.schema)
    table = lakedex.open(zoo.storage.root)
    direct = plan(zoo, found.predicate)
    assert {each.file_id for each in table.files(found.predicate)} == {
        each.file_id for each in direct.files
    }
    assert table.to_arrow(found.predicate, columns=["i"])["i"].unique().to_pylist() == [25]


def test_schemas_of_spark_are_schemas_of_the_translator(lab, parquet):
    schema = arrow_schema(lab.spark.table("by_k").schema)
    found = lab.translate("select * from by_k where k = 3 and i = 7", schema)
    assert found.unknown == ()
