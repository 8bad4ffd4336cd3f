"""Random nested expressions over random rows: files that an index rules out hold no row."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind, bind_predicate
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.evaluate import evaluate, filter_table
from lakedex.expr.explicit_casts import with_casts
from lakedex.expr.may_match import expression_key, may_match
from lakedex.expr.normal_form import normalise
from lakedex.expr.sql import parse_expression
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.column_stats.collect import ColumnRanges
from lakedex.index.kinds.expression.definition import own_expression, own_options
from lakedex.index.kinds.expression.predicates import with_nulls_of_whole

UTC = dt.UTC
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "+05:30")
POOLS: dict[str, tuple[pa.DataType, list[object]]] = {
    "s": (pa.string(), ["", "a", " Ab-1", "b-2 ", "straße", "é", "\U0001f600", "2024-02-29", "x"]),
    "n": (pa.int32(), [-(2**31), -3, 0, 1, 7, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -1, 0, 5, 86_400, 253_402_300_800, 2**63 - 1]),
    "d": (pa.float64(), [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, 1.25, -2.5, 1e300]),
    "c": (pa.decimal128(10, 2), [Decimal(each) for each in ("-1.50", "0.00", "0.01", "99.99")]),
    "t": (pa.date32(), [dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "z": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1883, 11, 18, 12, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            dt.datetime(2024, 3, 31, 0, 59, 59, tzinfo=UTC),
            dt.datetime(2024, 3, 31, 1, tzinfo=UTC),
            dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
            dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
            dt.datetime(9999, 12, 31, 12, tzinfo=UTC),
        ],
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in POOLS.items()])
TEXT = st.deferred(
    lambda: st.one_of(
        st.just("s"),
        st.builds("upper({})".format, TEXT),
        st.builds("trim({})".format, TEXT),
        st.builds("substring({}, {}, 2)".format, TEXT, st.sampled_from((-2, 0, 1, 2))),
        st.builds("concat({}, '-', {})".format, TEXT, TEXT),
        st.builds("concat({}, {})".format, TEXT, st.sampled_from(("n", "c", "t"))),
        st.builds("coalesce({}, 'none')".format, TEXT),
        st.builds("regexp_replace({}, '[-a]+', '.')".format, TEXT),
        st.builds("regexp_extract({}, '([a-z])-?([0-9])', 2)".format, TEXT),
        st.builds("split({}, '-')[0]".format, TEXT),
        st.builds("date_format({}, '{}')".format, TIME, st.sampled_from(FORMATS)),
        st.builds("from_unixtime(l, '{}')".format, st.sampled_from(FORMATS)),
    )
)
FORMATS = ("yyyy-MM-dd", "MM/dd/yyyy", "HH:mm", "yyyy", "EEE d", "uuuuMMdd")
TIME = st.sampled_from(("z", "t", "date_add(z, 1)", "date_sub(t, 40)", "to_date(s)"))
NUMBER = st.deferred(
    lambda: st.one_of(
        st.sampled_from(("n", "l", "d", "c")),
        st.builds("length({})".format, TEXT),
        st.builds("{}({})".format, st.sampled_from(("year", "month", "day", "hour")), TIME),
        st.builds("abs({})".format, NUMBER),
        st.builds("round({})".format, NUMBER),
        st.builds("floor({})".format, NUMBER),
        st.builds(
            "({} {} {})".format, NUMBER, st.sampled_from(("+", "-", "*", "/", "%", "div")), NUMBER
        ),
        st.builds("({} * 2)".format, NUMBER),
    )
)
ROWS = st.lists(
    st.tuples(*(st.one_of(st.none(), st.sampled_from(pool)) for _, pool in POOLS.values())),
    min_size=1,
    max_size=12,
)
TAILS = ("= {}", "<=> {}", "< {}", ">= {}", "in ({}, null)", "is null", "is not null", "<> {}")


@st.composite
def questions(draw) -> tuple[str, str]:
    """An expression and a predicate on it."""
    is_text = draw(st.booleans())
    text = draw(TEXT if is_text else NUMBER)
    constants = ("'a'", "''", "'2024-03'", "'B'") if is_text else ("0", "1", "2024", "-2.5", "7")
    tail = draw(st.sampled_from((*TAILS, "like 'A%'") if is_text else TAILS))
    predicate = f"{text} {tail}".format(draw(st.sampled_from(constants)))
    return text, f"not ({predicate})" if draw(st.booleans()) else predicate


@given(question=questions(), rows=ROWS, zone=st.sampled_from(ZONES), split=st.integers(1, 4))
def test_an_index_never_loses_a_row(question, rows, zone, split):
    # cases B6, B7, B11
    text, condition = question
    columns = zip(zip(*rows, strict=True), SCHEMA.types, strict=True)
    arrays = [pa.array(values, kind) for values, kind in columns]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    try:
        expression = with_casts(bind(parse_expression(text), SCHEMA, time_zone=zone))
        predicate = normalise(bind_predicate(parse_expression(condition), SCHEMA, time_zone=zone))
    except LakedexError:
        return
    if text in SCHEMA.names:
        return
    # What the table keeps is what is read back.
    kept = own_options(text, expression)
    stored = IndexDefinition("expr_index_own-i", "column_stats", text, ("s",), kept)
    assert expression_key(own_expression(stored, SCHEMA, zone)) == expression_key(expression)
    asked = with_nulls_of_whole(predicate, expression)
    for start in range(0, len(table), split):
        part = table.slice(start, split)
        try:
            matching = filter_table(part, predicate, time_zone=zone).num_rows
            values = evaluate(expression, part, time_zone=zone, certain=True)
        except LakedexError:
            continue  # no entry, or nothing to compare with
        told = may_match(asked, {expression: _bounds(values)}, 1, time_zone=zone)
        assert told[0] or not matching, (text, condition, zone, part.to_pylist())


def _bounds(values: pa.ChunkedArray) -> ColumnBounds:
    """The bounds that a file with these values has an entry of."""
    kind = values.type
    ranges = ColumnRanges(["v"], pa.schema([("v", kind)]))
    ranges.add("", "f", pa.table({"v": values}), {"v": (1, 0)})
    found = ranges.tables()["v"]
    return ColumnBounds(
        kind,
        found["minimum"].combine_chunks().cast(kind),
        found["maximum"].combine_chunks().cast(kind),
        found["null_count"].to_numpy(),
        found["value_count"].to_numpy(),
        np.ones(1, np.bool_),
    )
