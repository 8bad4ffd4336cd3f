"""What real Hudi writes as statistics of odd values, and whom that costs rows.

These are facts about Hudi 1.2.0, asserted so that a release that behaves otherwise is noticed.
lakedex must give all rows back whatever the statistics say.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakedex
from tests.interop.reading import Answer, ask, ask_without_indexes
from tests.support import TableBuilder

NAN, INF = math.nan, math.inf
CASES = {
    "nan": [1.0, NAN, 2.0],
    "nanonly": [NAN],
    "inf": [-INF, 1.0, INF],
    "negzero": [-0.0],
    "poszero": [0.0],
    "zeros": [0.0, -0.0],
}
LONG = 5000
TEXTS = {
    "long": ["a" * LONG, "m", "z" * LONG],
    "longonly": ["q" * LONG],
    "astral": ["\uffee", "\U0001f600"],
}
SCHEMA = "id string, ver int, f float, d double, s string, n int, p string"
OPTIONS = {
    "hoodie.table.name": "odd",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
}
QUESTIONS = [
    "d = 2.0",
    "d > 5.0",
    "d = double('NaN')",
    "d >= 1.0",
    "d < 1.5",
    "d = 0.0",
    "d is null",
    "d is not null",
    "f > 5",
    "s = 'm'",
    "s > 'y'",
    f"s = '{'q' * LONG}'",
    "s = '\U0001f600'",
    "s > '\uffff'",
    "s < 'b'",
    "s is null",
    "s is not null",
    "n = 0",
    "n is null",
]


def odd_rows() -> list[tuple]:
    """One partition for each case; the partition `nulls` has nulls only."""
    rows = [
        (f"{case}{i}", 1, value, value, "m", i, case)
        for case, values in CASES.items()
        for i, value in enumerate(values)
    ]
    rows += [
        (f"{case}{i}", 1, 1.0, 1.0, text, i, case)
        for case, texts in TEXTS.items()
        for i, text in enumerate(texts)
    ]
    return [*rows, ("nulls0", 1, None, None, None, None, "nulls")]


def write(spark, rows: list[tuple], path: str, table_type: str, operation: str) -> None:
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    writer = frame.write.format("hudi").options(**OPTIONS)
    writer = writer.option("hoodie.datasource.write.table.type", table_type)
    writer.option("hoodie.datasource.write.operation", operation).mode("append").save(path)


@pytest.fixture(scope="module")
def base_files(spark, tmp_path_factory) -> str:
    """The odd values in base files."""
    path = str(tmp_path_factory.mktemp("odd") / "cow")
    write(spark, odd_rows(), path, "COPY_ON_WRITE", "insert")
    return path


@pytest.fixture(scope="module")
def log_files(spark, tmp_path_factory) -> str:
    """Plain values in base files, the odd ones in log files over them."""
    path = str(tmp_path_factory.mktemp("odd") / "mor")
    plain = [(key, 0, 1.0, 1.0, "m", 1, case) for key, _, _, _, _, _, case in odd_rows()]
    write(spark, plain, path, "MERGE_ON_READ", "insert")
    write(spark, odd_rows(), path, "MERGE_ON_READ", "upsert")
    return path


@pytest.fixture(scope="module")
def answers(spark, base_files, log_files) -> dict[str, dict[str, Answer]]:
    """What is true of the rows, by kind of file and question."""
    paths = {"base": base_files, "log": log_files}
    return {kind: ask_without_indexes(spark, path, QUESTIONS) for kind, path in paths.items()}


def stats_by_case(path: str, column: str, *, logs: bool) -> dict[str, tuple]:
    """(min, max, rows, nulls) by partition, of the base files or of the log files."""
    table = lakedex.open(path)
    files = table.snapshot.listing.files.items()
    case_of = {name: path.removeprefix("p=") for path, entries in files for name, _ in entries}
    records = table.metadata("column_stats")["ColumnStatsMetadata"].to_pylist()
    return {
        case_of[record["fileName"]]: (
            unwrapped(record["minValue"]),
            unwrapped(record["maxValue"]),
            record["valueCount"],
            record["nullCount"],
        )
        for record in records
        if record["columnName"] == column and (".log." in record["fileName"]) == logs
    }


def unwrapped(union: dict | None) -> object:
    """The value, with the sign of zero made visible and NaN made comparable."""
    if union is None:
        return None
    value = next(member["value"] for member in union.values() if member is not None)
    return repr(value) if isinstance(value, float) else value


@pytest.mark.parametrize("column", ["f", "d"])
def test_base_files_with_a_nan_have_the_bounds_zero_and_zero(base_files, column):  # case B1
    found = stats_by_case(base_files, column, logs=False)
    assert found["nan"] == ("0.0", "0.0", 3, 0)
    assert found["nanonly"] == ("0.0", "0.0", 1, 0)
    assert found["inf"] == ("-inf", "inf", 3, 0)
    # Real zeros are told from these by the sign of the minimum, which Parquet widens.
    assert found["negzero"] == found["poszero"] == ("-0.0", "0.0", 1, 0)
    assert found["zeros"] == ("-0.0", "0.0", 2, 0)


@pytest.mark.parametrize("column", ["f", "d"])
def test_log_files_with_a_nan_have_it_as_maximum(log_files, column):  # case B1
    found = stats_by_case(log_files, column, logs=True)
    assert found["nan"] == ("1.0", "nan", 3, 0)
    assert found["nanonly"] == ("nan", "nan", 1, 0)
    assert found["inf"] == ("-inf", "inf", 3, 0)
    assert found["negzero"] == ("-0.0", "-0.0", 1, 0)
    assert found["poszero"] == ("0.0", "0.0", 1, 0)
    assert found["zeros"] == ("-0.0", "0.0", 2, 0)


def test_long_strings_in_base_files_look_like_nulls(base_files):  # case B2
    found = stats_by_case(base_files, "s", logs=False)
    assert found["long"] == (None, None, 3, 3)
    assert found["longonly"] == (None, None, 1, 1)
    assert found["nulls"] == (None, None, 1, 1)


def test_long_strings_in_log_files_are_bounds_in_full(log_files):  # case B2
    found = stats_by_case(log_files, "s", logs=True)
    assert found["long"] == ("a" * LONG, "z" * LONG, 3, 0)
    assert found["nulls"] == (None, None, 1, 1)


def test_strings_beyond_the_first_plane_are_ordered_by_code_point(base_files, log_files):
    # cases B3, B20: prefix predicates; UTF-8 and UTF-16 order of keys
    expected = ("\uffee", "\U0001f600", 2, 0)
    assert stats_by_case(base_files, "s", logs=False)["astral"] == expected
    assert stats_by_case(log_files, "s", logs=True)["astral"] == expected


def test_all_null_columns_have_zeros_in_base_files_and_nothing_in_logs(base_files, log_files):
    assert stats_by_case(base_files, "n", logs=False)["nulls"] == (0, 0, 1, 1)
    assert stats_by_case(base_files, "d", logs=False)["nulls"] == ("0.0", "0.0", 1, 1)
    assert stats_by_case(log_files, "n", logs=True)["nulls"] == (None, None, 1, 1)
    assert stats_by_case(log_files, "d", logs=True)["nulls"] == (None, None, 1, 1)


def test_a_row_group_without_statistics_narrows_the_range_of_its_file(spark, tmp_path):
    # The range of a file leaves out a row group without statistics (cases B1, B2).
    path = str(tmp_path / "groups")
    frame = spark.sql(
        "select lpad(id, 6, '0') id, 1 ver, double(if(id < 3000, 5 + id, 'NaN')) d, 'x' p,"
        " if(id < 3000, 'm', 'z') || repeat(md5(string(id)), if(id < 3000, 30, 160)) s"
        " from range(0, 6000, 1, 1) union all select 'other', 1, 1D, 'y', 'a'"
    ).coalesce(1)
    options = OPTIONS | {"hoodie.parquet.block.size": str(1 << 20)}
    writer = frame.write.format("hudi").options(**options)
    writer.option("hoodie.datasource.write.operation", "bulk_insert").mode("append").save(path)
    file = next((tmp_path / "groups" / "p=x").glob("*.parquet"))
    assert pq.ParquetFile(file).metadata.num_row_groups > 3
    minimum, maximum, rows, nulls = stats_by_case(path, "s", logs=False)["x"]
    assert (minimum[0], maximum[0], rows) == ("m", "m", 6000)
    assert nulls > 3000
    minimum, maximum, _, nulls = stats_by_case(path, "d", logs=False)["x"]
    assert (minimum, nulls) == ("0.0", 0)
    assert 0 < float(maximum) < 3005
    lost = {}
    for question in ("s >= 'z'", "d > 3004", "d = 3004", "d = double('NaN')"):
        found = lakedex.open(path).to_arrow(question, columns=["id"])["id"].to_pylist()
        lost[question] = set(ask(spark, path, question, skipping=False).ids) - set(found)
    assert lost == {question: set() for question in lost}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", ["base", "log"])
def test_lakedex_finds_every_row_whatever_the_statistics_say(
    base_files, log_files, answers, kind, question
):
    path = base_files if kind == "base" else log_files
    expected = answers[kind][question].ids
    found = lakedex.open(path).to_arrow(question, columns=["id"])["id"].to_pylist()
    assert sorted(found) == expected


LOST_BY_HUDI = {
    "d = 2.0": ["nan2"],
    "d > 5.0": ["nan1", "nanonly0"],
    "s = 'm'": ["long1"],
    "s > 'y'": ["long2"],
    "s < 'b'": ["long0"],
}


@pytest.mark.parametrize("question", LOST_BY_HUDI)
def test_hudi_itself_loses_rows_by_these_statistics(spark, base_files, answers, question):
    whole = answers["base"][question].ids
    skipped = ask(spark, base_files, question).ids
    assert sorted(set(whole) - set(skipped)) == LOST_BY_HUDI[question]


LOST_BY_BOUNDS = {"none": {"d = 2.0", "d > 5.0", "d < 1.5"}, "nan": {"d = 2.0", "d > 5.0"}}


@pytest.mark.parametrize("nan_bounds", ["none", "nan", "infinite"])
def test_only_infinite_bounds_keep_hudi_from_losing_rows_of_our_files(spark, tmp_path, nan_bounds):
    # A maximum of NaN, right though it is by Spark's order, costs rows that are no NaN (case B1).
    schema = pa.schema([("id", pa.string()), ("d", pa.float64()), ("p", pa.string())])
    builder = TableBuilder(
        tmp_path / "t",
        schema,
        record_key="id",
        partition_by="p",
        indexes=["column_stats", "partition_stats"],
        nan_bounds=nan_bounds,
    )
    values = {"nan": [1.0, NAN, 2.0], "only": [NAN], "high": [7.0, 8.0]}
    tables = {
        name: pa.table({"id": [f"{name}{i}" for i in range(len(column))], "d": column})
        for name, column in values.items()
    }
    builder.commit([("a", tables["nan"]), ("a", tables["only"]), ("b", tables["high"])])
    path = builder.finish()
    expected = {
        "d = 2.0": ["nan2"],
        "d > 5.0": ["high0", "high1", "nan1", "only0"],
        "d < 1.5": ["nan0"],
    }
    for question, ids in expected.items():
        assert ask(spark, path, question, skipping=False).ids == ids
        is_lost = question in LOST_BY_BOUNDS.get(nan_bounds, ())
        assert (ask(spark, path, question).ids != ids) == is_lost, question
        assert sorted(lakedex.open(path).to_arrow(question)["id"].to_pylist()) == ids
