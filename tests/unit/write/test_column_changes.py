"""Columns renamed, dropped, moved and added again: rows follow the column, not its name."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.schema import parse_avro_record
from lakedex.schema.column_changes import (
    ColumnPosition,
    add_column,
    allow_null,
    drop_column,
    move_column,
    rename_column,
    retype_column,
)
from lakedex.schema.internal_schema import history_text, parse_history
from lakedex.schema.numbered_columns import evolved, numbered
from lakedex.services.clustering import cluster_table
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.write.write_schema import StoredSchema, WriteSchema
from tests.support.write_lab import Lab, source

INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])
SCHEMA = pa.schema(
    [
        *[("id", pa.string()), ("p", pa.string()), ("ver", pa.int64())],
        *[("n", pa.int32()), ("s", INNER), ("c", pa.string())],
    ]
)


def given(key, version, **more):
    return {"id": key, "p": "x", "ver": version, **more}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_follow_their_columns(tmp_path, kind):
    """A dropped name that comes back is another column."""
    lab = Lab(tmp_path, kind, schema=SCHEMA)
    first = [given(str(key), 1, n=key, s={"a": key, "b": "b"}, c="old") for key in range(4)]
    lab.writer.upsert(source(first, SCHEMA))
    change = lab.writer.change_columns
    change(partial(rename_column, path=["N"], name="count"))
    change(partial(rename_column, path=["s", "b"], name="bb"))
    change(partial(drop_column, path=["c"]))
    change(partial(retype_column, path=["count"], dtype=pa.int64()))
    change(partial(add_column, path=["c"], dtype=pa.int32(), place=ColumnPosition("id")))
    change(partial(add_column, path=["s", "z"], dtype=pa.int32(), place=ColumnPosition()))
    change(partial(move_column, path=["count"], place=ColumnPosition()))
    table = lakedex.open(lab.path)
    own = [field for field in table.schema if not field.name.startswith("_hoodie_")]
    assert [field.name for field in own] == ["count", "id", "c", "p", "ver", "s"]
    assert [field.name for field in table.schema.field("s").type] == ["z", "a", "bb"]

    def now(key, version, count, c=None, z=None):
        inner = {"z": z, "a": int(key), "bb": "b"}
        return {"count": count, "id": key, "c": c, "p": "x", "ver": version, "s": inner}

    expected = [now(str(key), 1, key) for key in range(4)]
    lab.holds(expected, "count >= 2", "count = 1", "c = 5", "c is null")
    expected[1] = now("1", 2, 7_000_000_000, c=5, z=9)
    expected.append(now("9", 1, 9, c=6))
    schema = pa.schema(own)
    lab.writer.upsert(source([expected[1], expected[4]], schema))
    lab.holds(expected, "count >= 2", "count > 8", "c = 5", "c is null", "s.bb = 'b'")
    assert lab.writer.delete_where("count = 0").deleted == 1
    wider = schema.append(pa.field("extra", pa.string()))
    expected[2] = now("2", 5, 2) | {"extra": "e"}
    lab.writer.upsert(source([expected[2]], wider))
    left = [{**each, "extra": each.get("extra")} for each in expected[1:]]
    cluster_table(lab.writer, ["count"], None, None)
    lab.holds(left, "extra = 'e'", "count = 2")
    timeline = Snapshot.open(lab.address.open()).timeline
    told = [timeline.commit_summary(each).extra for each in timeline.write_instants()]
    assert all("latest_schema" in extra for extra in told[1:])
    history = Snapshot.open(lab.address.open()).history
    assert len(history.versions) == 9
    assert history.newest.record.fields[-1].id == history.newest.max_column_id


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (partial(rename_column, path=["nope"], name="x"), InvalidInput, "no column 'nope'"),
        (partial(rename_column, path=["n"], name="C"), InvalidInput, "column 'c' already"),
        (partial(drop_column, path=["n", "x"]), InvalidInput, "has no field 'x'"),
        (partial(retype_column, path=["ver"], dtype=pa.int32()), UnsupportedFeature, "ver from"),
        (partial(add_column, path=["s", "A"], dtype=pa.int32()), InvalidInput, "'s.a' already"),
    ],
)
def test_wrong_changes_leave_no_trace(tmp_path, change, error, message):
    lab = Lab(tmp_path, schema=SCHEMA)
    with pytest.raises(error, match=message):
        lab.writer.change_columns(change)
    assert not Snapshot.open(lab.address.open()).timeline.completed()


def test_a_history_of_hudi_is_kept_as_it_is(golden):
    path = str(golden("schema_evolution").path)
    snapshot = Snapshot.open(StorageAddress.of(path).open())
    history = snapshot.history
    assert parse_history(history_text(history)) == history
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    full = numbered(schema.full, history.newest)
    assert evolved(history, full, parse_avro_record(schema.full_text), 1) is history


def test_types_are_spelled_as_hudi_reads_them(tmp_path):
    """Hudi 1.2.0 writes `local-timestamp-micros` and fails to read that back."""
    kinds = [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()]
    kinds += [pa.decimal128(10, 2), pa.binary(), pa.map_(pa.string(), pa.list_(pa.int64()))]
    columns = pa.schema([*SCHEMA, *[(f"k{at}", kind) for at, kind in enumerate(kinds)]])
    lab = Lab(tmp_path, schema=columns)
    lab.writer.change_columns(partial(rename_column, path=["n"], name="m"))
    snapshot = Snapshot.open(lab.address.open())
    text = history_text(snapshot.history)
    assert parse_history(text) == snapshot.history
    fields = json.loads(text)["schemas"][0]["fields"]
    spelled = [field["type"] for field in fields if field["name"].startswith("k")]
    assert spelled[:3] == ["timestamp", "local_timestamp_micros", "date"]
    assert spelled[3:5] == ["decimal_fixed(10, 2)[5]", "binary"]
    assert (spelled[5]["type"], spelled[5]["value"]["type"]) == ("map", "array")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_values_are_converted_as_hudi_does(tmp_path, kind):
    """Names of any script, as Hudi takes them; rows of every type that a column ever had."""
    columns = pa.schema(
        [
            *[("id", pa.string()), ("p", pa.string()), ("ver", pa.int64())],
            *[("Größe", pa.int64()), ("日", pa.date32()), ("m", pa.map_(pa.string(), pa.int32()))],
            pa.field("must", pa.string(), nullable=False),
        ]
    )
    lab = Lab(tmp_path, kind, schema=columns)
    day = date(2024, 2, 29)

    def told(key, size, at, members, must="x"):
        more = {"Größe": size, "日": at, "m": members, "must": must}
        return {"id": key, "p": "x", "ver": 1, **more}

    lab.writer.insert(source([told("1", 11, day, [("a", 1)])], columns))
    change = lab.writer.change_columns
    change(partial(retype_column, path=["日"], dtype=pa.string()))
    change(partial(retype_column, path=["Größe"], dtype=pa.float64()))
    change(partial(retype_column, path=["m", "value"], dtype=pa.float64()))
    change(partial(allow_null, path=["must"]))
    own = [each for each in lakedex.open(lab.path).schema if not each.name.startswith("_hoodie_")]
    second = told("2", 0.125, "2024-03-01", [("b", 0.5)], None)
    lab.writer.upsert(source([second], pa.schema(own)))
    change(partial(retype_column, path=["日"], dtype=pa.date32()))
    change(partial(retype_column, path=["Größe"], dtype=pa.decimal128(6, 2)))
    first = told("1", Decimal("11.00"), day, [("a", 1.0)])
    second = told("2", Decimal("0.13"), date(2024, 3, 1), [("b", 0.5)], None)
    lab.holds([first, second], "`Größe` > 1", "`日` = DATE '2024-02-29'", "must is null")
    with pytest.raises(InvalidInput, match=r"m\.value is all that m holds"):
        change(partial(rename_column, path=["m", "value"], name="v"))
