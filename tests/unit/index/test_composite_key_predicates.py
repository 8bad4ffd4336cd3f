"""What predicates ask of an index on several columns: no row that matches is left out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.expr.evaluate import evaluate
from lakedex.expr.tree import And, Column, Compare, Expr, In, IsNull, Literal, Op, Or, StartsWith
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import encoded
from lakedex.index.kinds.secondary.key_predicate import KeyPredicate, key_predicate, keys_from_start
from lakedex.index.metadata_table.keys import (
    placed_values_of_secondary,
    record_keys_of_secondary,
    secondary_keys,
    values_of_secondary,
)

COLUMNS = {"a": pa.string(), "n": pa.int64(), "b": pa.string()}
SCHEMA = pa.schema(list(COLUMNS.items()))
DEFINITION = IndexDefinition(
    "secondary_index_composite-i", "secondary_index", "identity", tuple(COLUMNS), {}, 2
)
TEXTS = st.text(st.sampled_from("\0 $%\\ab\U0001f600"), max_size=3)
VALUES = {"a": TEXTS, "n": st.integers(-12, 12), "b": TEXTS}
ROWS = st.lists(
    st.tuples(*(st.one_of(st.none(), values) for values in VALUES.values()), TEXTS),
    min_size=1,
    max_size=8,
)
RANGE = (Op.LT, Op.LTE, Op.GT, Op.GTE)


def leaves(name: str) -> st.SearchStrategy[Expr]:
    column = Column((name,), COLUMNS[name])
    literals = VALUES[name].map(lambda value: Literal(value, COLUMNS[name]))
    found = [
        st.just(IsNull(column)),
        literals.map(lambda each: Compare(Op.EQ, column, each)),
        st.lists(literals, min_size=1, max_size=3).map(lambda each: In(column, tuple(each))),
        st.builds(lambda op, each: Compare(op, column, each), st.sampled_from(RANGE), literals),
    ]
    if COLUMNS[name] == pa.string():
        found.append(TEXTS.map(lambda prefix: StartsWith(column, prefix)))
    return st.one_of(found)


LEAF = st.one_of([leaves(name) for name in COLUMNS])
BRANCH = st.lists(LEAF, min_size=2, max_size=4).map(lambda each: And(tuple(each)))
PREDICATES = st.one_of(
    LEAF, BRANCH, st.lists(BRANCH, min_size=2, max_size=3).map(lambda each: Or(tuple(each)))
)


def found_in(asked: KeyPredicate, keys: pa.Array) -> pa.Table:
    ranges = asked.ranges
    if asked.starts is not None:
        ranges = [keys_from_start(start) for start in asked.starts]
    assert ranges is not None
    is_in = [
        any(first <= key and (last is None or key < last) for first, last in ranges)
        for key in (text.encode() for text in keys.to_pylist())
    ]
    return pa.table({"key": keys}).filter(pa.array(is_in, pa.bool_()))


@given(ROWS, PREDICATES)
def test_the_entries_of_all_matching_rows_are_asked_for(rows, predicate):
    # cases B13, B14, B15
    *values, record_keys = zip(*rows, strict=True)
    arrays = [pa.array(each, kind) for each, kind in zip(values, COLUMNS.values(), strict=True)]
    batch = pa.record_batch(arrays, schema=SCHEMA)
    texts = [encoded(each) for each in arrays]
    keys = secondary_keys(texts, pa.chunked_array([record_keys], pa.string()))
    asked = key_predicate(DEFINITION, predicate, SCHEMA)
    if isinstance(asked, str):
        assert "limits the values of a" in asked
        return
    wanted = keys.filter(evaluate(predicate, batch, time_zone="UTC")).to_pylist()
    found = asked.matching(found_in(asked, keys), predicate, "UTC")["key"].to_pylist()
    assert set(wanted) <= set(found)
    if asked.ranges is not None:
        # Conditions that are not looked up are held against the values of the entries.
        assert sorted(found) == sorted(wanted)


@given(ROWS)
def test_keys_are_taken_apart_as_they_were_put_together(rows):
    # case B14: escaping in secondary keys
    *values, record_keys = zip(*rows, strict=True)
    kinds = COLUMNS.values()
    texts = [encoded(pa.array(each, kind)) for each, kind in zip(values, kinds, strict=True)]
    keys = secondary_keys(texts, pa.chunked_array([record_keys], pa.string()))
    assert record_keys_of_secondary(keys, 3).to_pylist() == list(record_keys)
    assert [each.to_pylist() for each in values_of_secondary(keys, 3)] == [
        each.to_pylist() for each in texts
    ]
    placed = placed_values_of_secondary(keys, 3).to_pylist()
    assert all(key.startswith(start) for key, start in zip(keys.to_pylist(), placed, strict=True))


def test_a_column_whose_texts_are_not_sure_ends_what_is_looked_up():
    schema = pa.schema([("a", pa.string()), ("n", pa.float64()), ("b", pa.string())])
    a, n = (
        Compare(Op.EQ, Column((name,), kind), Literal(value, kind))
        for name, kind, value in (("a", pa.string(), "x"), ("n", pa.float64(), 1.5))
    )
    asked = key_predicate(DEFINITION, And((a, n)), schema)
    assert isinstance(asked, KeyPredicate)
    assert asked.ranges == [(b"x$", b"x%")]


@pytest.mark.parametrize("count", [101, 10_001])
def test_too_many_values_are_not_looked_up(count):
    many = In(
        Column(("a",), pa.string()), tuple(Literal(f"{n:05}", pa.string()) for n in range(count))
    )
    numbers = In(Column(("n",), pa.int64()), tuple(Literal(n, pa.int64()) for n in range(100)))
    asked = key_predicate(DEFINITION, And((many, numbers)), SCHEMA)
    assert isinstance(asked, str)
    assert "too many" in asked
