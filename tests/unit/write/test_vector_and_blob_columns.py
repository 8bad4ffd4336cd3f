"""VECTOR and BLOB columns: through every verb, as Hudi stores them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakedex
from lakedex.config import format_properties, parse_properties
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.schema import arrow_schema, avro_schema, parse_avro_record
from lakedex.schema.hudi_types import BLOB_TYPE, parse_hudi_type
from lakedex.schema.storable import storable_schema
from lakedex.services.clustering.runner import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.write.row_source import ArrowRowSource
from tests.support.write_lab import Lab

VECTORS = {"e": "VECTOR(4)", "d": "VECTOR(2, DOUBLE)", "i": "VECTOR(3, INT8)"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("p", pa.string()),
        pa.field("ver", pa.int64()),
        pa.field("e", pa.list_(pa.float32()), metadata={"hudi_type": "VECTOR(4)"}),
        pa.field("d", pa.list_(pa.float64()), metadata={"hudi_type": "vector(2, double)"}),
        pa.field("i", pa.list_(pa.int8()), metadata={"hudi_type": "VECTOR(3,INT8)"}),
        pa.field("b", BLOB_TYPE, metadata={"hudi_type": "BLOB"}),
    ]
)
INLINE = {"type": "INLINE", "data": b"abc", "reference": None}
ELSEWHERE = {
    "type": "OUT_OF_LINE",
    "data": None,
    "reference": {"external_path": "/x", "offset": 0, "length": 10, "managed": False},
}


def row(key, ver, e=(1.0, 2.0, 3.0, 4.0), d=(0.5, -1.0), i=(-1, 0, 127), b=INLINE):
    parts = {"e": e, "d": d, "i": i}
    values = {name: None if each is None else list(each) for name, each in parts.items()}
    return {"id": key, "p": "x", "ver": ver, **values, "b": b}


def source(rows):
    return ArrowRowSource(pa.Table.from_pylist(rows, SCHEMA))


def test_the_avro_schema_is_that_of_hudi():
    columns = pa.schema([pa.field("e", parse_hudi_type("VECTOR(4)", "e"))])
    (field,) = json.loads(avro_schema(columns, "r", "s").to_json())["fields"]
    assert field["type"] == [
        "null",
        {
            "type": "fixed",
            "name": "vector_float_4",
            "namespace": "",
            "size": 16,
            "logicalType": "vector",
            "dimension": 4,
            "elementType": "FLOAT",
            "storageBacking": "FIXED_BYTES",
        },
    ]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_vectors_and_blobs_go_through_every_verb(tmp_path, kind):
    lab = Lab(tmp_path, kind, "GLOBAL_RECORD_LEVEL_INDEX", schema=SCHEMA)
    rows = [row("a", 1), row("b", 1, e=None, d=None, i=None, b=None), row("c", 1, b=ELSEWHERE)]
    lab.writer.insert(source(rows))
    changed = [row("a", 2, e=(9.0, 9.0, 9.0, 9.0), b=ELSEWHERE), row("d", 1, d=None)]
    lab.writer.upsert(source(changed))
    lab.writer.delete(source(rows[2:]))
    expected = [changed[0], rows[1], changed[1]]
    lab.holds(expected, "id = 'a'", "ver = 1")
    if kind == "mor":
        compact_table(lab.writer)
        lab.holds(expected)
    cluster_table(lab.writer, by="ver")
    lab.holds(expected)
    files = sorted(Path(lab.path).glob("*/*.parquet"))
    footer = pq.ParquetFile(files[-1])
    assert footer.metadata.metadata[b"hoodie.vector.columns"].decode() == (
        "e:VECTOR(4),d:VECTOR(2, DOUBLE),i:VECTOR(3, INT8)"
    )
    assert footer.schema_arrow.field("e").type == pa.binary(16)
    table = lakedex.open(lab.path)
    assert {name: table.schema.field(name).metadata[b"hudi_type"].decode() for name in "edib"} == {
        **VECTORS,
        "b": "BLOB",
    }
    # What the commit says is what the table was made with.
    newest = table.timeline.write_instants()[-1]
    text = table.timeline.commit_summary(newest).extra["schema"]
    assert arrow_schema(parse_avro_record(text)) == arrow_schema(
        parse_avro_record(table.snapshot.config.create_schema)
    )
    stats = table.metadata("column_stats")["ColumnStatsMetadata"].to_pylist()
    assert not {each["columnName"] for each in stats} & set("edib")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"e": [1.0, 2.0, 3.0]}, r"column e is VECTOR\(4\): expected 4 elements, actual 3"),
        ({"i": [1, 2, 3, 4]}, r"column i is VECTOR\(3, INT8\): expected 3 elements, actual 4"),
        ({"e": [1.0, None, 3.0, 4.0]}, "column e is a VECTOR, whose elements may not be null"),
        ({"b": {**INLINE, "type": "WRONG"}}, r"column b\.type is 'WRONG'"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path, changed, problem):
    lab = Lab(tmp_path, schema=SCHEMA)
    lab.writer.insert(source([row("a", 1)]))
    fields = [pa.field(each.name, each.type) for each in SCHEMA]
    plain = pa.schema([*fields[:-1], pa.field("b", _nullable(BLOB_TYPE))])
    given = pa.Table.from_pylist([row("b", 1) | changed], plain)
    with pytest.raises(InvalidInput, match=problem):
        lab.writer.insert(ArrowRowSource(given))
    lab.holds([row("a", 1)])


def test_another_dimension_is_refused(tmp_path):
    lab = Lab(tmp_path, schema=SCHEMA)
    fields = [pa.field("e", pa.list_(pa.float32()), metadata={"hudi_type": "VECTOR(3)"})]
    given = pa.schema([*[SCHEMA.field(name) for name in ("id", "p", "ver")], *fields])
    rows = pa.Table.from_pylist([{"id": "a", "p": "x", "ver": 1, "e": [1.0, 2.0, 3.0]}], given)
    with pytest.raises(InvalidInput, match=r"VECTOR\(4\) in the table and VECTOR\(3\)"):
        lab.writer.insert(ArrowRowSource(rows))


def test_a_write_may_add_a_vector_column(tmp_path):
    plain = pa.schema([SCHEMA.field(name) for name in ("id", "p", "ver")])
    lab = Lab(tmp_path, "mor", schema=plain)
    lab.writer.insert(ArrowRowSource(pa.Table.from_pylist([row("a", 1)], plain)))
    wider = pa.schema([*plain, SCHEMA.field("e")])
    lab.writer.upsert(ArrowRowSource(pa.Table.from_pylist([row("b", 1)], wider)))
    found = {each["id"]: each["e"] for each in lab.rows()}
    assert found == {"a": None, "b": [1.0, 2.0, 3.0, 4.0]}


def test_types_survive_the_way_to_a_worker():
    schema = storable_schema(SCHEMA)
    assert pickle.loads(pickle.dumps(schema)).equals(schema, check_metadata=True)


@pytest.mark.parametrize("text", ["VECTOR", "VECTOR(0)", "VECTOR(4, TEXT)", "VECTOR(x)", "CLOB"])
def test_other_texts_are_no_types(text):
    with pytest.raises(InvalidInput, match="column e"):
        parse_hudi_type(text, "e")


def test_vectors_of_another_form_are_refused_by_name():
    text = (
        '{"type":"record","name":"r","fields":[{"name":"e","type":{"type":"fixed","name":"v",'
        '"size":8,"logicalType":"vector","dimension":4,"elementType":"FLOAT16"}}]}'
    )
    with pytest.raises(UnsupportedFeature, match="FLOAT16"):
        arrow_schema(parse_avro_record(text))


def _nullable(dtype: pa.DataType) -> pa.DataType:
    return pa.struct([field.with_nullable(nullable=True) for field in dtype])


@pytest.mark.parametrize("inner", [False, True])
def test_a_write_does_not_take_a_logical_type_away(tmp_path, inner):
    """A VARIANT of Spark 4 is a record of bytes to Arrow; a commit of ours would make it one."""
    variant = {
        "type": "record",
        "name": "variant",
        "logicalType": "variant",
        "fields": [{"name": "value", "type": "bytes"}],
    }
    column = {"type": "array", "items": variant} if inner else variant
    plain = pa.schema([SCHEMA.field(name) for name in ("id", "p", "ver")])
    lab = Lab(tmp_path, schema=plain)
    _add_columns(lab, {"v": column})
    with pytest.raises(UnsupportedFeature, match="column v has the logical type variant"):
        lab.writer.insert(ArrowRowSource(pa.Table.from_pylist([row("a", 1)], plain)))
    assert lakedex.open(lab.path).to_arrow().num_rows == 0


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_enum_stays_an_enum(tmp_path, kind):
    """To Arrow it is text; a commit of ours says what it was, and takes its symbols only."""
    plain = pa.schema([SCHEMA.field(name) for name in ("id", "p", "ver")])
    lab = Lab(tmp_path, kind, schema=plain)
    enum = {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}
    uuid = {"type": "string", "logicalType": "uuid"}
    _add_columns(lab, {"colour": enum, "token": uuid})
    wider = plain.append(pa.field("colour", pa.string())).append(pa.field("token", pa.string()))

    def write(key, ver, colour):
        row = {"id": key, "p": "x", "ver": ver, "colour": colour, "token": "t"}
        lab.writer.upsert(ArrowRowSource(pa.Table.from_pylist([row], wider)))
        return row

    first, _ = write("a", 1, None), write("b", 1, "RED")
    second = write("b", 2, "BLUE")
    with pytest.raises(InvalidInput, match="colour is an enum of RED, BLUE, and 'GREEN' is none"):
        write("c", 1, "GREEN")
    lab.holds([first, second], "colour = 'BLUE'")
    timeline = lakedex.open(lab.path).timeline
    text = timeline.commit_summary(timeline.write_instants()[-1]).extra["schema"]
    types = {field["name"]: field["type"] for field in json.loads(text)["fields"]}
    assert types["colour"][1]["symbols"] == ["RED", "BLUE"]
    assert types["token"] == ["null", uuid]


def _add_columns(lab: Lab, columns: dict) -> None:
    """Columns of a new table that only another engine would make."""
    place = Path(lab.path) / ".hoodie" / "hoodie.properties"
    props = parse_properties(place.read_text(), path="p")
    record = json.loads(props["hoodie.table.create.schema"])
    for name, column in columns.items():
        record["fields"].append({"name": name, "type": ["null", column], "default": None})
    props = {**props, "hoodie.table.create.schema": json.dumps(record)}
    place.write_text(format_properties(props, comment=""))
