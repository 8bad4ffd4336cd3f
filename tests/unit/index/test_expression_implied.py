"""What predicates on a column say of functions of it: true of every row that they find."""

from __future__ import annotations

import struct
import zoneinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakedex.errors import LakedexError
from lakedex.expr import bind_predicate, normalise, parse_predicate
from lakedex.expr.bind import bind
from lakedex.expr.evaluate import evaluate, true_rows
from lakedex.expr.sql import parse_expression
from lakedex.expr.tree import And, Column, Compare, Expr, In, Literal, Op, Or, all_of, tree_text
from lakedex.index.kinds.expression.implied import implied

ZONED = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("ts", ZONED),
        ("local", pa.timestamp("us")),
        ("d", pa.date32()),
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("name", pa.string()),
        ("x", pa.float64()),
    ]
)
TIMES = [
    f"{function}({{0}}{argument})"
    for function, argument in [
        *(("date_format", f", '{pattern}'") for pattern in ("yyyy-MM-dd", "yyyy-MM-dd HH:mm")),
        *(("date_format", f", '{pattern}'") for pattern in ("MM/dd/yyyy", "yyyy", "-yyyy-MM")),
        *((part, "") for part in ("year", "month", "quarter", "day", "dayofyear", "weekday")),
        *((part, "") for part in ("hour", "minute", "second", "to_date", "last_day")),
        *((add, f", {days}") for add in ("date_add", "date_sub") for days in (3, -400)),
        *(("trunc", f", '{unit}'") for unit in ("year", "month", "week", "nonsense")),
    ]
]
INSTANTS = [*TIMES, "unix_timestamp({0})", "to_timestamp({0})", "date_trunc('hour', {0})"]
FUNCTIONS = {
    "ts": INSTANTS,
    "local": TIMES,
    "d": [each for each in TIMES if "HH" not in each],
    "n": [
        "from_unixtime({0}, 'yyyy-MM-dd')",
        "from_unixtime({0})",
        "from_unixtime({0}, 'MM/yyyy')",
    ],
    "small": [
        "from_unixtime({0}, 'yyyy-MM-dd HH')",
        "cast({0} as bigint)",
        "{0} + 5",
        "abs({0})",
    ],
    "name": [
        *("upper({0})", "lower({0})", "length({0})", "trim({0})", "substring({0}, 1, 2)"),
        *("substring({0}, 2, 2)", "left({0}, 1)", "to_date({0})", "to_date({0}, 'yyyy-MM-dd')"),
        *("coalesce({0}, 'none')", "upper(substring({0}, 1, 1))", "substring(upper({0}), 1, 1)"),
    ],
}
ZONES = ("UTC", "America/New_York", "Europe/Amsterdam", "Pacific/Apia", "+05:30", "Asia/Tehran")
YEAR = 31_556_952_000_000
CHANGES = (
    1_667_710_800_000_000,  # clocks back in New York, 2022
    1_667_091_600_000_000,  # and in Amsterdam
    1_678_604_400_000_000,  # forward in New York
    1_325_239_200_000_000,  # Apia left out a day
    -1_500_000_000_000_000,
    -3_000_000_000_000_000,  # before 1900, offsets have seconds
    -62_135_596_800_000_000,  # the year 1
    253_402_300_800_000_000,  # the year 10000
)
moments = st.one_of(
    st.builds(
        lambda change, hours, micros: change + hours * 3_600_000_000 + micros,
        st.sampled_from(CHANGES),
        st.integers(-30, 30),
        st.sampled_from((-1, 0, 1)),
    ),
    st.integers(1_600_000_000_000_000, 1_700_000_000_000_000),
    st.integers(-(2**62), 2**62),
)
names = st.one_of(
    st.sampled_from(
        ["bob", "Bob", "BOB", "", " bob", "straße", "STRASSE", "ŉ", "2022-10-01", "12:30"]
    ),
    st.text(alphabet="abAB éΣ\ud7ff\U0001f600", max_size=4),
)


