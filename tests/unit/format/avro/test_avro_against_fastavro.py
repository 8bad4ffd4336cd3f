"""Our codec against fastavro: the same bytes for the same values, whatever the schema."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
from itertools import pairwise
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.format.avro import decode_records, encode_records
from lakedex.format.avro.distinct import decode_few
from lakedex.schema import parse_avro_record

UTC = dt.UTC
PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]


def primitive_values(kind: str) -> st.SearchStrategy[Any]:
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=40),
        "string": st.text(max_size=20),
    }[kind]


class Names:
    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"n{self.count}"


def leaf(draw, names: Names) -> tuple[Any, st.SearchStrategy[Any]]:
    kind = draw(
        st.sampled_from([*PRIMITIVES, "date", "micros", "dec_bytes", "dec_fixed", "fixed", "enum"])
    )
    if kind == "date":
        schema = {"type": "int", "logicalType": "date"}
        return schema, st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
    if kind == "micros":
        schema = {"type": "long", "logicalType": "timestamp-micros"}
        low, high = dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)
        return schema, st.datetimes(low, high, timezones=st.just(UTC))
    if kind in ("dec_bytes", "dec_fixed"):
        digits = draw(st.integers(1, 38))
        scale = draw(st.integers(0, digits))
        base = {"logicalType": "decimal", "precision": digits, "scale": scale}
        top = 10**digits - 1
        context = decimal.Context(prec=60)
        values = st.integers(-top, top).map(
            lambda n: decimal.Decimal(n).scaleb(-scale, context=context)
        )
        if kind == "dec_bytes":
            return {"type": "bytes", **base}, values
        size = (top.bit_length() + 8) // 8 + draw(st.integers(0, 4))
        return {"type": "fixed", "name": names.new(), "size": size, **base}, values
    if kind == "fixed":
        size = draw(st.integers(1, 20))
        return {"type": "fixed", "name": names.new(), "size": size}, st.binary(
            min_size=size, max_size=size
        )
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": names.new(), "symbols": symbols}, st.sampled_from(symbols)
    return kind, primitive_values(kind)


def branch(draw, names: Names, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema and its values, not a union."""
    kinds = ["leaf"] * 3 + (["array", "map", "record"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "array":
        items, values = any_type(draw, names, depth - 1)
        return {"type": "array", "items": items}, st.lists(values, max_size=4)
    if kind == "map":
        items, values = any_type(draw, names, depth - 1)
        return {"type": "map", "values": items}, st.dictionaries(
            st.text(max_size=5), values, max_size=3
        )
    if kind == "record":
        return record(draw, names, depth - 1)
    return leaf(draw, names)


def tag(kind: str) -> st.SearchStrategy[Any]:
    return primitive_values(kind).map(lambda value: (kind, value))


def any_type(draw, names: Names, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["plain", "nullable", "nullable", "last_null", "many"]))
    if kind == "many":
        kinds = draw(
            st.lists(st.sampled_from(["null", *PRIMITIVES]), min_size=1, max_size=4, unique=True)
        )
        tagged = len(set(kinds) - {"null"}) > 1
        options = [tag(k) if tagged and k != "null" else primitive_values(k) for k in kinds]
        return kinds, st.one_of(options)
    schema, values = branch(draw, names, depth)
    if kind == "plain":
        return schema, values
    options = ["null", schema] if kind == "nullable" else [schema, "null"]
    return options, st.none() | values


def record(draw, names: Names, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    count = draw(st.integers(0, 4))
    fields, values = [], {}
    for number in range(count):
        schema, inner = any_type(draw, names, depth)
        fields.append({"name": f"f{number}", "type": schema})
        values[f"f{number}"] = inner
    schema = {"type": "record", "name": names.new(), "fields": fields}
    return schema, st.fixed_dictionaries(values)


@st.composite
def tables(draw) -> tuple[Any, list[Any]]:
    schema, values = record(draw, Names(), 3)
    rows = draw(st.lists(values, min_size=1, max_size=12))
    # Few records are walked one by one, many in lockstep: both ways must agree.
    return schema, rows * draw(st.sampled_from([1, 30]))


def written(schema: Any, rows: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    stream, offsets = io.BytesIO(), [0]
    for row in rows:
        fastavro.schemaless_writer(stream, parsed, row)
        offsets.append(stream.tell())
    return np.frombuffer(stream.getvalue(), np.uint8), np.array(offsets, np.int64)


def plain(schema: Any, value: Any) -> Any:
    """A value that was read through Arrow in the shape that fastavro takes."""
    if isinstance(schema, list):
        members = [item for item in schema if item != "null"]
        if value is None or not members:
            return None
        if len(members) == 1:
            return plain(members[0], value)
        set_members = [(m, value[f"member{n}"]) for n, m in enumerate(members)]
        set_members = [(m, v) for m, v in set_members if v is not None]
        assert len(set_members) == 1
        return set_members[0]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {f["name"]: plain(f["type"], value[f["name"]]) for f in schema["fields"]}
    if kind == "array":
        return [plain(schema["items"], item) for item in value]
    if kind == "map":
        return {key: plain(schema["values"], item) for key, item in value}
    return value


@given(tables())
@settings(max_examples=80)
def test_any_schema_decodes_as_fastavro_wrote_it_and_encodes_to_the_same_bytes(table):
    schema, rows = table
    data, offsets = written(schema, rows)
    parsed = parse_avro_record(json.dumps(schema))
    batch = decode_records(parsed, data, offsets[:-1], offsets[1:], path="x")
    batch.validate(full=True)
    assert batch.num_rows == len(rows)
    found = [plain(schema, row) for row in batch.to_pylist()]
    assert found == rows
    if batch.num_columns:
        encoded = encode_records(parsed, batch)
        assert encoded.offsets.tolist() == offsets.tolist()
        assert encoded.data.tobytes() == data.tobytes()


@given(tables(), st.data())
def test_a_choice_of_columns_gives_the_same_as_all_columns(table, choice):
    schema, rows = table
    data, offsets = written(schema, rows)
    parsed = parse_avro_record(json.dumps(schema))
    names = [item.name for item in parsed.fields]
    wanted = choice.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    whole = decode_records(parsed, data, offsets[:-1], offsets[1:], path="x")
    part = decode_records(parsed, data, offsets[:-1], offsets[1:], columns=wanted, path="x")
    assert part.num_rows == len(rows)
    assert part.schema.names == [name for name in names if name in wanted]
    for name in part.schema.names:
        assert part.column(name).equals(whole.column(name))
    leading = decode_records(
        parsed, data, offsets[:-1], offsets[1:], columns=wanted, leading=True, path="x"
    )
    assert leading.equals(part)


def split(data: np.ndarray, offsets: np.ndarray) -> list[bytes]:
    bounds = pairwise(offsets)
    return [data[start:end].tobytes() for start, end in bounds]


@given(tables(), st.data())
def test_a_few_records_one_by_one_are_the_same_as_in_lockstep(table, choice):
    schema, rows = table
    data, offsets = written(schema, rows)
    parsed = parse_avro_record(json.dumps(schema))
    names = [item.name for item in parsed.fields]
    wanted = choice.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    few = decode_few(parsed, split(data, offsets), wanted)
    if few is not None:
        whole = decode_records(parsed, data, offsets[:-1], offsets[1:], columns=wanted, path="x")
        assert few.equals(whole, check_metadata=True)


PLAIN = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "b", "type": ["null", "boolean"]},
        {"name": "i", "type": "int"},
        {"name": "u", "type": ["null", "long", "string", "bytes"]},
        {
            "name": "r",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "in",
                    "fields": [{"name": "d", "type": "double"}, {"name": "s", "type": "string"}],
                },
            ],
        },
    ],
}


