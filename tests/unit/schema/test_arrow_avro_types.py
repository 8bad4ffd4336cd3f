"""Avro types as Arrow types, and Arrow schemas as Hudi spells them in Avro."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.errors import UnsupportedFeature
from lakedex.schema import (
    arrow_schema,
    arrow_type,
    avro_schema,
    parse_avro_record,
    parse_avro_schema,
)

_FIXED_DECIMAL = (
    '{"type":"fixed","name":"f","size":4,"logicalType":"decimal","precision":9,"scale":2}'
)
TYPES = {
    '"boolean"': pa.bool_(),
    '"int"': pa.int32(),
    '"long"': pa.int64(),
    '"float"': pa.float32(),
    '"double"': pa.float64(),
    '"bytes"': pa.binary(),
    '"string"': pa.string(),
    '"null"': pa.null(),
    '{"type":"int","logicalType":"date"}': pa.date32(),
    '{"type":"int","logicalType":"time-millis"}': pa.time32("ms"),
    '{"type":"long","logicalType":"time-micros"}': pa.time64("us"),
    '{"type":"long","logicalType":"timestamp-millis"}': pa.timestamp("ms", "UTC"),
    '{"type":"long","logicalType":"timestamp-micros"}': pa.timestamp("us", "UTC"),
    '{"type":"long","logicalType":"timestamp-nanos"}': pa.timestamp("ns", "UTC"),
    '{"type":"long","logicalType":"local-timestamp-millis"}': pa.timestamp("ms"),
    '{"type":"long","logicalType":"local-timestamp-micros"}': pa.timestamp("us"),
    '{"type":"string","logicalType":"uuid"}': pa.string(),
    '{"type":"enum","name":"e","symbols":["A"]}': pa.string(),
    '{"type":"fixed","name":"f","size":4}': pa.binary(4),
    _FIXED_DECIMAL: pa.decimal128(9, 2),
    '{"type":"bytes","logicalType":"decimal","precision":38,"scale":0}': pa.decimal128(38, 0),
    '{"type":"array","items":["null","int"]}': pa.list_(pa.int32()),
    '{"type":"map","values":"int"}': pa.map_(
        pa.string(), pa.field("value", pa.int32(), nullable=False)
    ),
    '["null","int"]': pa.int32(),
    '["int"]': pa.int32(),
    '["null"]': pa.null(),
    '["int","null","string"]': pa.struct([("member0", pa.int32()), ("member1", pa.string())]),
}


@pytest.mark.parametrize("text", TYPES)
def test_an_avro_type_has_its_arrow_type(text):
    assert arrow_type(parse_avro_schema(text)) == TYPES[text]


def test_only_columns_with_a_null_branch_are_nullable():
    fields = '{"name":"a","type":"int"},{"name":"b","type":["int","null"]}'
    text = f'{{"type":"record","name":"r","fields":[{fields}]}}'
    schema = arrow_schema(parse_avro_record(text))
    assert [field.nullable for field in schema] == [False, True]


@pytest.mark.parametrize(
    "name", ["cow_nonpartitioned", "mor_trips_all_indexes", "schema_evolution", "clustered"]
)
def test_the_arrow_schema_of_a_real_table_becomes_hudis_own_text(golden, name):
    # The text that Hudi stored when it made the table, from the Arrow schema alone.
    properties = (Path(golden(name).path) / ".hoodie" / "hoodie.properties").read_text()
    line = next(x for x in properties.splitlines() if "create.schema=" in x)
    text = re.sub(r"\\(.)", r"\1", line.partition("=")[2])
    record = parse_avro_record(text)
    again = avro_schema(arrow_schema(record), record.name, record.namespace)
    assert again.to_json() == text


def test_plain_arrow_columns_follow_hudis_conventions():
    schema = pa.schema(
        [
            pa.field("k", pa.string(), nullable=False),
            pa.field("d", pa.decimal128(10, 2)),
            pa.field("t", pa.timestamp("us", "Europe/Paris")),
            pa.field("n", pa.timestamp("us")),
            pa.field("b", pa.large_binary()),
            pa.field("w", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    fields = json.loads(avro_schema(schema, "t_record", "hoodie.t").to_json())["fields"]
    assert fields[0] == {"name": "k", "type": "string"}
    assert fields[1]["type"][1] == {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.t.t_record.d",
        "size": 5,
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
    }
    assert fields[2]["type"][1]["logicalType"] == "timestamp-micros"
    assert fields[3]["type"][1]["logicalType"] == "local-timestamp-micros"
    assert fields[4] == {"name": "b", "type": ["null", "bytes"], "default": None}
    assert fields[5]["type"] == ["null", "string"]


@pytest.mark.parametrize(
    "dtype", [pa.uint64(), pa.duration("s"), pa.map_(pa.int32(), pa.int32()), pa.time64("ns")]
)
def test_arrow_types_without_avro_form_are_refused_by_column(dtype):
    with pytest.raises(UnsupportedFeature, match="col"):
        avro_schema(pa.schema([("col", dtype)]), "r", "")


def test_a_decimal_of_more_than_38_digits_is_refused():
    node = parse_avro_schema('{"type":"bytes","logicalType":"decimal","precision":39,"scale":0}')
    with pytest.raises(UnsupportedFeature, match="39 digits"):
        arrow_type(node)
