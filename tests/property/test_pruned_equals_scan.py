"""Random tables, histories and predicates: what is read with indexes is what a full scan reads."""

from __future__ import annotations

import math
import shutil
import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lakedex
from tests.support.index_specs import ExpressionIndex, SecondaryIndex
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("cost", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 3)),
        ("ok", pa.bool_()),
        ("part", pa.string()),
    ]
)
# Strings whose UTF-8 and UTF-16 orders differ, keys that are prefixes of one another, escapes.
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "a$b",
    "a\\b",
    "$",
    "é",
    "\uffff",
    "\U0001f600",
    "z" * 40,
    "null",
]
FLOATS = [0.0, -0.0, 1.5, -1.5, 1e300, math.inf, -math.inf, math.nan, 0.1]
DAYS = [date(1969, 12, 31), date(2000, 1, 1), date(2024, 2, 29)]
MOMENTS = [
    datetime(1899, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    datetime(2024, 1, 2, 3, 4, 5, 678900, tzinfo=UTC),
    datetime(2030, 6, 1, tzinfo=UTC),
]
COSTS = [Decimal("-0.01"), Decimal("0.00"), Decimal("12.34"), Decimal("99999999.99")]
# More digits than Python's decimals keep unless they are told to.
WIDE = [
    Decimal(f"{sign}12345678901234567890123456789012345.67{end}") for sign in "+-" for end in "78"
]
NUMBERS = [-(2**31), -1, 0, 1, 7, 2**31 - 1]
VALUES = {
    "i": NUMBERS,
    "l": [*NUMBERS, -(2**63), 2**63 - 1],
    "f": FLOATS,
    "g": [0.0, -0.0, 0.5, math.nan, -math.inf, 3.25],
    "s": TEXTS,
    "day": DAYS,
    "at": MOMENTS,
    "cost": COSTS,
    "wide": [*WIDE, Decimal("1.001")],
    "ok": [True, False],
    "part": ["x", "y"],
}


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"cast('{value}' as double)" if not math.isfinite(value) else f"{value!r}D"
        case int():
            return f"{value}L" if abs(value) < 2**63 else f"cast('{value}' as bigint)"
        case datetime():
            return f"timestamp'{value:%Y-%m-%d %H:%M:%S.%f}Z'"
        case date():
            return f"date'{value.isoformat()}'"
        case Decimal():
            return str(value)
        case _:
            return quoted(str(value))


@st.composite
def comparisons(draw):
    column = draw(st.sampled_from(list(VALUES)))
    value = st.sampled_from(VALUES[column]).map(literal)
    kind = draw(
        st.sampled_from(["op", "op", "in", "between", "null", "not null", "null-safe", "like"])
    )
    if kind == "in":
        values = draw(st.lists(value, min_size=1, max_size=3))
        return f"{column} {draw(st.sampled_from(['in', 'not in']))} ({', '.join(values)})"
    if kind == "between":
        return f"{column} between {draw(value)} and {draw(value)}"
    if kind == "null":
        return f"{column} is null"
    if kind == "not null":
        return f"{column} is not null"
    if kind == "null-safe":
        return f"{column} <=> {draw(st.one_of(value, st.just('null')))}"
    if kind == "like":
        prefix = draw(st.sampled_from(["a", "ab", "a$", "$", "z", "\uffff", "\U0001f600", "b"]))
        return f"s {draw(st.sampled_from(['like', 'not like']))} {quoted(prefix + '%')}"
    return f"{column} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(value)}"


KEYS = st.integers(0, 12).map(lambda n: f"id = 'k{n}'")
EXPRESSIONS = st.sampled_from(TEXTS).map(lambda text: f"upper(s) = {quoted(text.upper())}")
LEAVES = st.one_of(comparisons(), comparisons(), KEYS, EXPRESSIONS)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} and {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} or {pair[1]})"),
        inner.map(lambda one: f"(not {one})"),
    ),
    max_leaves=5,
)


@st.composite
def rows(draw, keys: list[str], part: str):
    columns: dict[str, list] = {"id": keys}
    for name, values in VALUES.items():
        shared = draw(st.one_of(st.none(), st.sampled_from(values)))
        choice = st.one_of(st.none(), st.just(shared), st.sampled_from(values))
        columns[name] = [draw(choice) for _ in keys]
    columns["part"] = [part] * len(keys)
    return pa.table(columns, schema=SCHEMA)