@given(st.lists(st.binary(max_size=24), min_size=1, max_size=3), st.booleans())
def test_bytes_that_a_few_records_are_read_from_are_right_to_the_lockstep_too(tail, is_near):
    row = {"b": True, "i": -3, "u": "text", "r": {"d": 1.5, "s": "é"}}
    start = written(PLAIN, [row])[0].tobytes()
    parsed = parse_avro_record(json.dumps(PLAIN))
    values = [start[: len(start) - len(end)] + end for end in tail] if is_near else tail
    few = decode_few(parsed, values, None)
    assert decode_few(parsed, [start], None).to_pylist()[0]["r"] == row["r"]
    if few is None:
        return
    offsets = np.cumsum([0, *map(len, values)])
    data = np.frombuffer(b"".join(values), np.uint8)
    assert few.equals(decode_records(parsed, data, offsets[:-1], offsets[1:], path="x"))


@given(tables())
def test_a_slice_of_a_batch_encodes_like_the_rows_alone(table):
    schema, rows = table
    data, offsets = written(schema, rows)
    parsed = parse_avro_record(json.dumps(schema))
    batch = decode_records(parsed, data, offsets[:-1], offsets[1:], path="x")
    if not batch.num_columns:
        return
    middle = len(rows) // 2
    encoded = encode_records(parsed, batch.slice(middle))
    assert encoded.data.tobytes() == data[offsets[middle] :].tobytes()
    as_table = pa.Table.from_batches([batch.slice(0, middle), batch.slice(middle)])
    assert encode_records(parsed, as_table).data.tobytes() == data.tobytes()


