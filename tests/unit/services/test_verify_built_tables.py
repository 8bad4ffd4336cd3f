"""Verify on tables made for the purpose: odd values, keys that stand twice, time zones."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import lakedex
from lakedex.api import ReadOptions
from lakedex.index.metadata_table.keys import column_stats_key
from lakedex.index.verification.findings import MAX_PROBLEMS, ProblemKind
from lakedex.keys import escape_path_value
from tests.support.damage import Damage, encoded_hfile
from tests.support.index_specs import ExpressionIndex, SecondaryIndex
from tests.support.table_builder import TableBuilder

ALL = ("column_stats", "partition_stats", "bloom_filters", "record_index")
PLAIN = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])


def plain_rows(ids, start: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": pa.array(range(start, start + len(ids)), pa.int64())})


def plain_table(path, **options) -> TableBuilder:
    return TableBuilder(path, PLAIN, record_key="id", partition_by="p", **options)


@pytest.mark.parametrize("layout", ["log", "base"])
def test_a_table_with_odd_values_and_log_files_verifies_clean(tmp_path, layout):
    # cases B1, B2, B14, B15
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("p", pa.string()),
            ("x", pa.float64()),
            ("f", pa.float32()),
            ("s", pa.string()),
            ("b", pa.binary()),
            ("d", pa.decimal128(12, 3)),
            ("t", pa.timestamp("us", "UTC")),
            ("empty", pa.int32()),
        ]
    )
    rows = pa.table(
        {
            "id": ["a$1", "b\\2", "c", "d"],
            "x": [math.nan, -1.5, 2.5, math.inf],
            "f": pa.array([1.1, None, -0.0, 3.0], pa.float32()),
            "s": ["", None, "z" * 5_000, "\ue000\U0001f600"],
            "b": [b"\xff", b"\x00", None, b"\x7f"],
            "d": [Decimal("-1.500"), Decimal("0.001"), None, Decimal("99.000")],
            "t": pa.array([0, -1, None, 2**50], pa.timestamp("us", "UTC")),
            "empty": pa.nulls(4, pa.int32()),
        }
    )
    builder = TableBuilder(
        tmp_path / "odd",
        schema,
        record_key="id",
        partition_by="p",
        table_type="mor",
        indexes=(*ALL, SecondaryIndex("s", "s"), ExpressionIndex("up", "s", "upper")),
        metadata=layout,
    )
    builder.commit([("eu", rows.slice(0, 2)), ("us", rows.slice(2))])
    changed = rows.slice(0, 1).set_column(3, "s", pa.array(["new"]))
    builder.log_commit(changed.append_column("p", pa.array(["eu"])), deletes=["c"])
    report = lakedex.open(builder.finish()).verify()
    assert report.problems == ()
    assert report.checked["record_index"] == 3


def test_a_key_that_stands_twice_in_the_data_is_a_duplicate(tmp_path):
    # case B71: duplicate keys
    builder = plain_table(tmp_path / "twice", indexes=ALL)
    builder.commit([("eu", plain_rows(["a", "b"]))])
    builder.commit([("us", plain_rows(["b", "c"], 10))])
    (problem,) = lakedex.open(builder.finish()).verify().problems
    assert (problem.index, problem.kind, problem.key) == (
        "record_index",
        ProblemKind.DUPLICATE,
        "b",
    )
    assert problem.detail.startswith("2 rows have the key")


def test_problems_beyond_the_limit_are_counted(tmp_path):
    builder = plain_table(tmp_path / "many", indexes=("record_index",))
    ids = [f"k{number}" for number in range(MAX_PROBLEMS + 234)]
    builder.commit([("eu", plain_rows(ids))])
    damage = Damage(tmp_path / "many")
    builder.finish()
    damage.remove("record_index", ids)
    report = damage.open().verify()
    assert len(report.problems) == MAX_PROBLEMS
    assert report.untold == {"record_index": 234}
    assert report.problem_count == MAX_PROBLEMS + 234
    assert "... and 234 more in record_index" in str(report)


def test_an_expression_index_of_another_time_zone_is_one_note(tmp_path):
    # case B7: session time zone
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64())])
    index = ExpressionIndex("day", "ts", "from_unixtime", {"format": "yyyy-MM-dd HH:mm"})
    builder = TableBuilder(
        tmp_path / "zones", schema, record_key="id", partition_by="p", indexes=(index,)
    )
    times = pa.array([0, 3_600, 1_700_000_000], pa.int64())
    builder.commit([("eu", pa.table({"id": ["a", "b", "c"], "ts": times}))])
    path = builder.finish()
    assert lakedex.open(path).verify().problems == ()
    there = lakedex.open(path, options=ReadOptions(time_zone="+05:30")).verify()
    assert there.problems == ()
    (note,) = there.notes
    assert "it was built in the time zone +00:00, not in +05:30" in note
    told = ReadOptions(time_zone="+05:30", expression_time_zone="UTC")
    assert lakedex.open(path, options=told).verify().notes == ()


def test_a_secondary_index_whose_spelling_is_unsure_is_compared_by_record_keys(tmp_path):
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("x", pa.float64())])
    index = SecondaryIndex("x", "x")
    builder = TableBuilder(
        tmp_path / "unsure",
        schema,
        record_key="id",
        partition_by="p",
        indexes=("record_index", index),
    )
    builder.commit([("eu", pa.table({"id": ["a", "b"], "x": [1.0, 1e300]}))])
    path = builder.finish()
    report = lakedex.open(path).verify()
    assert report.problems == ()
    assert "only its record keys were compared" in report.notes[0]
    damage = Damage(tmp_path / "unsure")
    gone = damage.keys(index.partition)[0]
    damage.remove(index.partition, [gone])
    (problem,) = damage.open().verify().problems
    assert (problem.kind, problem.key) == (ProblemKind.MISSING, gone.partition("$")[2])


def test_a_record_index_by_partition_is_verified_in_the_groups_of_each(tmp_path):
    builder = plain_table(tmp_path / "parts", indexes=("record_index",))
    builder.commit([("e-u", plain_rows(["a", "b"]))])
    builder.commit([("us", plain_rows(["b", "c"], 10))])
    builder.finish()
    damage = Damage(tmp_path / "parts")
    make_partitioned(damage, {"p=e-u": ["a", "b"], "p=us": ["b", "c"]})
    report = damage.open().verify()
    assert report.problems == ()
    assert report.checked["record_index"] == 4
    make_partitioned(damage, {"p=e-u": ["a"], "p=us": ["b", "c", "x"]})
    found = {(each.kind, each.key) for each in damage.open().verify().problems}
    assert found == {(ProblemKind.MISSING, "b"), (ProblemKind.STALE, "x")}


@pytest.mark.parametrize(("low", "nulls"), [(None, 3), ("m", 2)])
def test_entries_that_leave_out_long_texts_are_noted_as_what_hudi_writes(tmp_path, low, nulls):
    # case B2: statistics of long strings
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("s", pa.string())])
    builder = TableBuilder(
        tmp_path / "long", schema, record_key="id", partition_by="p", indexes=("column_stats",)
    )
    texts = ["a" * 5_000, "m", "z" * 5_000]
    builder.commit([("eu", pa.table({"id": ["a", "b", "c"], "s": texts}))])
    builder.finish()
    damage = Damage(tmp_path / "long")
    (chosen,) = damage.open().snapshot.slices

    def as_hudi(record) -> None:
        stats = record["ColumnStatsMetadata"]
        bound = None if low is None else {"member6": {"value": low}}
        stats |= {"minValue": bound, "maxValue": bound, "nullCount": nulls}

    key = column_stats_key("s", chosen.partition, chosen.base.name)
    damage.edit("column_stats", key, as_hudi)
    report = damage.open().verify()
    assert report.problems == ()
    (note,) = report.notes
    assert note.startswith("column_stats: entries of s in 1 files leave out long texts")


def test_a_table_without_metadata_table_has_nothing_to_verify(tmp_path):
    builder = plain_table(tmp_path / "bare", metadata=None)
    builder.commit([("eu", plain_rows(["a"]))])
    report = lakedex.open(builder.finish()).verify()
    assert report.ok
    assert report.checked == {}
    assert "there is no index to verify" in report.notes[0]


def make_partitioned(damage: Damage, keys: dict[str, list[str]]) -> None:
    """Replace the record index by one with a file group for each partition."""
    table = damage.open()
    slices = {each.partition: each.file_id for each in table.snapshot.slices}
    folder = damage.metadata_root / "record_index"
    for file in folder.iterdir():
        if file.name != ".hoodie_partition_metadata":
            file.unlink()
    time = next(
        instant.requested_time
        for instant in table.snapshot.metadata.timeline.completed()
        if instant.requested_time.startswith("0000")
    )
    for partition, own in keys.items():
        record = {"type": 5, "recordIndexMetadata": location(partition, slices[partition])}
        escaped = escape_path_value(partition, for_file_name=True)
        name = f"record-index-{escaped}-0000-0_0-0-0_{time}.hfile"
        data = encoded_hfile("record_index", dict.fromkeys(own, record))
        (folder / name).write_bytes(data)
    path = damage.path / ".hoodie" / ".index_defs" / "index.json"
    document = json.loads(path.read_text())
    document["indexDefinitions"]["record_index"]["indexOptions"]["isPartitioned"] = "true"
    path.write_text(json.dumps(document))


def location(partition: str, file_id: str) -> dict[str, object]:
    number = int(file_id[:36].replace("-", ""), 16)
    halves = np.array([number >> 64, number & (2**64 - 1)], np.uint64).view(np.int64)
    return {
        "partitionName": partition,
        "fileIdHighBits": int(halves[0]),
        "fileIdLowBits": int(halves[1]),
        "fileIndex": int(file_id[37:]),
        "fileId": "",
        "instantTime": 0,
        "fileIdEncoding": 0,
        "position": None,
    }
