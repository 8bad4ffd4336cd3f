"""Old rows under a new schema: what widens, what is refused, and what Hudi read itself."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, LakedexError
from lakedex.schema import apply_history, mapping, parse_history, project
from lakedex.schema.conversions import java_number_text


def changed(values, old: pa.DataType, new: pa.DataType) -> list:
    table = pa.table({"c": pa.array(values, old)})
    return project(table, pa.schema([("c", new)])).column("c").to_pylist()


def _decimals(*texts: str) -> list[decimal.Decimal]:
    return [decimal.Decimal(text) for text in texts]


_INT_MAP, _LONG_MAP = pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())
ALLOWED = [
    ([1, None], pa.int32(), pa.int64(), [1, None]),
    ([16777217], pa.int32(), pa.float32(), [16777216.0]),
    ([1], pa.int32(), pa.float64(), [1.0]),
    ([1], pa.int32(), pa.string(), ["1"]),
    ([1], pa.int32(), pa.decimal128(12, 2), [decimal.Decimal("1.00")]),
    ([2**60 + 1], pa.int64(), pa.float64(), [float(2**60 + 1)]),
    ([-5], pa.int64(), pa.string(), ["-5"]),
    ([1.1, None], pa.float32(), pa.float64(), [1.1, None]),
    ([1.1], pa.float32(), pa.string(), ["1.1"]),
    ([1e10], pa.float64(), pa.string(), ["1.0E10"]),
    ([1.25], pa.float64(), pa.decimal128(5, 1), [decimal.Decimal("1.3")]),
    ([-1.25], pa.float64(), pa.decimal128(5, 1), [decimal.Decimal("-1.3")]),
    ([decimal.Decimal("1.5")], pa.decimal128(5, 1), pa.decimal128(7, 2), [decimal.Decimal("1.50")]),
    ([decimal.Decimal("1.5")], pa.decimal128(5, 1), pa.string(), ["1.5"]),
    (["2020-02-29"], pa.string(), pa.date32(), [dt.date(2020, 2, 29)]),
    (["1.5", "0.005"], pa.string(), pa.decimal128(5, 2), _decimals("1.50", "0.01")),
    ([1e-300, 0.1234567890123], pa.float64(), pa.decimal128(5, 2), _decimals("0.00", "0.12")),
    (["é"], pa.string(), pa.binary(), ["é".encode()]),
    (["é".encode()], pa.binary(), pa.string(), ["é"]),
    ([dt.date(2020, 2, 29)], pa.date32(), pa.string(), ["2020-02-29"]),
    ([1], pa.timestamp("ms"), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]),
    (["x"], pa.large_string(), pa.string(), ["x"]),
    ([None], pa.null(), pa.list_(pa.int32()), [None]),
    ([[1, None], None], pa.list_(pa.int32()), pa.list_(pa.int64()), [[1, None], None]),
    ([[("k", 1)], None], _INT_MAP, _LONG_MAP, [[("k", 1)], None]),
    (
        [{"a": 1, "x": 9}, None],
        pa.struct([("a", pa.int32()), ("x", pa.int32())]),
        pa.struct([("b", pa.string()), ("a", pa.int64())]),
        [{"b": None, "a": 1}, None],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "old", "new", "expected"), ALLOWED, ids=lambda v: str(v)[:40])
def test_a_change_that_hudi_allows_keeps_the_values(values, old, new, expected):
    assert changed(values, old, new) == expected


@given(st.lists(st.floats(-1e18, 1e18, allow_nan=False), min_size=1), st.integers(0, 18))
def test_a_double_becomes_the_decimal_nearest_to_its_text_half_up(values, scale):
    unit = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=80)
    expected = [
        decimal.Decimal(repr(x)).quantize(unit, decimal.ROUND_HALF_UP, context) for x in values
    ]
    assert changed(values, pa.float64(), pa.decimal128(38, scale)) == expected


REFUSED = [
    ([1], pa.int64(), pa.int32()),
    ([1.0], pa.float64(), pa.float32()),
    ([1.0], pa.float32(), pa.int32()),
    (["x"], pa.string(), pa.int32()),
    ([True], pa.bool_(), pa.int32()),
    ([1], pa.int32(), pa.bool_()),
    ([1], pa.int32(), pa.date32()),
    ([1], pa.timestamp("us"), pa.timestamp("ms")),
    ([1], pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ([decimal.Decimal("1.5")], pa.decimal128(5, 1), pa.decimal128(5, 2)),
    ([[1]], pa.list_(pa.int64()), pa.list_(pa.int32())),
    ([[1]], pa.list_(pa.int64()), pa.int64()),
    ([{"a": 1}], pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int32())])),
    (["no date"], pa.string(), pa.date32()),
    (["no number"], pa.string(), pa.decimal128(5, 2)),
    ([float("nan")], pa.float64(), pa.decimal128(5, 2)),
    ([1e300], pa.float64(), pa.decimal128(5, 2)),
    ([b"\xff"], pa.binary(), pa.string()),
    ([10**6], pa.int32(), pa.decimal128(3, 0)),
]


@pytest.mark.parametrize(("values", "old", "new"), REFUSED, ids=lambda v: str(v)[:40])
def test_any_other_change_is_refused_and_names_the_column(values, old, new):
    with pytest.raises(LakedexError, match="column c"):
        changed(values, old, new)


def test_a_record_batch_stays_a_record_batch_and_missing_columns_are_null():
    batch = pa.record_batch({"a": [1], "z": [2]})
    found = project(batch, pa.schema([("n", pa.string()), ("a", pa.int64())]))
    assert isinstance(found, pa.RecordBatch)
    assert found.to_pylist() == [{"n": None, "a": 1}]


def test_a_missing_column_that_may_not_be_null_is_refused():
    target = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    with pytest.raises(LakedexError, match="column n"):
        project(pa.table({"a": [1]}), target)
    with pytest.raises(LakedexError, match="column n"):
        project(pa.table({"n": pa.array([None], pa.int32())}), target)


def test_slices_and_several_chunks_keep_their_rows():
    nested = pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))])
    wider = pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    rows = [{"l": [n, n + 1], "m": [("k", n)]} if n % 3 else None for n in range(20)]
    array = pa.array(rows, nested)
    table = pa.table({"s": pa.chunked_array([array.slice(3, 7), array.slice(11)])})
    found = project(table, pa.schema([("s", wider)]))
    found.validate(full=True)
    assert found.column("s").to_pylist() == rows[3:10] + rows[11:]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_a_float_widens_to_the_double_with_the_same_shortest_text(values):
    array = pa.array(values, pa.float32())
    expected = [float(str(x)) for x in array.to_numpy()]
    assert changed(values, pa.float32(), pa.float64()) == expected


JAVA = {
    -0.0: "-0.0",
    1.0: "1.0",
    100.0: "100.0",
    0.001: "0.001",
    0.00099: "9.9E-4",
    9999999.0: "9999999.0",
    10000000.0: "1.0E7",
    12345678.5: "1.23456785E7",
    1.5e-7: "1.5E-7",
    1e21: "1.0E21",
    -123456789012.25: "-1.2345678901225E11",
    1.7976931348623157e308: "1.7976931348623157E308",
    float("inf"): "Infinity",
    float("-inf"): "-Infinity",
}


def test_floats_become_text_as_java_prints_them():
    values = [*JAVA, float("nan"), None]
    assert java_number_text(pa.array(values)).to_pylist() == [*JAVA.values(), "NaN", None]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_java_text_of_a_double_reads_back_as_the_same_double(values):
    assert [float(x) for x in java_number_text(pa.array(values)).to_pylist()] == values


def history_of(path: str):
    newest = max((Path(path) / ".hoodie" / ".schema").glob("*.schemacommit"))
    return parse_history(newest.read_text(), path=str(newest))


def test_the_history_of_a_real_table_finds_the_version_of_each_instant(golden):
    history = history_of(golden("schema_evolution").path)
    assert history.versions[0].version_id == 0
    assert history.version_at("20261115192439644").version_id == 0
    assert history.version_at("20261115192501438").version_id == 20261115192459090
    assert history.version_at("20261115192524552").version_id == 20261115192524552
    assert history.version_at("20991231000000000") == history.newest
    assert "c" not in mapping(history.versions[-2], history.newest)


def test_old_base_files_read_under_the_newest_schema_as_hudi_reads_them(golden):
    # case B69: a renamed column keeps its old values
    table = golden("schema_evolution")
    history = history_of(table.path)
    target = pa.schema(
        [("id", pa.int32()), ("a", pa.int64()), ("bb", pa.string()), ("f", pa.float64())]
    )
    assert mapping(history.versions[0], history.newest)["bb"] == "b"
    expected = {row["id"]: row for row in table.expected["rows"]}
    seen = 0
    for path in Path(table.path).rglob("*.parquet"):
        if ".hoodie" in path.parts:
            continue
        rows = pq.read_table(path, partitioning=None)
        version = history.version_at(path.stem.rpartition("_")[2])
        found = apply_history(rows, version, history.newest, target)
        assert found.schema == target
        for row in found.to_pylist():
            assert row["f"] == expected[row["id"]]["f"]
            if expected[row["id"]]["ts"] <= 2:
                assert row["bb"] == expected[row["id"]]["bb"]
                seen += 1
    assert seen > 10


def test_nested_renames_drops_and_a_reused_name_follow_the_ids():
    def field(number, name, node):
        return {"id": number, "name": name, "optional": True, "type": node}

    old_struct = {"type": "record", "fields": [field(3, "x", "int"), field(4, "y", "string")]}
    new_struct = {"type": "record", "fields": [field(3, "xx", "long"), field(9, "y", "string")]}

    def version(number, struct, a_name, extra):
        array = {"type": "array", "element_id": 5, "element": struct, "element_optional": True}
        entries = {"type": "map", "key_id": 6, "key": "string", "value_id": 7, "value": struct}
        fields = [field(0, a_name, "int"), field(1, "l", array), field(2, "m", entries), *extra]
        return {"version_id": number, "max_column_id": 9, "type": "record", "fields": fields}

    tree = {
        "schemas": [
            version(5, new_struct, "b", [field(8, "a", "string")]),
            version(0, old_struct, "a", []),
        ]
    }
    history = parse_history(json.dumps(tree))
    old_row = pa.struct([("x", pa.int32()), ("y", pa.string())])
    new_row = pa.struct([("xx", pa.int64()), ("y", pa.string())])
    rows = pa.table(
        {
            "a": pa.array([1], pa.int32()),
            "l": pa.array([[{"x": 1, "y": "gone"}, None]], pa.list_(old_row)),
            "m": pa.array([[("k", {"x": 2, "y": "gone"})]], pa.map_(pa.string(), old_row)),
        }
    )
    target = pa.schema(
        [
            ("b", pa.int32()),
            ("l", pa.list_(new_row)),
            ("m", pa.map_(pa.string(), new_row)),
            ("a", pa.string()),
        ]
    )
    found = apply_history(rows, history.versions[0], history.newest, target)
    assert found.to_pylist() == [
        {
            "b": 1,
            "l": [{"xx": 1, "y": None}, None],
            "m": [("k", {"xx": 2, "y": None})],
            "a": None,
        }
    ]
    batch = apply_history(rows.to_batches()[0], history.versions[0], history.newest, target)
    assert batch.to_pylist() == found.to_pylist()


_ARRAY = '{"type":"array","element_id":1,"element":'
_TOO_DEEP = (
    '{"type":"record","fields":[{"id":1,"name":"x","type":'
    + _ARRAY * 80
    + '"int"'
    + "}" * 81
    + "]}"
)
BAD_HISTORIES = [
    "",
    "[]",
    "5",
    "{}",
    '{"schemas":[]}',
    '{"schemas":[5]}',
    '{"schemas":[{"type":"record"}]}',
    '{"schemas":[{"type":"record","fields":[{"id":1,"name":"x"}]}]}',
    '{"schemas":[{"type":"record","fields":[{"id":"1","name":"x","type":"int"}]}]}',
    '{"schemas":[{"type":"record","fields":[{"id":1,"name":"x","type":"nope"}]}]}',
    '{"schemas":[{"type":"record","version_id":"x","fields":[]}]}',
    '{"type":"array","element_id":1,"element":"int"}',
    _TOO_DEEP,
    "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_HISTORIES, ids=lambda text: text[:50])
def test_a_bad_history_is_corrupt_and_names_the_file(text):
    with pytest.raises(CorruptFile, match=r"h\.schemacommit"):
        parse_history(text, path="h.schemacommit")


def test_one_latest_schema_and_the_older_spelling_of_ids_are_taken():
    field = '{"id":0,"name":"d","optional":false,"type":"decimal(10, 2)"}'
    text = f'{{"max_column_id":0,"version-id":7,"type":"record","fields":[{field}]}}'
    assert parse_history(text).newest.version_id == 7
