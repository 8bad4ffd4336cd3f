"""Random predicates: evaluation against a row-by-row reference, pruning against evaluation."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.expr.bounds import ColumnBounds, exact_bounds, merge_by_group
from lakedex.expr.evaluate import evaluate, filter_table
from lakedex.expr.may_match import may_match
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
    Unknown,
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


# ---------------------------------------------------------------- the reference interpreter


def order_key(value):
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def reference(expr, row):
    match expr:
        case Column(path):
            return row[path[0]]
        case Literal(value):
            return value
        case Compare(op, left, right):
            return ref_compare(op, reference(left, row), reference(right, row))
        case In(child, values):
            if not values:
                return False
            answers = [ref_compare(Op.EQ, reference(child, row), v.value) for v in values]
            return ref_or(answers)
        case IsNull(child):
            return reference(child, row) is None
        case IsNotNull(child):
            return reference(child, row) is not None
        case StartsWith(child, prefix):
            value = reference(child, row)
            return None if value is None else value.startswith(prefix)
        case Like(child, pattern):
            value = reference(child, row)
            return None if value is None else ref_like(value, pattern)
        case And(children):
            answers = [reference(child, row) for child in children]
            return False if False in answers else (None if None in answers else True)
        case Or(children):
            return ref_or([reference(child, row) for child in children])
        case Not(child):
            answer = reference(child, row)
            return None if answer is None else not answer
    raise AssertionError(expr)


def ref_or(answers):
    return True if True in answers else (None if None in answers else False)


def ref_compare(op, left, right):
    if op is Op.EQ_NULL_SAFE:
        if left is None or right is None:
            return left is None and right is None
        op = Op.EQ
    if left is None or right is None:
        return None
    a, b = order_key(left), order_key(right)
    return {
        Op.EQ: a == b,
        Op.NE: a != b,
        Op.LT: a < b,
        Op.LTE: a <= b,
        Op.GT: a > b,
        Op.GTE: a >= b,
    }[op]


def ref_like(value, pattern):
    if not pattern:
        return not value
    head = pattern[0]
    if head == "%":
        return any(ref_like(value[i:], pattern[1:]) for i in range(len(value) + 1))
    if head == "_":
        return bool(value) and ref_like(value[1:], pattern[1:])
    if head == "\\":
        pattern = pattern[1:]
    return value[:1] == pattern[0] and ref_like(value[1:], pattern[1:])


# ---------------------------------------------------------------- statistics as Hudi writes them


def java_key(name):
    """How the JVM compares values when it merges statistics or reads a log."""
    if name == "s":
        return lambda value: value.encode("utf-16-be")
    if name == "y":
        return lambda value: [byte - 256 if byte > 127 else byte for byte in value]
    return order_key


def chunk_bounds(name, values, writer):
    """Minimum and maximum of one row group or log file, quirks included."""
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    if not present:
        zero = {"b": False, "t": dt.date(1970, 1, 1)}.get(name, 0.0 if name in "fd" else 0)
        if name in "zw":
            zero = dt.datetime(1970, 1, 1, tzinfo=UTC if name == "z" else None)
        return (zero, zero) if name in WRITES_ZERO and writer == "java" else (None, None)
    if len(numbers) < len(present) and writer == "java":
        return 0.0, 0.0
    if writer == "arrow":
        present = numbers
    key = java_key(name) if writer == "log" else order_key
    return min(present, key=key, default=None), max(present, key=key, default=None)


@dataclasses.dataclass(frozen=True)
class Files:
    """The rows of all files with the number of their file, and every column's bounds."""

    table: pa.Table
    count: int
    bounds: dict

    def __repr__(self):
        return repr(self.table.to_pylist())