def values_of(column: str) -> st.SearchStrategy[object]:
    """Plain values of a column, as numbers where Python's dates end too early."""
    days = moments.map(lambda micros: micros // 86_400_000_000)
    seconds = moments.map(lambda micros: micros // 1_000_000)
    kinds = {
        "ts": moments,
        "local": moments,
        "d": days,
        "n": st.one_of(seconds, st.integers(-(2**63), 2**63 - 1)),
        "small": st.integers(-(2**31), 2**31 - 1),
        "name": names,
    }
    return kinds[column]


def arrow(column: str, values: list[object]) -> pa.Array:
    kind = SCHEMA.field(column).type
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).view(kind)
    return (
        pa.array(values, pa.int64()).view(kind)
        if pa.types.is_temporal(kind)
        else pa.array(values, kind)
    )


@st.composite
def constants(draw: st.DrawFn, column: str) -> Literal:
    kind = SCHEMA.field(column).type
    try:
        return Literal(arrow(column, [draw(values_of(column))])[0].as_py(), kind)
    except (OverflowError, ValueError):
        assume(condition=False)
        raise


@st.composite
def predicates(draw: st.DrawFn, column: str) -> Expr:
    """AND and OR of comparisons of one column."""
    own = Column((column,), SCHEMA.field(column).type)
    literal = constants(column)

    def leaf() -> Expr:
        if draw(st.integers(0, 4)) == 0:
            return In(own, tuple(draw(st.lists(literal, min_size=1, max_size=3))))
        return Compare(draw(st.sampled_from(Op)), own, draw(literal))

    pair = all_of([leaf() for _ in range(draw(st.integers(1, 3)))])
    return pair if draw(st.booleans()) else And((leaf(), Or((pair, leaf()))))


def follows(rows: pa.Table, predicate: Expr, expression: Expr, zone: str) -> Expr | None:
    """What follows for the expression, after every row that is found was held against it."""
    told = implied(normalise(predicate), expression, zone)
    if told is not None:
        found = true_rows(evaluate(predicate, rows, time_zone=zone))
        allowed = true_rows(evaluate(told, rows, time_zone=zone))
        assert not (found & ~allowed).any(), tree_text(told)
    return told


@pytest.mark.parametrize("column", sorted(FUNCTIONS))
def test_what_follows_is_true_of_every_row_that_is_found(column):
    # cases B6, B7, B11
    @given(data=st.data(), zone=st.sampled_from(ZONES), text=st.sampled_from(FUNCTIONS[column]))
    def run(data: st.DataObject, zone: str, text: str) -> None:
        expression = bind(parse_expression(text.format(column)), SCHEMA, time_zone=zone)
        predicate = data.draw(predicates(column))
        values = data.draw(st.lists(st.none() | values_of(column), min_size=1, max_size=12))
        # The constants themselves and their neighbours are rows too.
        ends = pa.array([each.value for each in literals(predicate)], SCHEMA.field(column).type)
        rows = pa.table({column: pa.concat_arrays([arrow(column, values), ends])})
        try:
            evaluate(expression, rows, time_zone=zone)
        except LakedexError:
            return
        follows(rows, predicate, expression, zone)

    run()


def literals(predicate: Expr) -> list[Literal]:
    match predicate:
        case And(children) | Or(children):
            return [literal for child in children for literal in literals(child)]
        case In(_, values):
            return list(values)
        case Compare(_, _, Literal() as value):
            return [value]
        case _:
            return []


def told(text: str, function: str, zone: str = "UTC") -> str:
    predicate = normalise(bind_predicate(parse_predicate(text), SCHEMA, time_zone=zone))
    return tree_text(implied(predicate, bind(parse_expression(function), SCHEMA), zone))


DAY = "date_format(ts, 'yyyy-MM-dd')"
FROM, UNTIL = "ts >= '2022-10-01 00:00:00Z'", "ts < '2022-10-02 00:00:00Z'"
SECONDS = "from_unixtime(n) >= '1970-01-01 00:00:00' and from_unixtime(n) <= '1970-01-01 00:00:05'"


@pytest.mark.parametrize(
    ("predicate", "function", "zone", "expected"),
    [
        (f"{FROM} and {UNTIL}", DAY, "UTC", f"{DAY} >= '2022-10-01' and {DAY} <= '2022-10-01'"),
        # Another zone is another day, and where clocks go back nearby the ends are moved.
        (
            f"{FROM} and {UNTIL}",
            DAY,
            "Asia/Tokyo",
            f"{DAY} >= '2022-10-01' and {DAY} <= '2022-10-02'",
        ),
        (
            "ts between '2022-11-06 04:00:00Z' and '2022-11-06 05:30:00Z'",
            "date_format(ts, 'yyyy-MM-dd HH')",
            "America/New_York",
            "date_format(ts, 'yyyy-MM-dd HH') >= '2022-11-05 23'"
            " and date_format(ts, 'yyyy-MM-dd HH') <= '2022-11-06 01'",
        ),
        # A year from 10000 on is a text before all others.
        (FROM, DAY, "UTC", f"{DAY} >= '2022-10-01' or {DAY} starts '+'"),
        (UNTIL, DAY, "UTC", f"{DAY} <= '2022-10-01'"),
        (FROM, "date_format(ts, 'MM/dd/yyyy')", "UTC", "-"),
        (f"{FROM} and {UNTIL}", "date_format(ts, 'MM/dd/yyyy')", "UTC", "-"),
        (FROM, "year(ts)", "UTC", "year(ts) >= 2022"),
        (FROM, "month(ts)", "UTC", "-"),
        (f"{FROM} and {UNTIL}", "month(ts)", "UTC", "month(ts) >= 10 and month(ts) <= 10"),
        (f"{FROM} and ts < '2023-02-01'", "month(ts)", "UTC", "-"),
        (
            f"{FROM} and ts < '2022-10-01 05:00:00Z'",
            "hour(ts)",
            "UTC",
            "hour(ts) >= 0 and hour(ts) <= 4",
        ),
        ("n >= 0", "from_unixtime(n)", "UTC", "-"),
        ("n between 0 and 5", "from_unixtime(n)", "UTC", SECONDS),
        ("name = 'bob'", "upper(name)", "UTC", "upper(name) = 'BOB'"),
        ("name in ('bob', 'Bob')", "upper(name)", "UTC", "upper(name) = 'BOB'"),
        ("name = 'straße'", "upper(name)", "UTC", "-"),
        ("name in ('bob', 'straße')", "upper(name)", "UTC", "-"),
        ("name >= 'bob'", "upper(name)", "UTC", "-"),
        ("name != 'bob'", "upper(name)", "UTC", "-"),
        ("not (name = 'bob')", "upper(name)", "UTC", "-"),
        ("name = 'nonsense'", "to_date(name)", "UTC", "-"),
        ("name is null", "upper(name)", "UTC", "upper(name) is null"),
        ("name is null", "coalesce(name, 'x')", "UTC", "-"),
        (
            "name like 'bob%'",
            "substring(name, 1, 2)",
            "UTC",
            "substring(name, 1, 2) >= 'bo' and substring(name, 1, 2) <= 'bo'",
        ),
        ("name like 'bob%'", "upper(name)", "UTC", "-"),
        ("x = 0.0", "cast(x as string)", "UTC", "-"),
        ("small = 3 or n = 4", "abs(small)", "UTC", "-"),
        ("small = 3 or small > 4", "small + 5", "UTC", "-"),
        ("small = 3 or small = -3", "abs(small)", "UTC", "abs(small) = 3"),
        (f"{FROM} and (ts < '2022-10-01 05:00:00Z' or n = 1)", "hour(ts)", "UTC", "-"),
        (
            f"{FROM} and (ts < '2022-10-01 02:00:00Z' or ts = '2022-10-01 07:00:00Z')",
            "hour(ts)",
            "UTC",
            "(hour(ts) >= 0 and hour(ts) <= 1) or hour(ts) = 7",
        ),
    ],
)
def test_what_follows(predicate, function, zone, expected):
    # cases B6, B11, B12, B61
    assert told(predicate, function, zone) == expected


def test_no_region_changes_its_clocks_twice_within_two_hours():
    """Looking at a clock once an hour finds every change, as `clear_of_changes` does."""
    folders = [Path(folder) for folder in zoneinfo.TZPATH if Path(folder, "UTC").exists()]
    regions = {name for name in zoneinfo.available_timezones() if "/" in name}
    files = [folders[0] / name for name in sorted(regions) if (folders[0] / name).exists()]
    gaps = {file.name: np.diff(changes(file.read_bytes())).min(initial=2**40) for file in files}
    assert len(gaps) > 300
    assert min(gaps.values()) >= 2 * 3600, min(gaps, key=gaps.get)


def changes(data: bytes) -> np.ndarray:
    """When a region changes its clocks, in seconds: the second part of a file of RFC 9636."""
    head = struct.Struct(">20x6l")
    to_utc, standard, leaps, times, types, letters = head.unpack_from(data)
    second = head.size + times * 5 + types * 6 + letters + leaps * 8 + standard + to_utc
    count = head.unpack_from(data, second)[3]
    return np.frombuffer(data, ">i8", count, second + head.size)
