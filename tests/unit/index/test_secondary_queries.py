"""What secondary indexes leave of a table, for every kind of predicate that they know."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

import lakedex
from lakedex.expr.tree import Column, Compare, Expr, In, IsNull, Literal, Op, Or, StartsWith
from tests.support.secondary import Trips

TEXTS = [
    *("", "a", "ab", "abc", "b", "a b", "a!", "a$", "a$b", "a\\", "a\\b", "a\0", "$", "\\", "\0"),
    *("A", "Z", "[", "]", " ", "\u00e9", "\uffee", "\U0001f600", "null", "x" * 300, "x" * 301),
]
NUMBERS = [0, 1, 9, 10, 11, 99, 100, 1000, -1, -9, -10, -11, -100, 2**63 - 1, -(2**63)]
FIRST_DAY, FIRST_MOMENT = date(1969, 12, 20), datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("number", pa.int64()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("blob", pa.binary()),
        ("place", pa.string()),
    ]
)
NAME = "secondary_index_idx_{}"
INDEXED = ("text", "number", "day", "moment", "blob")
SLICES = 27
TESTS = {
    Op.EQ: lambda value, bound: value == bound,
    Op.LT: lambda value, bound: value < bound,
    Op.LTE: lambda value, bound: value <= bound,
    Op.GT: lambda value, bound: value > bound,
    Op.GTE: lambda value, bound: value >= bound,
}


def row_of(at: int) -> tuple[object, ...]:
    """One row for each file slice; the last one has nulls."""
    if at == SLICES - 1:
        return (f"k{at}", 1, None, None, None, None, None, f"p{at:02}")
    return (
        f"k{at}",
        1,
        TEXTS[at],
        NUMBERS[at % len(NUMBERS)],
        FIRST_DAY + timedelta(days=at),
        FIRST_MOMENT + timedelta(microseconds=10**at if at < 16 else -at),
        TEXTS[at].encode(),
        f"p{at:02}",
    )


ROWS = [row_of(at) for at in range(SLICES)]


def ordered(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


class Asked:
    """A table that is asked through some of its indexes, and without any."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._opened: dict[frozenset[str], lakedex.Table] = {}
        options = lakedex.ReadOptions(without_indexes={"all"})
        self.scanned = lakedex.open(path, options=options)

    def through(self, *columns: str) -> lakedex.Table:
        """The table with the indexes of these columns only, and with the record index."""
        kept = frozenset(columns)
        if kept not in self._opened:
            without = {"column_stats", "partition_stats"}
            others = {NAME.format(column) for column in INDEXED if column not in kept}
            without |= others.intersection(self.scanned.snapshot.definitions)
            options = lakedex.ReadOptions(without_indexes=without, weighs_cost=False)
            self._opened[kept] = lakedex.open(self.path, options=options)
        return self._opened[kept]

    def left(self, predicate: Expr | str, *columns: str) -> set[str]:
        """The keys in the slices that the indexes of these columns leave."""
        report = self.through(*columns).explain(predicate)
        return {f"k{int(each.partition[-2:])}" for each in report.files}

    def keys(self, predicate: Expr | str, *columns: str) -> list[str]:
        """The keys of the rows found; they are the same without indexes."""
        found = sorted(self.through(*columns).to_arrow(predicate, ["uuid"])["uuid"].to_pylist())
        wanted = self.scanned.to_arrow(predicate, ["uuid"])["uuid"].to_pylist()
        assert found == sorted(wanted)
        return found


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> Asked:
    """A slice for each row; half of the entries are in base files, the others in log blocks."""
    path = tmp_path_factory.mktemp("queries") / "t"
    made = Trips(path, "mor", schema=SCHEMA, partition_by="place")
    half = SLICES // 2
    other = [(row[0], 0, "gone", 5, FIRST_DAY, FIRST_MOMENT, b"", row[7]) for row in ROWS[half:]]
    made.writer.insert(made.rows(*ROWS[:half], *other))
    for column in INDEXED:
        made.index(column)
    made.writer.upsert(made.rows(*ROWS[half:]))
    return Asked(made.path)


@pytest.mark.parametrize("column", INDEXED)
def test_every_comparison_leaves_exactly_the_slices_that_match(asked, column):
    # cases B13, B14: values that share a prefix; escaping in secondary keys
    at = SCHEMA.names.index(column)
    named = Column((column,), SCHEMA.field(column).type)
    known = [row for row in ROWS if row[at] is not None]
    for bound in sorted({row[at] for row in known})[:: 1 if column in ("text", "number") else 3]:
        for op, is_true in TESTS.items():
            predicate = Compare(op, named, Literal(bound, named.type))
            wanted = {row[0] for row in known if is_true(ordered(row[at]), ordered(bound))}
            assert asked.left(predicate, column) == wanted, (op, bound)


def test_prefixes_with_odd_characters(asked):
    # cases B13, B14: values that share a prefix; escaping in secondary keys
    for prefix in ("a", "ab", "a$", "a\\", "\0", "$", "\U0001f600", "x" * 299, "nobody"):
        wanted = {row[0] for row in ROWS if row[2] is not None and row[2].startswith(prefix)}
        predicate = StartsWith(Column(("text",), pa.string()), prefix)
        assert asked.left(predicate, "text") == wanted, prefix


