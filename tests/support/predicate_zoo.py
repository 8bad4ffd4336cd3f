"""Random rows of every type and random bound predicates over them."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from lakedex.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
)

NAN = float("nan")
PLANES = ["\ud7ff", "\ue000", "\uffff", "\U0001d49c", "\U0001d49d", "\U0010ffff"]
UTC = dt.UTC
POOLS = {
    "i": (pa.int32(), [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -5, 0, 7, 2**63 - 1]),
    "f": (pa.float32(), [NAN, math.inf, -math.inf, -0.0, 0.0, 1.5, -1.5, 2.5]),
    "d": (pa.float64(), [NAN, math.inf, -math.inf, -0.0, 0.0, 1.0, 1.5, -1.5, 2.5, 1e300]),
    "s": (
        pa.string(),
        [*"ab%_Zäß", "", "ab", "abc", "a\nb", *PLANES, *("a" + character for character in PLANES)],
    ),
    "y": (pa.binary(), [b"", b"a", b"\x00", b"\x7f", b"\x80", b"\xff", b"a\xff", b"ab"]),
    "n": (pa.decimal128(10, 2), [Decimal(v) for v in ("-1.50", "0.00", "0.01", "12.34", "99.99")]),
    "b": (pa.bool_(), [True, False]),
    "t": (
        pa.date32(),
        [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31)],
    ),
    "z": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1899, 5, 1, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            dt.datetime(2020, 12, 31, 23, 30, tzinfo=UTC),
            dt.datetime(2021, 10, 31, 0, 30, tzinfo=UTC),
            dt.datetime(2021, 10, 31, 0, 59, 59, 1, tzinfo=UTC),
            dt.datetime(2021, 10, 31, 1, 10, tzinfo=UTC),
        ],
    ),
    "w": (
        pa.timestamp("us"),
        [dt.datetime(1969, 12, 31, 23), dt.datetime(2021, 1, 1), dt.datetime(2021, 1, 1, 0, 0, 1)],
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in POOLS.items()])
ZONES = ["UTC", "Europe/Berlin", "+05:30", "Pacific/Apia"]
WRITES_ZERO = {"i", "l", "f", "d", "b", "t", "z", "w"}


# ---------------------------------------------------------------- random rows and predicates


def column(name):
    return Column((name,), POOLS[name][0])


def literal(name, value):
    return Literal(value, POOLS[name][0])


def random_rows(dice, least=0):
    """Rows from few values per column, so that predicates often meet."""
    pools = {
        name: dice.sample([*values, None], k=min(dice.choice([1, 2, 4]), len(values)))
        for name, (_, values) in POOLS.items()
    }
    count = dice.randint(least, 6)
    return [{name: dice.choice(pools[name]) for name in POOLS} for _ in range(count)]


DICE = st.integers(0, 2**40).map(random.Random)


def random_value(dice, name):
    return literal(name, None if dice.random() < 0.1 else dice.choice(POOLS[name][1]))


def random_leaf(dice):
    """A comparison, list, null test or text test of one column."""
    name = dice.choice([*POOLS, *"ddffssz"])
    subject = column(name)
    match dice.choice(["compare", "compare", "compare", "in", "null", "text", "columns", "bool"]):
        case "compare":
            sides = [subject, random_value(dice, name)]
            dice.shuffle(sides)
            return Compare(dice.choice(list(Op)), *sides)
        case "in":
            count = dice.choice([0, 1, 2, 3, 12])
            return In(subject, tuple(random_value(dice, name) for _ in range(count)))
        case "null":
            return dice.choice([IsNull, IsNotNull])(subject)
        case "text":
            return random_text_test(dice)
        case "columns":
            return Compare(dice.choice(list(Op)), subject, subject)
    return dice.choice([column("b"), Literal(None, pa.bool_()), Literal(True, pa.bool_())])


def random_text_test(dice):
    prefix = dice.choice(POOLS["s"][1])
    if dice.random() < 0.4:
        return StartsWith(column("s"), prefix)
    if dice.random() < 0.5:
        return Like(column("s"), prefix.replace("%", "\\%").replace("_", "\\_") + "%")
    pieces = ["a", "b", "%", "_", "\\%", "\uffff", "\n"]
    return Like(column("s"), "".join(dice.choices(pieces, k=dice.randint(0, 4))))


def text(value):
    return Literal(value, pa.string())


def int32(value):
    return Literal(value, pa.int32())


def random_function_leaf(dice):
    subject, values = dice.choice(FUNCTION_CASES)
    values = [*values, Literal(None, values[0].type)]
    return Compare(dice.choice(list(Op)), subject, dice.choice(values))


def function_cases():
    """Scalar expressions, each with constants to compare it to."""
    z, s, t, i = column("z"), column("s"), column("t"), column("i")
    days = [dt.date(1969, 12, 31), dt.date(2020, 12, 31), dt.date(2021, 10, 31)]
    days = [Literal(day, pa.date32()) for day in days]
    texts = [text(value) for value in POOLS["s"][1]]
    formatted = ["2021-10-31", "2020", "2021-10-31 02:00", "02", "10-2021", "20211031023000000"]
    stamps = [literal("z", value) for value in POOLS["z"][1]]
    longs = [Literal(value, pa.int64()) for value in (-2, 0, 1, 3)]
    yield Call("year", (z,)), [int32(value) for value in (1899, 1969, 2020, 2021)]
    yield Call("year", (t,)), [int32(value) for value in (1969, 1970, 2020, 9999)]
    yield Call("month", (z,)), [int32(value) for value in (1, 10, 12)]
    yield Call("to_date", (z,)), days
    yield Cast(z, pa.date32()), days
    yield Cast(t, pa.timestamp("us", "UTC")), stamps
    yield Cast(z, pa.int64()), longs
    for pattern in ("yyyy-MM-dd", "yyyy", "MM-yyyy", "yyyy-MM-dd HH:mm", "yyyyMMddHHmmssSSS", "HH"):
        yield Call("date_format", (z, text(pattern))), [text(value) for value in formatted]
    for unit in ("hour", "DAY", "month"):
        yield Call("date_trunc", (text(unit), z)), stamps
    for start in (0, 1, 2, -1):
        yield Call("substring", (s, int32(start), int32(1))), texts
    yield Call("upper", (s,)), [text(value) for value in ("A", "AB", "Ä", "SS", "\uffff")]
    yield Call("length", (s,)), [int32(value) for value in (0, 1, 2)]
    for step in (1, -1, 5):
        yield Call("+", (i, int32(step))), [literal("i", value) for value in POOLS["i"][1]]
    yield Cast(i, pa.int64()), longs
    yield Cast(i, pa.int8()), [Literal(value, pa.int8()) for value in (-2, 0, 3)]
    yield Cast(column("f"), pa.float64()), [literal("d", value) for value in POOLS["d"][1]]
    yield Cast(column("d"), pa.int32()), [int32(value) for value in (0, 1, 2)]
    yield Call("floor", (column("n"),)), [Literal(Decimal(12), pa.decimal128(9, 0))]
    yield Call("floor", (column("d"),)), longs
    yield Call("date_add", (t, int32(1))), [Literal(dt.date(1970, 1, 1), pa.date32()), *days]
    from_seconds = Call("from_unixtime", (column("l"), text("yyyy-MM-dd")))
    yield from_seconds, [text("1970-01-01"), text("1969-12-31")]


FUNCTION_CASES = list(function_cases())


def random_tree(dice, leaf, depth=2):
    """Mostly single leaves, some trees of AND, OR and NOT."""
    if depth == 0 or dice.random() < 0.5:
        return leaf(dice)
    if dice.random() < 0.4:
        return Not(random_tree(dice, leaf, depth - 1))
    children = [random_tree(dice, leaf, depth - 1) for _ in range(dice.randint(1, 3))]
    return dice.choice([And, Or])(tuple(children))


def any_leaf(dice):
    return (random_leaf if dice.random() < 0.6 else random_function_leaf)(dice)


def table_of(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)