def random_files(dice, count=None):
    """Files of random rows from different writers, and the bounds that those write."""
    files = [random_rows(dice) for _ in range(count or dice.randint(1, 12))]
    stats = {name: [] for name in POOLS}
    for rows in files:
        writer = dice.choice(["java", "log", "arrow"])
        cut = dice.choice([0, len(rows) // 2])
        chunks = [rows[:cut], rows[cut:]] if cut and writer == "java" else [rows]
        for name in POOLS:
            stats[name].append(file_stats(dice, name, chunks, writer))
    numbers = [number for number, rows in enumerate(files) for _ in rows]
    table = table_of([row for rows in files for row in rows])
    table = table.append_column("file", pa.array(numbers, pa.int64()))
    bounds = {column(name): bounds_of(name, entries) for name, entries in stats.items()}
    return Files(table, len(files), bounds)


def file_stats(dice, name, chunks, writer):
    values = [[row[name] for row in rows] for rows in chunks]
    pairs = [chunk_bounds(name, part, writer) for part in values]
    pairs = [pair for pair in pairs if pair[0] is not None]
    key = java_key(name)
    low = min((pair[0] for pair in pairs), key=key) if pairs else None
    high = max((pair[1] for pair in pairs), key=key) if pairs else None
    every = [value for part in values for value in part]
    nulls = sum(value is None for value in every)
    lost = dice.choice([*[""] * 8, "min", "max", "nulls", "count", "all"])
    return (
        None if lost in ("min", "all") else low,
        None if lost in ("max", "all") else high,
        -1 if lost in ("nulls", "all") else nulls,
        -1 if lost in ("count", "all") else len(every),
        lost != "all",
    )


def bounds_of(name, entries):
    kind = POOLS[name][0]
    low, high, nulls, counts, known = zip(*entries, strict=True)
    return ColumnBounds(
        kind,
        pa.array(low, kind),
        pa.array(high, kind),
        np.array(nulls, np.int64),
        np.array(counts, np.int64),
        np.array(known, np.bool_),
    )


# ---------------------------------------------------------------- the properties

QUICK = settings(max_examples=25, deadline=None)
PREDICATES = 40


def matching_files(files, predicate, zone="UTC"):
    """The files that hold a row for which the predicate is true."""
    return set(filter_table(files.table, predicate, time_zone=zone)["file"].to_pylist())


@QUICK
@given(DICE)
def test_evaluation_gives_what_a_row_by_row_reading_of_the_rules_gives(dice):
    table = table_of(random_rows(dice))
    for _ in range(PREDICATES):
        predicate = random_tree(dice, random_leaf)
        expected = [reference(predicate, row) for row in table.to_pylist()]
        assert evaluate(predicate, table).to_pylist() == expected, predicate


@QUICK
@given(DICE)
def test_no_file_with_a_matching_row_is_pruned(dice):
    # traps: B1 B3 B4 B5 B6 B7 B20
    files = random_files(dice)
    for _ in range(PREDICATES):
        predicate, zone = random_tree(dice, any_leaf), dice.choice(ZONES)
        kept = set(np.flatnonzero(may_match(predicate, files.bounds, files.count, time_zone=zone)))
        assert matching_files(files, predicate, zone) <= kept, predicate


MANY = random_files(random.Random(20), 300)


@pytest.mark.parametrize("name", list(POOLS))
def test_no_comparison_of_a_column_prunes_one_of_many_files_wrongly(name):
    # traps: B1 B3 B20
    constants = [literal(name, value) for value in POOLS[name][1]]
    leaves = [Compare(op, column(name), constant) for op in Op for constant in constants]
    if name == "s":
        leaves += [StartsWith(column(name), constant.value) for constant in constants]
    pairs = np.arange(300) // 2
    merged = {key: merge_by_group(value, pairs, 150) for key, value in MANY.bounds.items()}
    for leaf in leaves:
        for predicate in (leaf, Not(leaf)):
            matching = matching_files(MANY, predicate)
            assert matching <= set(np.flatnonzero(may_match(predicate, MANY.bounds, 300))), (
                predicate
            )
            slices = {file // 2 for file in matching}
            assert slices <= set(np.flatnonzero(may_match(predicate, merged, 150))), predicate


@pytest.mark.parametrize("zone", ZONES)
def test_no_comparison_of_a_function_prunes_one_of_many_files_wrongly(zone):
    # traps: B6 B7 B11
    for subject, constants in FUNCTION_CASES:
        for op in (Op.EQ, Op.LT, Op.GTE):
            for constant in constants:
                predicate = Compare(op, subject, constant)
                kept = set(np.flatnonzero(may_match(predicate, MANY.bounds, 300, time_zone=zone)))
                assert matching_files(MANY, predicate, zone) <= kept, predicate


@QUICK
@given(DICE)
def test_no_slice_with_a_matching_row_is_pruned_by_merged_bounds(dice):
    # traps: B1 B10 B20
    files = random_files(dice)
    groups = np.array([dice.randint(0, 2) for _ in range(files.count)])
    merged = {key: merge_by_group(entry, groups, 3) for key, entry in files.bounds.items()}
    for _ in range(PREDICATES):
        predicate = random_tree(dice, any_leaf)
        kept = set(np.flatnonzero(may_match(predicate, merged, 3)))
        assert {groups[file] for file in matching_files(files, predicate)} <= kept, predicate


@QUICK
@given(DICE)
def test_partition_values_prune_exactly_or_keep(dice):
    table = table_of(random_rows(dice, least=1))
    bounds = {column(name): exact_bounds(table[name].combine_chunks()) for name in POOLS}
    for _ in range(PREDICATES):
        predicate, zone = random_tree(dice, any_leaf), dice.choice(ZONES)
        kept = may_match(predicate, bounds, len(table), time_zone=zone).tolist()
        answers = evaluate(predicate, table, time_zone=zone).to_pylist()
        assert kept == [answer is True for answer in answers], predicate


@QUICK
@given(DICE)
def test_an_index_on_an_expression_keeps_every_file_with_a_matching_row(dice):
    # traps: B11 B61
    files = random_files(dice)
    for subject, constants in dice.sample(FUNCTION_CASES, 8):
        if subject.__class__ is Call and subject.function == "date_add":
            continue  # Python's dates end where this one goes on
        everything = evaluate(subject, files.table).combine_chunks()
        numbers = files.table["file"].to_numpy()
        values = [everything.filter(pa.array(numbers == file)) for file in range(files.count)]
        entries = []
        for array in values:
            given_values = [value for value in array.to_pylist() if value is not None]
            low = min(given_values, key=order_key, default=None)
            entries.append((low, max(given_values, key=order_key, default=None), array))
        bounds = {subject: expression_bounds(values[0].type, entries)}
        for op in Op:
            predicate = Compare(op, subject, dice.choice(constants))
            kept = set(np.flatnonzero(may_match(predicate, bounds, files.count)))
            assert matching_files(files, predicate) <= kept, predicate


@QUICK
@given(DICE)
def test_a_part_that_was_not_understood_never_prunes_a_possible_file(dice):
    # traps: B5 B12
    files = random_files(dice)
    for _ in range(PREDICATES // 3):
        predicate = random_tree(dice, lambda d: random_leaf(d) if d.random() < 0.7 else UNKNOWN)
        kept = set(np.flatnonzero(may_match(predicate, files.bounds, files.count)))
        for meaning in (True, False, None):
            read = replaced(predicate, Literal(meaning, pa.bool_()))
            assert matching_files(files, read) <= kept, predicate


UNKNOWN = Unknown("?")


def expression_bounds(kind, entries):
    low, high, arrays = zip(*entries, strict=True)
    return ColumnBounds(
        kind,
        pa.array(low, kind),
        pa.array(high, kind),
        np.array([array.null_count for array in arrays], np.int64),
        np.array([len(array) for array in arrays], np.int64),
        np.ones(len(arrays), np.bool_),
    )


def replaced(expr, literal_value):
    match expr:
        case Unknown():
            return literal_value
        case And(children):
            return And(tuple(replaced(child, literal_value) for child in children))
        case Or(children):
            return Or(tuple(replaced(child, literal_value) for child in children))
        case Not(child):
            return Not(replaced(child, literal_value))
    return expr
