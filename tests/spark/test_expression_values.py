"""What lakedex computes for an index is what Spark computes, for every function at once."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind
from lakedex.expr.evaluate import evaluate
from lakedex.expr.explicit_casts import with_casts
from lakedex.expr.sql import parse_expression
from tests.spark.conftest import newest_only

UTC = dt.UTC
ZONE = "Europe/Berlin"
TEXTS = ["", " a-1 ", "Bob-2", "straße", "x--y", "--", "ÀÉ", "a\tb", "\U0001f600-9", "0012", None]
WHOLE = [0, 1, -1, 7, -250, 2**31 - 1, -(2**31) + 1, 45, 55, 12, None]
DOUBLES = [0.0, -0.0, 1.25, 2.5, -2.5, 3.7, -3.2, 1e15, math.nan, math.inf, None]
DECIMALS = ["0.00", "1.25", "-1.25", "2.50", "99999.99", "-0.01", "12.34", "7.00", "0.05", "1.5"]
DAYS = ["1969-12-31", "1970-01-01", "1899-06-15", "2024-02-29", "1582-10-15", "9999-12-31"]
DAYS += ["2024-03-31", "2024-10-27", "0001-01-01", "2050-07-01"]
MOMENTS = [f"{day}T{hour}" for day, hour in zip(DAYS, ["00:30:00", "23:59:59"] * 5, strict=True)]


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=UTC)


ZOO = pa.table(
    {
        "s": pa.array(TEXTS, pa.string()),
        "n": pa.array(WHOLE, pa.int32()),
        "l": pa.array([None if each is None else each * 3 for each in WHOLE], pa.int64()),
        "d": pa.array(DOUBLES, pa.float64()),
        "c": pa.array([*map(Decimal, DECIMALS), None], pa.decimal128(10, 2)),
        "day": pa.array([*map(dt.date.fromisoformat, DAYS), None], pa.date32()),
        "at": pa.array([*map(_moment, MOMENTS), None], pa.timestamp("us", "UTC")),
        "ds": pa.array([*DAYS, None], pa.string()),
    }
)
EXPRESSIONS = [
    # Those of Hudi.
    "upper(s)", "lower(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "length(s)", "substring(s, 2, 3)",
    "substring(s, -3, 2)", "substring(s, 0, 2)", "btrim(s, '-a ')", "trim('- ', s)",
    "ltrim('a ', s)", "rtrim('1 ', s)", "year(at)", "month(at)", "day(at)", "hour(at)",
    "year(day)", "date_format(at, 'yyyy-MM-dd HH:mm')", "date_format(day, 'yyyy-MM-dd HH')",
    "date_add(day, 40)", "date_sub(at, 3)", "to_date(at)", "to_date(ds)", "to_timestamp(ds)",
    "unix_timestamp(at)", "from_unixtime(l, 'yyyy-MM-dd')", "from_unixtime(n)",
    "regexp_extract(s, '([a-zA-Z]+)-([0-9])', 2)", "regexp_extract(s, '^.', 0)",
    "regexp_extract(s, '(a)|(b)', 2)", "regexp_extract(s, '[^-]*$', 0)",
    "regexp_extract(s, '(?:x|y)[-]{1,2}?', 0)", "regexp_replace(s, '[- ]+', '_')",
    "regexp_replace(s, '([a-z])-', '<$1>')", "split(s, '-')[0]",
    # Numbers.
    "abs(n)", "abs(d)", "abs(c)", "-n", "floor(d)", "ceil(c)", "floor(c)", "round(c, 1)",
    "round(c)",
    "round(n)", "n + 1", "l - n", "l * n", "n * d", "d * 2", "c * 2", "c + n", "c * c", "n % 7",
    "n div 7", "n / 4", "d / 3", "l + c", "n % d",
    # Nested, and of several columns.
    "upper(trim(s))", "substring(lower(s), 1, 3)", "year(to_date(ds))", "concat(s, '-', n)",
    "concat(s, ds)", "s || '/' || day", "coalesce(s, ds)", "coalesce(n, 0)", "coalesce(d, 1)",
    "greatest(s, ds)", "least(n, 5)", "length(concat(trim(s), ds))", "left(s, 2)",
    "lpad(s, 5, '*')",
    "rpad(s, 3, 'xy')", "reverse(s)", "replace(s, '-', '+')", "hour(at) * 60 + minute(at)",
    "date_format(date_add(at, 1), 'yyyy/MM')", "trunc(day, 'month')", "date_trunc('hour', at)",
    "last_day(at)", "quarter(day)", "weekofyear(at)", "dayofweek(at)", "dayofyear(day)",
    "cast(n as string)", "cast(ds as date)", "cast(at as string)", "cast(n as bigint) * l",
    "cast(c as int)", "cast(l as int)", "cast(d as int)", "cast(d as bigint)", "cast(n as boolean)",
    "cast(l as timestamp)", "cast(at as bigint)", "cast(n as decimal(6, 1))",
    # Moments and days as counts, and calls with words.
    "timestamp_seconds(l)", "timestamp_millis(l)", "timestamp_micros(l)", "unix_seconds(at)",
    "unix_millis(at)", "unix_micros(at)", "unix_date(day)",
    "date_from_unix_date(n)", "date_format(timestamp_millis(l), 'yyyy-MM-dd HH')",
    "extract(year from at)", "extract(dow from day)", "date_part('week', at)",
    "trim(both '- ' from s)", "trim(trailing '1 ' from s)", "substring(s from 2 for 3)",
    "date_trunc('month', day)", "date_trunc('hour', ds)",
    "abs(round(c, 1)) * 10", "upper(regexp_extract(s, '[a-z]+', 0))",
]  # fmt: skip
DOUBTFUL = ["round(d)", "round(d, 1)", "n * n", "-n * 2", "d / n", "n % n", "split(s, '-')[1]"]


def by_us(text: str, rows: pa.Table, *, certain: bool) -> list[object]:
    expression = with_casts(bind(parse_expression(text), rows.schema, time_zone=ZONE))
    return values(evaluate(expression, rows, time_zone=ZONE, certain=certain))


def values(found: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values as they compare: NaN equals NaN, moments are counts."""
    if pa.types.is_timestamp(found.type):
        found = found.cast(pa.timestamp("us", found.type.tz)).cast(pa.int64())
    elif pa.types.is_date(found.type):
        found = found.cast(pa.int32())
    listed = found.to_pylist()
    return ["NaN" if isinstance(each, float) and math.isnan(each) else each for each in listed]


