"""What the encoder takes and what it refuses, by column name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakedex.errors import InvalidInput
from lakedex.format.avro import decode_records, encode_records
from lakedex.schema import parse_avro_record


def schema_of(**fields: Any):
    tree = [{"name": name, "type": node} for name, node in fields.items()]
    return parse_avro_record(json.dumps({"type": "record", "name": "r", "fields": tree}))


def round_trip(schema, batch):
    encoded = encode_records(schema, batch)
    starts, ends = encoded.offsets[:-1], encoded.offsets[1:]
    return decode_records(schema, encoded.data, starts, ends, path="x")


def test_null_in_a_column_without_null_branch_is_refused_by_name_and_row():
    batch = pa.record_batch({"a": pa.array([1, None])})
    with pytest.raises(InvalidInput, match="column a must not be null; row 1 is"):
        encode_records(schema_of(a="long"), batch)


def test_null_deep_inside_is_refused_by_its_path():
    inner = {"type": "record", "name": "w", "fields": [{"name": "v", "type": "int"}]}
    batch = pa.record_batch({"s": pa.array([{"v": 1}, {"v": None}, None])})
    with pytest.raises(InvalidInput, match=r"column s\.v"):
        encode_records(schema_of(s=["null", inner]), batch)


def test_a_null_struct_may_hold_null_fields_that_are_not_nullable():
    inner = {"type": "record", "name": "w", "fields": [{"name": "v", "type": "int"}]}
    schema = schema_of(s=["null", inner])
    batch = pa.record_batch({"s": pa.array([None, {"v": 5}])})
    assert round_trip(schema, batch).to_pylist() == [{"s": None}, {"s": {"v": 5}}]


def test_a_null_list_with_items_underneath_writes_no_items():
    values = pa.array([1, 2, 3])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), values, mask=pa.array([True, False]))
    schema = schema_of(a=["null", {"type": "array", "items": "long"}])
    found = round_trip(schema, pa.record_batch({"a": lists}))
    assert found.to_pylist() == [{"a": None}, {"a": [3]}]


def test_an_array_with_null_elements_is_written_and_read_back():
    # case B68: a null element is a value like any other
    schema = schema_of(a=["null", {"type": "array", "items": ["null", "int"]}])
    batch = pa.record_batch({"a": pa.array([[1, None], [None], []], pa.list_(pa.int32()))})
    assert round_trip(schema, batch).to_pylist() == batch.to_pylist()


def test_missing_columns_take_null_or_their_plain_default():
    tree = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "string"]},
            {"name": "c", "type": "int", "default": 7},
            {"name": "d", "type": "boolean", "default": False},
        ],
    }
    schema = parse_avro_record(json.dumps(tree))
    found = round_trip(schema, pa.record_batch({"a": pa.array([1], pa.int32())}))
    assert found.to_pylist() == [{"a": 1, "b": None, "c": 7, "d": False}]


@pytest.mark.parametrize(
    ("node", "array", "name"),
    [
        ("int", pa.array([2**40]), "a"),
        ("int", pa.array(["x"]), "a"),
        ({"type": "array", "items": "int"}, pa.array([1]), "a"),
        ({"type": "map", "values": "int"}, pa.array([[1]]), "a"),
        (["null", "int", "string"], pa.array([1]), "a"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["B"]), "a"),
        ({"type": "record", "name": "w", "fields": []}, pa.array([1]), "a"),
        ("null", pa.array([1]), "a"),
        (["null", "int", "string"], pa.array([{"member0": 1, "member1": "x"}]), "a"),
        (["int", "string"], pa.array([{"member0": None, "member1": None}], pa.struct(
            [("member0", pa.int32()), ("member1", pa.string())])), "a"),
        (["int", "string"], pa.nulls(1), "a"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused_by_column(node, array, name):
    with pytest.raises(InvalidInput, match=f"column {name}"):
        encode_records(schema_of(a=node), pa.record_batch({"a": array}))


def test_columns_unknown_to_the_schema_are_refused():
    with pytest.raises(InvalidInput, match="no field b"):
        encode_records(schema_of(a="int"), pa.record_batch({"a": [1], "b": [1]}))
    with pytest.raises(InvalidInput, match="missing"):
        encode_records(schema_of(a="int"), pa.record_batch({}))


def test_other_arrow_layouts_of_the_same_values_are_taken():
    schema = schema_of(s=["null", "string"], l={"type": "array", "items": "long"}, i="int")
    batch = pa.record_batch(
        {
            "s": pa.array(["x", None, "x"]).dictionary_encode(),
            "l": pa.array([[1, 2], [], [3]], pa.large_list(pa.int32())),
            "i": pa.array([1, 2, 3], pa.int64()),
        }
    )
    assert round_trip(schema, batch).to_pylist() == batch.to_pylist()


def test_no_rows_give_no_bytes():
    schema = schema_of(a={"type": "array", "items": "long"}, s=["null", "string"])
    batch = pa.record_batch(
        {"a": pa.array([], pa.list_(pa.int64())), "s": pa.array([], pa.string())}
    )
    encoded = encode_records(schema, batch)
    assert encoded.offsets.tolist() == [0]
    assert len(encoded.data) == 0
    empty = decode_records(schema, encoded.data, np.array([]), np.array([]), path="x")
    assert empty.num_rows == 0
    assert empty.schema.names == ["a", "s"]
