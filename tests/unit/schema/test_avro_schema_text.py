"""Avro schema text in, tree, text out; and texts that must not get in."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, LakedexError, UnsupportedFeature
from lakedex.schema import AvroFixed, AvroRecord, AvroUnion, parse_avro_record, parse_avro_schema

GOLDEN = sorted(path.stem for path in (Path(__file__).parents[2] / "golden").glob("*.zip"))


def texts_of(table: str) -> set[str]:
    """Every Avro schema text in the properties and the readable commit metadata of a table."""
    found = set()
    for path in Path(table).rglob("hoodie.properties"):
        for line in path.read_text().splitlines():
            if line.startswith("hoodie.table.create.schema="):
                found.add(re.sub(r"\\(.)", r"\1", line.partition("=")[2]))
    for path in Path(table).rglob("*commit"):
        for match in re.finditer(
            rb'\{"type":"record","name":"[^"\\]+","namespace"', path.read_bytes()
        ):
            text = path.read_bytes()[match.start() :].decode("utf-8", "replace")
            found.add(text[: json.JSONDecoder().raw_decode(text)[1]])
    for path in Path(table).rglob(".*.log.*"):
        data = path.read_bytes()
        for match in re.finditer(rb"\x00\x00\x00\x02(.{4})(?=\{)", data, re.DOTALL):
            size = int.from_bytes(match.group(1), "big")
            found.add(data[match.end() : match.end() + size].decode("utf-8", "replace"))
    # The record of a BLOB stands inside of a schema, where its empty namespace says something.
    inner = '{"type":"record","name":"blob"'
    return {text for text in found if text.endswith("}") and not text.startswith(inner)}


@pytest.mark.parametrize("name", GOLDEN)
def test_schemas_of_real_tables_come_out_as_they_went_in(golden, name):
    texts = texts_of(golden(name).path)
    assert texts
    for text in texts:
        assert parse_avro_schema(text).to_json() == json.dumps(
            json.loads(text), separators=(",", ":"), ensure_ascii=False
        )


def test_names_are_resolved_in_their_namespace_and_shared():
    text = json.dumps(
        {
            "type": "record",
            "name": "a.b.Outer",
            "fields": [
                {"name": "x", "type": {"type": "fixed", "name": "F", "size": 2}},
                {"name": "y", "type": ["null", "F"]},
                {"name": "z", "type": "a.b.F"},
                {"name": "w", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 3}},
            ],
        }
    )
    record = parse_avro_record(text)
    x, y, z, w = (item.type for item in record.fields)
    assert isinstance(x, AvroFixed)
    assert x.namespace == "a.b"
    assert isinstance(y, AvroUnion)
    assert y.branches[1] is x
    assert z is x
    assert isinstance(w, AvroFixed)
    assert w.size == 3
    again = parse_avro_record(record.to_json())
    assert again == record
    assert json.loads(record.to_json())["fields"][1]["type"] == ["null", "F"]


def test_a_logical_type_that_does_not_fit_is_ignored_but_kept_in_the_text():
    text = '{"type":"string","logicalType":"date"}'
    node = parse_avro_schema(text)
    assert getattr(node, "logical", None) is None
    assert node.to_json() == text


def nested(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def exploding() -> str:
    levels = [{"name": "f", "type": "int"}]
    node: object = {"type": "record", "name": "r0", "fields": levels}
    for n in range(1, 60):
        fields = [{"name": "a", "type": node}, {"name": "b", "type": f"r{n - 1}"}]
        node = {"type": "record", "name": f"r{n}", "fields": fields}
    return json.dumps(node)


X = '{"name":"x","type":"int"}'
F = '{"type":"fixed","name":"f","size":1}'
BAD = {
    "no JSON": "{",
    "empty": "",
    "number": "5",
    "unknown name": '"nope"',
    "empty union": "[]",
    "union in union": '[["int"]]',
    "two nulls": '["null","null"]',
    "array without items": '{"type":"array"}',
    "map without values": '{"type":"map"}',
    "record without fields": '{"type":"record","name":"r"}',
    "record without name": '{"type":"record","fields":[]}',
    "field without name": '{"type":"record","name":"r","fields":[{"type":"int"}]}',
    "field that is text": '{"type":"record","name":"r","fields":["x"]}',
    "field without type": '{"type":"record","name":"r","fields":[{"name":"x"}]}',
    "field twice": f'{{"type":"record","name":"r","fields":[{X},{X}]}}',
    "bad name": '{"type":"fixed","name":"a b","size":1}',
    "fixed without size": '{"type":"fixed","name":"f"}',
    "negative fixed": '{"type":"fixed","name":"f","size":-1}',
    "huge fixed": '{"type":"fixed","name":"f","size":99999999999}',
    "boolean size": '{"type":"fixed","name":"f","size":true}',
    "enum without symbols": '{"type":"enum","name":"e"}',
    "type of a number": '{"type":5}',
    "name defined twice": f"[{F},{F}]",
    "too deep": nested(70),
    "deep beyond Python": nested(200_000),
    "explodes": exploding(),
    "too long": " " * (9 << 20),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_schema_text_is_corrupt_and_names_the_file(name):
    begin = time.process_time()
    with pytest.raises(CorruptFile, match=r"some\.avsc"):
        parse_avro_schema(BAD[name], path="some.avsc")
    assert time.process_time() - begin < 2


def test_a_recursive_type_is_refused():
    text = '{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]}'
    with pytest.raises(UnsupportedFeature, match="recursive"):
        parse_avro_schema(text)


def test_a_schema_that_is_no_record_is_corrupt_where_a_record_is_needed():
    with pytest.raises(CorruptFile):
        parse_avro_record('"int"')
    assert isinstance(parse_avro_record('{"type":"record","name":"r","fields":[]}'), AvroRecord)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["int", "null", "record", "array", "fixed", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "name", "fields", "items", "values", "size", "symbols", "default"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_gives_a_schema_or_our_error(tree):
    try:
        node = parse_avro_schema(json.dumps(tree))
    except LakedexError:
        return
    assert parse_avro_schema(node.to_json()) == node
