"""What the optimiser makes of SQL, and the tree that comes of it, on every release of Spark alike.

Every predicate goes through `spark.sql` over a Parquet-backed view; the trees are read off the
optimised plan. `?` is a part that was not understood, `-` that nothing is left to prune by.
"""

from __future__ import annotations

import copy
import json
import random

import pyarrow as pa
import pytest

from lakedex.expr.tree import tree_text
from lakedex.spark.catalyst import translate_filters
from lakedex.spark.schemas import arrow_schema
from tests.spark.filter_lab import ANSI, ZONE, FilterLab, conditions_above

DDL = (
    "b boolean, i8 byte, i int, l long, f float, d double, s string, y binary, n decimal(10,2), "
    "m decimal(38,18), t date, z timestamp, w timestamp_ntz, "
    "a struct<zip:string,no:int,deep:struct<x:double>>, r array<int>"
)
MIDNIGHT = "2023-12-31T23:00:00+00:00"
NEXT_MIDNIGHT = "2024-01-01T23:00:00+00:00"

# The predicate as a user writes it, and the tree without the null tests that Spark adds.
SHAPES = {
    # comparisons, constants and casts on either side
    "i = 5": "i = 5",
    "5 < i": "i > 5",
    "i > 3.5": "i > 3",
    "i = '5'": "i = 5",
    "i8 < 100": "i8 < 100",
    "l >= 3 and l < 9": "l >= 3 and l < 9",
    "i != 5": "i != 5",
    "i <=> 5": "i = 5",
    "i <=> null": "i is null",
    "not (i <=> 5)": "not (i <=> 5)",
    "not (i > 5 and s = 'x')": "i <= 5 or s != 'x'",
    "i between 3 and 8": "i >= 3 and i <= 8",
    "i < l": "cast(i, int64) < l",
    "f = 1.5": "f = 1.5",
    "d > 1": "d > 1.0",
    "d = double('NaN')": "d = nan",
    "isnan(d)": "d = nan",
    "not isnan(d)": "not (d <=> nan)",
    "n > 3": "n > 3.00",
    "n = 2.50D": "cast(n, double) = 2.5",
    "m < 1e3": "cast(m, double) < 1000.0",
    "n < m": "cast(n, decimal128(38, 18)) < m",
    "b": "b = True",
    "not b": "b = False",
    "y = X'00ff'": "y = b'\\x00\\xff'",
    "cast(i as string) = '5'": "cast(i, string) = '5'",
    # lists
    "i in (1, 2, 3)": "i in (1, 2, 3)",
    "i in (1, 2, null)": "i in (1, 2)",
    "i not in (1, 2)": "not (i in (1, 2))",
    "i in (1,2,3,4,5,6,7,8,9,10,11,null)": "i in (1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)",
    "s in ('a','b','c','d','e','f','g','h','i','j','k')": (
        "s in ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k')"
    ),
    "i = 1 or i = 2": "i in (1, 2)",
    # text
    "s > 'b'": "s > 'b'",
    "s like 'ab%'": "s starts 'ab'",
    "s like 'ab'": "s = 'ab'",
    "s like '%ab'": "endswith(s, 'ab')",
    "s like '%ab%'": "contains(s, 'ab')",
    "s like 'ab%cd'": "length(s) >= 4 and s starts 'ab' and endswith(s, 'cd')",
    "s like 'a_b'": "s starts 'a' and s like 'a_b' escape '\\\\'",
    "s like 'a!_b%' escape '!'": "s starts 'a_b'",
    "s not like 'ab%'": "not (s starts 'ab')",
    "startswith(s, 'ab')": "s starts 'ab'",
    "s like any ('a%', 'b%')": "s starts 'a' or s starts 'b'",
    "upper(s) = 'AB'": "upper(s) = 'AB'",
    "trim(s) = 'ab'": "trim(s) = 'ab'",
    "substring(s, 1, 3) = 'abc'": "substring(s, 1, 3) = 'abc'",
    "substr(s, 2) = 'abc'": "substring(s, 2) = 'abc'",
    "left(s, 3) = 'abc'": "substring(s, 1, 3) = 'abc'",
    "s || 'x' = 'ax'": "concat(s, 'x') = 'ax'",
    # struct fields
    "a.zip = '12345'": "a.zip = '12345'",
    "a.deep.x > 3.5": "a.deep.x > 3.5",
    "a.no is null": "a.no is null",
    # dates and times, in the session's zone
    "t = '2024-01-01'": "t = 2024-01-01",
    "t > timestamp'2024-01-01 12:00:00'": "t > 2024-01-01",
    "z >= '2024-01-01'": f"z >= {MIDNIGHT}",
    "z >= date'2024-01-01'": f"z >= {MIDNIGHT}",
    "z < timestamp'2024-01-01 00:00:00Z'": "z < 2024-01-01T00:00:00+00:00",
    "w >= '2024-01-01'": "w >= 2024-01-01T00:00:00",
    "z > t": "z > cast(t, timestamp[us, tz=UTC])",
    "cast(z as date) = '2024-01-01'": f"z >= {MIDNIGHT} and z < {NEXT_MIDNIGHT}",
    "to_date(z) = '2024-01-01'": f"z >= {MIDNIGHT} and z < {NEXT_MIDNIGHT}",
    "to_date(z) in (date'2024-01-01', date'2024-01-03')": (
        "cast(z, date32[day]) in (2024-01-01, 2024-01-03)"
    ),
    "date_trunc('day', z) = timestamp'2024-01-01'": f"date_trunc('day', z) = {MIDNIGHT}",
    "trunc(z, 'MM') = '2024-01-01'": "trunc(z, 'MM') = 2024-01-01",
    "year(z) = 2024": "year(z) = 2024",
    "extract(month from t) = 3": "month(t) = 3",
    "date_format(z, 'yyyy-MM') = '2024-01'": "date_format(z, 'yyyy-MM') = '2024-01'",
    "from_unixtime(l, 'yyyy') = '2024'": "from_unixtime(l, 'yyyy') = '2024'",
    "unix_timestamp(z) > 5": "unix_timestamp(z) > 5",
    "date_add(t, 3) > '2024-01-01'": "date_add(t, 3) > 2024-01-01",
    "t + interval 3 days > '2024-01-01'": "date_add(t, 3) > 2024-01-01",
    "datediff(t, date'2024-01-01') > 3": "datediff(t, 2024-01-01) > 3",
    "cast(z as bigint) > 5": "cast(z, int64) > 5",
    # patterns
    "s rlike 'a.b'": "rlike(s, 'a.b')",
    "not (i = 5 or s rlike '(?=a)')": "i != 5 and not (rlike(s, '(?=a)'))",
    "s ilike 'A_b%'": "lower(s) starts 'a' and lower(s) like 'a_b%' escape '\\\\'",
    "s ilike '%Ab%'": "contains(lower(s), 'ab')",
    # arithmetic and choice
    "i + 1 > 5": "+(i, 1) > 5",
    "i % 2 = 0": "%(i, 2) = 0",
    "ceil(n) = 3": "ceil(n) = 3",
    "coalesce(i, 0) = 5": "coalesce(i, 0) = 5 and i = 5",
    "nvl(i, 0) < 5": "coalesce(i, 0) < 5 and (i < 5 or i is null)",
    "not coalesce(i > 3, false)": "not (coalesce(i > 3, False)) and (i <= 3 or i > 3 is null)",
    "nullif(i, 3) = 5": "not (i = 3 <=> True) and i = 5",
    "if(i > 3, s, 'y') = 'y'": "(i > 3 and s = 'y') or not (i > 3 <=> True)",
    "case when i > 3 then 'a' else 'c' end = 'a'": "i > 3",
    # nothing can match, or everything does
    "i = 5 or true": "-",
}