ITEMS = {
    "long": ("long", lambda n: n * 12345 - 7),
    "string": ("string", lambda n: "x" * (n % 90)),
    "delete record": (
        {
            "type": "record",
            "name": "d",
            "fields": [
                {"name": "k", "type": ["null", "string"]},
                {"name": "p", "type": ["null", "string"]},
                {"name": "o", "type": ["null", "int", "string"]},
            ],
        },
        lambda n: {"k": f"key{n}", "p": None if n % 3 else "p=1", "o": [None, n, str(n)][n % 3]},
    ),
    "nested": ({"type": "array", "items": "long"}, lambda n: list(range(n % 5))),
    "big bytes": ("bytes", lambda n: bytes(n % 7 * 600)),
    "bytes that look like items": ("bytes", lambda n: b"\x02" * (n * 7919 % 50)),
    "records that look like others": (
        {
            "type": "record",
            "name": "d",
            "fields": [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": "bytes"}],
        },
        lambda n: {"a": n % 3 or None, "b": bytes(n * 31 % 11)},
    ),
    "nothing": ("null", lambda _: None),
}


@pytest.mark.parametrize("name", ITEMS)
@pytest.mark.parametrize("length", [0, 1, 30, 300, 12_000])
def test_one_record_with_a_long_array_reads_whole(name, length):
    items, make = ITEMS[name]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": {"type": "array", "items": items}},
            {"name": "z", "type": "int"},
        ],
    }
    rows = [
        {"a": [make(n) for n in range(length)], "z": 1},
        {"a": [], "z": 2},
        {"a": [make(1)], "z": 3},
    ]
    data, offsets = written(schema, rows)
    parsed = parse_avro_record(json.dumps(schema))
    batch = decode_records(parsed, data, offsets[:-1], offsets[1:], path="x")
    assert batch.column("z").to_pylist() == [1, 2, 3]
    assert batch.column("a").value_lengths().to_pylist() == [length, 0, 1]
    assert encode_records(parsed, batch).data.tobytes() == data.tobytes()


def block(count: int, body: bytes, *, sized: bool) -> bytes:
    def number(n: int) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, "long", n)
        return stream.getvalue()

    return number(-count) + number(len(body)) + body if sized else number(count) + body


@pytest.mark.parametrize("blocks", [1, 3, 40, 400])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("copies", [2, 50, 500])
def test_arrays_in_many_blocks_with_and_without_sizes_read_whole(blocks, sized, copies):
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}],
    }
    one = b"".join(block(3, bytes([2, 4, 6]), sized=sized) for _ in range(blocks)) + b"\x00"
    data = np.frombuffer(one * copies, np.uint8)
    parsed = parse_avro_record(json.dumps(schema))
    starts = np.arange(copies) * len(one)
    batch = decode_records(parsed, data, starts, starts + len(one), path="x")
    assert batch.column("a").to_pylist() == [[1, 2, 3] * blocks] * copies


def test_more_rows_than_a_chunk_read_and_write_in_order():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "n", "type": ["null", "long"]}, {"name": "s", "type": "string"}],
    }
    parsed = parse_avro_record(json.dumps(schema))
    rows = 70_000
    numbers = pa.array([None if n % 7 == 0 else n * n for n in range(rows)], pa.int64())
    batch = pa.record_batch({"n": numbers, "s": numbers.cast(pa.string()).fill_null("")})
    encoded = encode_records(parsed, batch)
    again = decode_records(
        parsed, encoded.data, encoded.offsets[:-1], encoded.offsets[1:], path="x"
    )
    assert again.column("n").equals(numbers)
    assert again.column("s").equals(batch.column("s"))