@pytest.fixture
def by_spark(spark):
    """The values of all expressions, from one query without ANSI mode."""
    names = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    before = {name: spark.conf.get(name) for name in names}
    spark.conf.set(names[0], ZONE)
    spark.conf.set(names[1], "false")
    texts = [*EXPRESSIONS, *DOUBTFUL]
    numbered = ZOO.append_column("row", pa.array(range(len(ZOO)), pa.int32()))
    named = [f"{text} as c{number}" for number, text in enumerate(texts)]
    frame = spark.createDataFrame(numbered).orderBy("row").selectExpr(*named)
    rows = frame.toArrow()
    yield {text: values(rows[number]) for number, text in enumerate(texts)}
    for name, value in before.items():
        spark.conf.set(name, value)


@newest_only
def test_every_function_gives_what_spark_gives(by_spark):
    wrong = []
    for text in EXPRESSIONS:
        ours, theirs = by_us(text, ZOO, certain=False), by_spark[text]
        if ours != theirs:
            pairs = zip(ours, theirs, strict=True)
            wrong.append((text, [pair for pair in pairs if pair[0] != pair[1]]))
    assert wrong == []


@newest_only
def test_what_depends_on_the_mode_or_the_last_digit_is_not_told(by_spark):
    for text in DOUBTFUL:
        with pytest.raises(LakedexError):
            by_us(text, ZOO, certain=True)
        for at in range(len(ZOO)):
            try:
                (ours,) = by_us(text, ZOO.slice(at, 1), certain=True)
            except LakedexError:
                continue
            assert ours == by_spark[text][at], (text, at)