WHOLE = pa.int64()
COMBINED = {
    "text LIKE 'a%'": ("text",),
    "text LIKE 'ab_'": ("text",),
    "text BETWEEN 'a' AND 'ab'": ("text",),
    "text BETWEEN 'b' AND 'a'": ("text",),
    "text IS NULL": ("text",),
    "text <=> NULL": ("text",),
    "text <=> ''": ("text",),
    "text IS NULL OR text > 'x'": ("text",),
    "text > 'a' AND text < 'b' AND text != 'ab'": ("text",),
    "text > 'a' AND number = 9": ("text",),
    "number BETWEEN -10 AND 10": ("number",),
    "number > 99 AND number < 1001": ("number",),
    "number < -10": ("number",),
    "number > 9999999999": ("number",),
    "day >= DATE'1970-01-01' AND day < DATE'1970-01-04'": ("day",),
    "moment > TIMESTAMP'1970-01-01 00:10:00Z'": ("moment",),
    "text = 'b' OR number = 1000": ("text", "number"),
    "text = 'b' OR number IS NULL": ("text", "number"),
    "text LIKE 'ab%' OR number BETWEEN 9 AND 10 OR day = DATE'1970-01-02'": INDEXED,
    "(text = 'b' AND ts = 1) OR (number = 11 AND day > DATE'1960-01-01')": INDEXED,
    "(text = 'b' OR number = 11) AND (text = 'a' OR day < DATE'1969-12-25')": INDEXED,
    "text = 'b' OR (day > DATE'1969-12-20' AND (number = 11 OR moment IS NULL))": INDEXED,
    "uuid = 'k3' OR text = 'b'": ("uuid", "text"),
    "NOT (text >= 'a' OR number != 10)": ("text", "number"),
}
"""Predicates, and the columns whose indexes answer them."""


@pytest.mark.parametrize("predicate", COMBINED)
def test_combined_predicates_find_the_rows_of_a_scan_in_fewer_slices(asked, predicate):
    # case B15: null as secondary key
    columns = COMBINED[predicate]
    found = asked.keys(predicate, *columns)
    left = asked.left(predicate, *columns)
    assert set(found) <= left
    assert len(left) < SLICES, asked.through(*columns).explain(predicate)
    if columns in (("text",), ("number",), ("day",), ("moment",)) and "AND number" not in predicate:
        assert left == set(found)


def test_two_indexes_together_leave_the_slices_of_rows_that_fulfil_both(tmp_path):
    """As an index on both columns would: each value is in every slice, the pair in one."""
    made = Trips(tmp_path / "t", "mor", schema=SCHEMA, partition_by="place")
    rows = [
        (f"k{n}", 1, f"t{n % 3}", n // 3, None, None, None, f"p{n % 3 + n // 3 * 2:02}")
        for n in range(9)
    ]
    apart = [
        (f"m{n}{m}", 1, "other" if m else "both", 7 if m else 8, None, None, None, f"p{n:02}")
        for n in range(12)
        for m in (0, 1)
    ]
    single = ("one", 1, "both", 7, None, None, None, "p03")
    made.writer.insert(made.rows(*rows, *apart, single))
    for column in ("text", "number"):
        made.index(column)
    made.writer.upsert(made.rows(("k1", 2, "both", 9, None, None, None, "p01")))
    asked = Asked(made.path)
    for predicate, slices in (
        ("text = 'both' AND number = 7", 1),
        ("text LIKE 'bo%' AND number BETWEEN 7 AND 7", 1),
        ("text = 'other' AND number = 8", 0),
        ("text = 'both' AND number IN (7, 9)", 2),
    ):
        asked.keys(predicate, "text", "number")
        assert len(asked.through("text", "number").explain(predicate).files) == slices
        assert len(asked.through("text").explain(predicate).files) == 12


def test_what_no_index_answers_keeps_every_slice(asked):
    for predicate in (
        "text != 'a'",
        "text IS NOT NULL",
        "text > 'a' OR ts = 1",
        "upper(text) = 'A'",
    ):
        asked.keys(predicate, "text", "number")
        assert len(asked.left(predicate, "text", "number")) == SLICES
    report = asked.through("text").explain("text = 'a' OR number = 1")
    reasons = {step.index: step.reason for step in report.steps if not step.used}
    assert reasons["each side of OR"] == "no index answers one of the sides"


def test_a_list_of_many_values_is_looked_up(asked):
    values = tuple(Literal(f"v{n}", pa.string()) for n in range(3_000))
    many = In(Column(("text",), pa.string()), (*values, Literal("b", pa.string())))
    assert asked.left(many, "text") == {"k4"}
    either = Or((many, IsNull(Column(("number",), WHOLE))))
    assert asked.left(either, "text", "number") == {"k4", f"k{SLICES - 1}"}


def test_what_has_too_many_rows_is_not_looked_up(asked, monkeypatch):
    lookup = "lakedex.index.kinds.secondary.lookup."
    for limit in ("MAX_ROWS_OF_RANGE", "MAX_ROWS_OF_VALUES", "_ROWS_OF_BLOCKS"):
        monkeypatch.setattr(lookup + limit, 0)
    for predicate in ("text = 'b'", "text > 'b'"):
        (reason,) = (
            step.reason
            for step in asked.through("text").explain(predicate).steps
            if step.index == NAME.format("text")
        )
        assert "too many to look up" in reason
        asked.keys(predicate, "text")


def test_older_states_are_not_asked_of_the_newest_index(asked):
    # case B18: newest index for older snapshots
    table = asked.through("text")
    first = table.timeline.write_instants()[0].requested_time
    for predicate in ("text LIKE 'a%'", "text > 'x'", "text = 'b' OR number = 7"):
        report = asked.through("text", "number").explain(predicate, first)
        assert all(not step.used for step in report.steps if "secondary" in step.kind)
        assert len(report.files) == SLICES
        old = table.to_arrow(predicate, ["uuid"], as_of=first)["uuid"].to_pylist()
        wanted = asked.scanned.to_arrow(predicate, ["uuid"], as_of=first)["uuid"].to_pylist()
        assert sorted(old) == sorted(wanted)
    newest = table.timeline.write_instants()[-1].requested_time
    assert len(table.explain("text = 'b'", newest).files) == 1
