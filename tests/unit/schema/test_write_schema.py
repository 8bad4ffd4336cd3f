"""Rows on their way into a table: which schemas go together, and which values fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidInput
from lakedex.schema import arrow_schema, avro_schema
from lakedex.schema.conform import conform
from lakedex.schema.reconcile import reconcile
from lakedex.schema.storable import storable_schema

UTC, NAIVE = pa.timestamp("us", "UTC"), pa.timestamp("us")


def one(dtype: pa.DataType, **more: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.string()), ("c", dtype), *more.items()])


STORED = [
    (pa.bool_(), pa.bool_()),
    (pa.int8(), pa.int32()),
    (pa.int16(), pa.int32()),
    (pa.uint16(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.int64(), pa.int64()),
    (pa.float16(), pa.float32()),
    (pa.float64(), pa.float64()),
    (pa.decimal256(38, 2), pa.decimal128(38, 2)),
    (pa.large_string(), pa.string()),
    (pa.string_view(), pa.string()),
    (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
    (pa.large_binary(), pa.binary()),
    (pa.binary(4), pa.binary()),
    (pa.date64(), pa.date32()),
    (pa.timestamp("ns", "Europe/Berlin"), UTC),
    (pa.timestamp("s"), NAIVE),
    (pa.large_list(pa.int8()), pa.list_(pa.field("element", pa.int32()))),
    (pa.list_(pa.string_view(), 2), pa.list_(pa.field("element", pa.string()))),
    (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int32())])),
]


@pytest.mark.parametrize(("dtype", "stored"), STORED)
def test_every_type_has_one_stored_form_that_avro_can_say(dtype, stored):
    found = storable_schema(one(dtype)).field("c").type
    assert found == stored
    assert arrow_schema(avro_schema(one(found), "r", "n")).field("c").type == found
    assert reconcile(one(found), one(dtype)) == one(found)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (pa.null(), "c: the type void"),
        (pa.duration("us"), "c: the interval type"),
        (pa.month_day_nano_interval(), "c: the interval type"),
        (pa.uint64(), "c: the type uint64"),
        (pa.time64("us"), "c: the type time64"),
        (pa.decimal256(39, 0), "c: decimal256"),
        (pa.decimal128(5, -1), "c: decimal128"),
        (pa.map_(pa.int32(), pa.int32()), "c: a map with keys of type int32"),
        (pa.struct([]), "c: a struct without fields"),
        (pa.struct([("a", pa.list_(pa.null()))]), "c.a.element: the type void"),
        (pa.struct([("a b", pa.int8())]), "'a b' in column c"),
        (pa.struct([("a", pa.int8()), ("A", pa.int8())]), "column c has the column a and A twice"),
    ],
)
def test_types_without_a_place_are_refused_by_name(dtype, words):
    with pytest.raises(InvalidInput, match=words):
        storable_schema(one(dtype))


WIDENED = [
    (pa.int32(), pa.int64(), pa.int64()),
    (pa.int64(), pa.int32(), pa.int64()),
    (pa.int64(), pa.float32(), pa.float64()),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.float32(), pa.int64(), pa.float32()),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.float64(), pa.int64(), pa.float64()),
    (pa.decimal128(10, 2), pa.decimal128(6, 4), pa.decimal128(12, 4)),
    (pa.decimal128(10, 2), pa.int64(), pa.decimal128(10, 2)),
    (pa.string(), pa.int64(), pa.string()),
    (pa.string(), pa.date32(), pa.string()),
    (pa.binary(), pa.string(), pa.binary()),
    (pa.int32(), pa.null(), pa.int32()),
    (pa.list_(pa.int64()), pa.list_(pa.null()), pa.list_(pa.int64())),
    (
        pa.struct([("a", pa.map_(pa.string(), pa.int32()))]),
        pa.struct([("a", pa.map_(pa.string(), pa.null()))]),
        pa.struct([("a", pa.map_(pa.string(), pa.int32()))]),
    ),
    (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
]


@pytest.mark.parametrize(("stored", "incoming", "expected"), WIDENED)
def test_columns_widen_but_never_narrow(stored, incoming, expected):
    assert reconcile(one(stored), one(incoming)).field("c").type == expected


@pytest.mark.parametrize(
    ("stored", "incoming"),
    [
        (pa.int64(), pa.string()),
        (pa.int64(), pa.bool_()),
        (pa.bool_(), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.string(), pa.bool_()),
        (pa.date32(), UTC),
        (UTC, NAIVE),
        (pa.float64(), pa.decimal128(5, 2)),
        (pa.decimal128(38, 0), pa.decimal128(38, 38)),
        (pa.list_(pa.int32()), pa.int32()),
        (pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_types_that_do_not_go_together_are_refused_with_both(stored, incoming):
    with pytest.raises(InvalidInput, match=r"column c is .* in the table and .* in the input"):
        reconcile(one(stored), one(incoming))


def test_a_double_for_a_decimal_column_is_refused_with_the_cast_to_write():
    stored, incoming = one(pa.decimal128(12, 2)), one(pa.float64())
    with pytest.raises(
        InvalidInput, match=r"DECIMAL\(12,2\).*DOUBLE.*\.cast\(\"DECIMAL\(12,2\)\"\)"
    ):
        reconcile(stored, incoming)
    with pytest.raises(InvalidInput, match=r"cast\(c AS DECIMAL\(12,2\)\) in SQL"):
        conform(pa.table({"c": [1.5]}), stored)


def test_new_columns_and_fields_are_appended_nullable():
    table = one(pa.struct([pa.field("a", pa.int32(), nullable=False)]))
    incoming = pa.schema(
        [
            pa.field("new", pa.int8(), nullable=False),
            ("c", pa.struct([("b", pa.large_string()), ("a", pa.int64())])),
            ("id", pa.string()),
            ("_hoodie_commit_time", pa.string()),
        ]
    )
    merged = reconcile(table, incoming)
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])
    assert merged == pa.schema([("id", pa.string()), ("c", inner), ("new", pa.int32())])


@pytest.mark.parametrize(
    ("incoming", "words"),
    [
        (pa.schema([("ID", pa.string())]), "ID of the input differs only by case from id"),
        (pa.schema([("id", pa.string()), ("id", pa.string())]), "the column id twice"),
        (pa.schema([("c", pa.int32())]), "column id is missing"),
        (pa.schema([("id", pa.string()), ("x", pa.null())]), "x: the type void"),
        (pa.schema([("id", pa.string()), ("_hoodie_y", pa.int8())]), "_hoodie_y' is reserved"),
        (pa.schema([("id", pa.string()), ("a-b", pa.int8())]), "'a-b'"),
    ],
)
def test_bad_inputs_are_refused_by_name(incoming, words):
    table = pa.schema([pa.field("id", pa.string(), nullable=False), ("c", pa.int32())])
    with pytest.raises(InvalidInput, match=words):
        reconcile(table, incoming)


def test_the_text_of_keys_cannot_change():
    table = one(pa.int32())
    assert reconcile(table, one(pa.int64()), key_columns=["c"]) == one(pa.int64())
    with pytest.raises(InvalidInput, match="column c is part of keys"):
        reconcile(table, one(pa.float64()), key_columns=["id", "c"])


@pytest.mark.parametrize(
    ("values", "dtype", "target", "expected"),
    [
        ([1, None], pa.uint8(), pa.int32(), [1, None]),
        ([1.1], pa.float32(), pa.float64(), [1.1]),
        ([7], pa.int64(), pa.decimal128(10, 2), [Decimal("7.00")]),
        ([1e10, 1.5], pa.float64(), pa.string(), ["1.0E10", "1.5"]),
        ([dt.date(2024, 1, 2)], pa.date32(), pa.string(), ["2024-01-02"]),
        ([10**9], pa.timestamp("ns"), NAIVE, [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        ([[1, None], None, []], pa.large_list(pa.int8()), pa.list_(pa.int64()), None),
        ([{"a": 1}, None], pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int64())]), None),
        (
            [[("k", None)], None],
            pa.map_(pa.string(), pa.int8()),
            pa.map_(pa.string(), pa.int32()),
            None,
        ),
        (["a", None], pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", None]),
        ([None], pa.null(), pa.list_(pa.int32()), [None]),
    ],
)
def test_values_keep_their_meaning(values, dtype, target, expected):
    # case B68: array with a null element
    rows = conform(pa.table({"c": pa.array(values, dtype)}), pa.schema([("c", target)]))
    rows.validate(full=True)
    assert rows["c"].to_pylist() == (values if expected is None else expected)


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([1 << 31]), pa.int32()),
        (pa.array([(1 << 53) + 1]), pa.float64()),
        (pa.array([(1 << 24) + 1], pa.int32()), pa.float32()),
        (pa.array([1.5]), pa.int32()),
        (pa.array([1.5]), pa.float32()),
        (pa.array([10**9]), pa.decimal128(10, 2)),
        (pa.array([Decimal("1.25")]), pa.decimal128(10, 1)),
        (pa.array([1], pa.timestamp("ns")), NAIVE),
        (pa.array([1], pa.date64()), pa.date32()),
        (pa.array([1 << 62], pa.timestamp("s")), NAIVE),
        (pa.array([0], NAIVE), UTC),
        (pa.array(["1"]), pa.int32()),
        (pa.array([[1 << 31]]), pa.list_(pa.int32())),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(array, target):
    with pytest.raises(InvalidInput, match="column c"):
        conform(pa.table({"c": array}), pa.schema([("c", target)]))


REQUIRED = pa.struct([pa.field("a", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    ("rows", "field", "words"),
    [
        ({"c": [1, None]}, pa.field("c", pa.int64(), nullable=False), "column c may not be null"),
        ({"d": [1]}, pa.field("c", pa.int64(), nullable=False), "column c is missing"),
        ({"c": [{"a": None}]}, pa.field("c", REQUIRED), "column c.a may not be null"),
        ({"c": [{"b": 1}]}, pa.field("c", REQUIRED), "column c.a is missing"),
        (
            {"c": [[1, None]]},
            pa.field("c", pa.list_(pa.field("element", pa.int64(), nullable=False))),
            "column c.element may not be null",
        ),
    ],
)
def test_a_null_where_none_may_be_is_refused_by_name(rows, field, words):
    with pytest.raises(InvalidInput, match=words):
        conform(pa.table(rows), pa.schema([field]))


def test_what_lies_under_a_null_is_no_value():
    nothing = pa.array([True, False])
    struct = pa.StructArray.from_arrays([pa.array([1 << 40, 1])], ["a"], mask=nothing)
    lists = pa.ListArray.from_arrays([0, 1, 2], pa.array([1 << 40, 1]), mask=nothing)
    pairs = pa.array(["k", "k"]), pa.array([1 << 40, 1])
    maps = pa.MapArray.from_arrays([0, 1, 2], *pairs, mask=nothing)
    target = pa.schema(
        [("s", REQUIRED), ("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))]
    )
    rows = conform(pa.table({"s": struct, "l": lists, "m": maps}), target)
    rows.validate(full=True)
    assert rows.to_pylist() == [
        {"s": None, "l": None, "m": None},
        {"s": {"a": 1}, "l": [1], "m": [("k", 1)]},
    ]


INNER = st.none() | st.integers(-100, 100)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": INNER,
            "l": st.none() | st.lists(INNER, max_size=3),
            "s": st.none()
            | st.fixed_dictionaries({"x": INNER, "t": st.none() | st.text(max_size=3)}),
            "m": st.none()
            | st.dictionaries(st.text(max_size=2), INNER, max_size=2).map(
                lambda found: list(found.items())
            ),
        }
    )
)
NARROW = pa.schema(
    [
        ("n", pa.int8()),
        ("l", pa.large_list(pa.int16())),
        ("s", pa.struct([("x", pa.int8()), ("t", pa.string_view())])),
        ("m", pa.map_(pa.large_string(), pa.int8())),
    ]
)
WIDE = pa.schema(
    [
        ("m", pa.map_(pa.string(), pa.float64())),
        ("s", pa.struct([("t", pa.string()), ("new", pa.int32()), ("x", pa.int64())])),
        ("l", pa.list_(pa.field("element", pa.int64()))),
        ("n", pa.decimal128(12, 3)),
    ]
)


@given(ROWS, st.integers(0, 3), st.integers(1, 3))
def test_nested_rows_follow_the_model(rows, start, chunks):
    table = pa.Table.from_pylist(rows, schema=NARROW)
    pieces = [piece for piece in np.array_split(np.arange(len(rows)), chunks) if len(piece)]
    table = pa.concat_tables(
        [NARROW.empty_table(), *(table.slice(piece[0], len(piece)) for piece in pieces)]
    ).slice(start)
    found = conform(table, WIDE)
    found.validate(full=True)
    assert found.to_pylist() == [
        {
            "m": row["m"],
            "s": row["s"] and {"t": row["s"]["t"], "new": None, "x": row["s"]["x"]},
            "l": row["l"],
            "n": row["n"],
        }
        for row in rows[start:]
    ]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_whole_numbers_fit_exactly_or_are_refused(values):
    for target in (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(20, 2)):
        table, schema = pa.table({"c": pa.array(values, pa.int64())}), pa.schema([("c", target)])
        try:
            found = conform(table, schema)["c"].to_pylist()
        except InvalidInput:
            continue
        assert found == values


def test_columns_that_are_not_wanted_are_left_out():
    rows = pa.table({"a": [1], "b": [2]})
    assert conform(rows, pa.schema([("b", pa.int64())])).to_pydict() == {"b": [2]}