# The predicate, what is left of it, and why the rest is not understood.
KEPT = {
    "soundex(s) = 'A100'": ("-", ["function SoundEx"]),
    "i = 5 and hash(s) = 3": ("i = 5", ["function Murmur3Hash"]),
    "i = 5 or soundex(s) = 'A100'": ("i = 5 or ?", ["function SoundEx"]),
    "not (i = 5 or soundex(s) = 'A100')": ("i != 5", ["function SoundEx"]),
    "i > rand(3)": ("-", ["function Rand"]),
    "i > (select max(i) from shapes)": (
        "-",
        ["a subquery, whose value is known when the query runs"],
    ),
    "r[0] = 3 and i = 5": ("i = 5", ["column of type array"] * 2),
    "z + interval 3 days > '2024-01-01'": ("-", ["constant of type interval day"]),
    "s = cast(X'ff' as string)": ("-", ["constant of type string"]),
    "try_cast(s as int) = 5": ("-", ["cast string to int in try mode"]),
    "t < date'12000-01-01'": ("-", ["date outside the years 1 to 9999"]),
    "d in (0.0,1,2,3,4,5,6,7,8,9,10,11)": ("-", ["IN with a hashed floating-point zero"]),
    "try_add(i, 1) > 3": ("-", ["function Add in try mode"]),
    "from_utc_timestamp(z, 'Asia/Tokyo') > '2024'": ("-", ["function FromUTCTimestamp"]),
}


@pytest.fixture(scope="module")
def lab(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("shapes") / "rows")
    spark.createDataFrame([], DDL).write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("shapes")
    spark.read.parquet(path).createOrReplaceTempView("others")
    yield FilterLab(spark)
    spark.catalog.dropTempView("shapes")
    spark.catalog.dropTempView("others")


@pytest.fixture
def schema(spark, lab) -> pa.Schema:
    struct = spark.table("shapes").schema
    return arrow_schema(struct)


@pytest.fixture(autouse=True)
def berlin(setting):
    setting(ZONE, "Europe/Berlin")


def without_null_tests(text: str) -> str:
    parts = [part for part in text.split(" and ") if not part.endswith(" is not null")]
    return " and ".join(parts) or "-"