@st.composite
def histories(draw):
    """A table type, files with their partitions, and changes to some keys afterwards."""
    keys = [f"k{n}" for n in range(draw(st.integers(1, 10)))]
    files = []
    while keys:
        size = draw(st.integers(1, min(3, len(keys))))
        part = draw(st.sampled_from(VALUES["part"]))
        files.append((part, draw(rows(keys[:size], part))))
        keys = keys[size:]
    changes = []
    for _ in range(draw(st.integers(0, 2))):
        part, table = draw(st.sampled_from(files))
        key = draw(st.sampled_from(table["id"].to_pylist()))
        changes.append((draw(rows([key], part)), draw(st.booleans())))
    return draw(st.sampled_from(["cow", "mor"])), files, changes


INDEXES = (
    "column_stats",
    "partition_stats",
    "bloom_filters",
    "record_index",
    SecondaryIndex("idx_s", "s"),
    SecondaryIndex("idx_l", "l"),
    SecondaryIndex("idx_at", "at"),
    ExpressionIndex("idx_up", "s", "upper"),
)


def build(folder: Path, history) -> str:
    table_type, files, changes = history
    builder = TableBuilder(
        folder / "t",
        SCHEMA,
        record_key="id",
        partition_by="part",
        table_type=table_type,
        indexes=INDEXES,
        groups={"record_index": 2, "secondary_index": 2, "column_stats": 2},
    )
    builder.commit(files)
    gone: set[str] = set()
    for table, is_delete in changes:
        key = table["id"][0].as_py()
        if key in gone:
            continue
        change = builder.commit if table_type == "cow" else builder.log_commit
        change(deletes=[key]) if is_delete else change(updates=table)
        gone.update([key] if is_delete else [])
    return builder.finish()


@settings(max_examples=25)
@given(histories(), st.lists(PREDICATES, min_size=8, max_size=8))
def test_pruned_rows_are_the_rows_of_a_full_scan(history, predicates):
    # cases B1, B3, B4, B5, B8, B13, B14, B15, B20
    folder = Path(tempfile.mkdtemp())
    try:
        path = build(folder, history)
        pruned = lakedex.open(path, options=lakedex.ReadOptions(weighs_cost=False))
        options = lakedex.ReadOptions(without_indexes=frozenset(["all"]))
        scanned = lakedex.open(path, options=options)
        for predicate in predicates:
            found = pruned.to_arrow(predicate, columns=["id"])["id"].to_pylist()
            wanted = scanned.to_arrow(predicate, columns=["id"])["id"].to_pylist()
            assert sorted(found) == sorted(wanted), f"{predicate}\n{pruned.explain(predicate)}"
    finally:
        shutil.rmtree(folder)


def test_a_value_outside_every_range_reads_no_file(tmp_path):
    """An index that silently never prunes must fail somewhere."""
    days = [date(2024, 1, 1) + timedelta(days=n) for n in range(4)]
    files = []
    for n, day in enumerate(days):
        row = {"id": [f"k{n}"], "i": [n], "l": [n], "f": [n + 1.5], "g": [n + 1.5]}
        row |= {"s": [f"s{n}"], "day": [day], "at": [MOMENTS[1]], "cost": [Decimal(n)]}
        row |= {"wide": [Decimal(n)]}
        files.append(("x", pa.table(row | {"ok": [True], "part": ["x"]}, schema=SCHEMA)))
    table = lakedex.open(build(tmp_path, ("cow", files, [])))
    expected = {
        "i = 2": 1,
        "i > 1": 2,
        "i in (0, 3)": 2,
        "l = 99": 0,
        "f = 1.5D": 1,
        "f < 2D": 1,
        "s = 's1'": 1,
        "s like 's3%'": 1,
        "s is null": 0,
        "upper(s) = 'S2'": 1,
        "day = date'2024-01-02'": 1,
        "cost = 2.0": 1,
        "id = 'k3'": 1,
        "id = 'k'": 0,
        "part = 'y'": 0,
        "ok = false": 0,
        "not (i = 2)": 3,
        "i = 2 or s = 's0'": 2,
    }
    left = {predicate: len(table.files(predicate)) for predicate in expected}
    assert left == expected
