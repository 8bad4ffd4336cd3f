"""The JSON form: a faithful round trip, and hostile objects refused."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidDefinition
from lakedex.expr.json_form import from_json, to_json
from lakedex.expr.sql import parse_predicate
from lakedex.expr.tree import Call, Column, IsNull, Literal, Not, Unknown

LITERALS = [
    Literal(None, pa.null()),
    Literal(None, pa.int32()),
    Literal(True, pa.bool_()),
    Literal(2**62, pa.int64()),
    Literal(-5),
    Literal(1.5, pa.float32()),
    Literal(-0.0, pa.float64()),
    Literal(math.inf, pa.float64()),
    Literal(-math.inf),
    Literal(Decimal("20.50"), pa.decimal128(4, 2)),
    Literal(Decimal(10) ** 40, pa.decimal256(41, 0)),
    Literal("é\0\U0001f600", pa.string()),
    Literal(b"\x00\xff", pa.binary()),
    Literal(date(2024, 2, 29), pa.date32()),
    Literal(datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=UTC), pa.timestamp("us", "UTC")),
    Literal(datetime(1, 1, 1), pa.timestamp("ms")),
]


@pytest.mark.parametrize("literal", LITERALS, ids=str)
def test_every_literal_survives(literal):
    again = from_json(json.loads(json.dumps(to_json(literal), allow_nan=False)))
    assert again == literal
    assert str(again.value) == str(literal.value)


def test_nan_survives():
    again = from_json(json.loads(json.dumps(to_json(Literal(math.nan, pa.float64())))))
    assert math.isnan(again.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 and not b in (1, null, 3) or c is not null",
        "a like 'x%' escape '/' and startswith(b, 'é') and st.z <=> 5.5",
        "upper(substr(a, 1, 2)) = 'AB' or cast(t as timestamp) > date '2024-01-01'",
        "a + interval 1 day > b",
        "X'00ff' = a or a is null or true",
    ],
)
def test_sql_to_tree_to_json_and_back_is_the_same_tree(text):
    tree = parse_predicate(text)
    assert from_json(json.loads(json.dumps(to_json(tree)))) == tree


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "child", "children", "is", "value", "type", "path", "op", "left"]
            ),
            inner
            | st.sampled_from(
                [
                    "column",
                    "literal",
                    "and",
                    "in",
                    "cast",
                    "int",
                    "float",
                    "decimal",
                    "compare",
                    "not",
                ]
            ),
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_gives_a_tree_or_a_definition_error(data):
    with suppress(InvalidDefinition):
        from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": []},
        {"kind": "literal", "is": "int", "value": True, "type": None},
        {"kind": "literal", "is": "int", "value": "9" * 5000, "type": None},
        {"kind": "literal", "is": "int", "value": 300, "type": "int8"},
        {"kind": "literal", "is": "float", "value": 10**400, "type": None},
        {"kind": "literal", "is": "decimal", "value": "1e999999999", "type": None},
        {"kind": "literal", "is": "decimal", "value": "sNaN", "type": None},
        {"kind": "literal", "is": "string", "value": "x", "type": "int32"},
        {"kind": "literal", "is": "string", "value": "\ud800", "type": None},
        {"kind": "literal", "is": "date", "value": "2023-02-30", "type": None},
        {"kind": "literal", "is": "binary", "value": "!", "type": None},
        {"kind": "literal", "is": "timestamp", "value": "2024-01-01", "type": "timestamp(us,UTC)"},
        {"kind": "literal", "is": "null", "value": None, "type": "decimal(99,1)"},
        {"kind": "literal", "is": "null", "value": None, "type": "decimal(us,1)"},
        {"kind": "column", "path": [], "type": None},
        {"kind": "column", "path": [1], "type": None},
        {"kind": "in", "child": {"kind": "column", "path": ["a"]}, "values": []},
        {"kind": "and", "children": []},
        {"kind": "compare", "op": "~", "left": {}, "right": {}},
    ],
    ids=lambda data: str(data)[:60],
)
def test_hostile_objects_are_refused(data):
    with pytest.raises(InvalidDefinition):
        from_json(data)


def test_deep_json_is_refused():
    data: dict = {"kind": "unknown", "reason": ""}
    for _ in range(5000):
        data = {"kind": "not", "child": data}
    with pytest.raises(InvalidDefinition, match="deeper"):
        from_json(data)


def test_deep_trees_are_refused_when_written():
    tree = Column(("a",))
    for _ in range(5000):
        tree = Not(tree)
    with pytest.raises(InvalidDefinition, match="deeper"):
        to_json(tree)


def test_columns_of_nested_types_are_written_without_type():
    column = Column(("s",), pa.struct([("x", pa.int32())]))
    assert from_json(to_json(IsNull(column))) == IsNull(Column(("s",)))


def test_call_and_unknown_keep_their_parts():
    tree = Call("upper", (Unknown("udf"),))
    assert from_json(to_json(tree)) == tree