def test_every_shape_becomes_its_tree(lab, schema, setting):
    setting(ANSI, "false")
    wrong = {}
    for condition, expected in SHAPES.items():
        found = lab.translate(f"select * from shapes where {condition}", schema)
        text = without_null_tests(tree_text(found.predicate))
        if (text, found.unknown) != (expected, ()):
            wrong[condition] = (text, found.unknown)
    assert not wrong


def test_what_is_not_understood_is_told_and_kept(lab, schema):
    wrong = {}
    for condition, expected in KEPT.items():
        found = lab.translate(f"select * from shapes where {condition}", schema)
        answer = (without_null_tests(tree_text(found.predicate)), list(found.unknown))
        if answer != expected:
            wrong[condition] = answer
    assert not wrong


def test_ansi_casts_keep_the_rows_that_raise_an_error(lab, schema, setting):
    setting(ANSI, "true")
    found = lab.translate("select * from shapes where cast(s as int) = 5", schema)
    assert tree_text(found.predicate) == (
        "s is not null and (cast(s, int32) = 5 or (s is not null and cast(s, int32) is null))"
    )
    narrow = lab.translate("select * from shapes where cast(l as int) = 5", schema)
    assert tree_text(narrow.predicate) == (
        "l is not null and (cast(l, int32) = 5 or cast_fails(l, None))"
    )
    assert narrow.unknown == ()


def test_filters_that_joins_imply_reach_both_sides(lab, schema):
    query = "select * from shapes x join others y on x.i = y.i and x.t = y.t where y.i > 5"
    for leaf in (0, 1):
        found = lab.translate(query, schema, leaf)
        assert "i > 5" in tree_text(found.predicate)
        assert "t is not null" in tree_text(found.predicate)
        assert found.unknown == ()


def test_names_may_differ_in_case(lab, schema):
    found = lab.translate("select * from shapes where I = 5 and A.ZIP = 'x'", schema)
    assert without_null_tests(tree_text(found.predicate)) == "i = 5 and a.zip = 'x'"


def test_chains_of_thousands_neither_overflow_nor_slow_down(lab, schema):
    expressions = lab.jvm.org.apache.spark.sql.catalyst.expressions
    (first,) = conditions_above(optimised(lab, "select * from shapes where d <=> 1.5"), 0)
    (other,) = conditions_above(optimised(lab, "select * from shapes where s <=> 'x'"), 0)
    joined, either = first, first
    for _ in range(2500):
        joined = expressions.And(expressions.And(joined, other), first)
    for _ in range(1000):
        either = expressions.Or(either, other)
    both = translate_filters(lab.describe([joined]), schema, "UTC")
    assert tree_text(both.predicate) == "d = 1.5 and s = 'x'"
    one = translate_filters(lab.describe([either]), schema, "UTC")
    assert one.unknown == ()
    assert tree_text(one.predicate) == "d = 1.5 or s = 'x'"


def test_nesting_without_end_is_kept_and_told(lab, schema):
    expressions = lab.jvm.org.apache.spark.sql.catalyst.expressions
    (deep,) = conditions_above(optimised(lab, "select * from shapes where d <=> 1.5"), 0)
    (other,) = conditions_above(optimised(lab, "select * from shapes where s <=> 'x'"), 0)
    for _ in range(2000):
        deep = expressions.Or(expressions.And(deep, other), other)
    found = translate_filters(lab.describe([deep, other]), schema, "UTC")
    assert tree_text(found.predicate) == "s = 'x'"
    (reason,) = found.unknown
    assert "nested" in reason or "too large" in reason


def test_a_constant_past_all_bounds_is_left_out(lab, schema):
    query = "select * from shapes where i = 5 and s = repeat('x', 9000000)"
    found = lab.translate(query, schema)
    assert without_null_tests(tree_text(found.predicate)) == "i = 5"
    assert found.unknown == ("a filter that is too large",)


def optimised(lab, query):
    return lab.spark.sql(query)._jdf.queryExecution().optimizedPlan()


def test_damaged_texts_are_never_an_error(lab, schema):
    conditions = [
        condition
        for shape in ("i in (1,2,3) and z > t", "s like 'a_%' or year(z) = 2024", "n + 1 > 3.5")
        for condition in conditions_above(optimised(lab, f"select * from shapes where {shape}"), 0)
    ]
    whole = json.loads(lab.describe(conditions))
    dice = random.Random(5)
    odd = [None, "", "x", -1, 10**30, [], [0], {}, True, "decimal(99,1)", "date", "InSet", 1e400]
    for _ in range(400):
        text = copy.deepcopy(whole)
        for _ in range(dice.randint(1, 3)):
            node = dice.choice(text["nodes"])
            node[dice.choice([*node, "c", "v", "s", "u", "m"])] = dice.choice(odd)
        found = translate_filters(json.dumps(text), schema, dice.choice(["UTC", "Nowhere/Else"]))
        assert all(isinstance(reason, str) for reason in found.unknown)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"nodes": [{}], "roots": []}', '{"nodes": [], "roots": [3]}']
)
def test_a_text_of_another_form_is_no_error(text):
    found = translate_filters(text, pa.schema([("a", pa.int32())]), "UTC")
    assert found.predicate is None
    assert len(found.unknown) == 1
