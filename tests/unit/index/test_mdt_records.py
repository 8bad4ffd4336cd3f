"""Records of the metadata table: what is written comes back, for every kind and type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakedex.errors import InvalidInput
from lakedex.format.avro import METADATA_RECORD, decode_records
from lakedex.format.avro.lanes import offsets, payload
from lakedex.index.kinds.bloom_filters.kind import BloomFiltersKind
from lakedex.index.kinds.column_stats.records import column_stats_change
from lakedex.index.kinds.files.kind import files_change
from lakedex.index.kinds.partition_stats.records import partition_stats_change
from lakedex.index.kinds.record_index.records import encode_locations
from lakedex.index.metadata_table.keys import bloom_key, column_stats_key, column_stats_prefix
from lakedex.index.metadata_table.stat_values import stat_values
from lakedex.index.written import BloomText, CommitChanges
from tests.support.metadata_lab import stats_table

TYPES = [
    (pa.bool_(), False, True),
    (pa.int8(), -128, 127),
    (pa.int16(), -5, 5),
    (pa.int32(), -(2**31), 2**31 - 1),
    (pa.int64(), -(2**63), 2**63 - 1),
    (pa.float32(), -math.inf, math.inf),
    (pa.float64(), -0.0, 1e308),
    (pa.string(), "", "ünï\U0001f600"),
    (pa.binary(), b"", b"\xff\x00"),
    (pa.decimal128(10, 2), Decimal("-12.34"), Decimal("12.34")),
    (pa.decimal128(38, 10), Decimal("-9999999999999999999999999999.0000000001"), Decimal("128")),
    (pa.date32(), date(1969, 12, 31), date(9999, 12, 31)),
    (
        pa.timestamp("us", "UTC"),
        datetime(1900, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    ),
    (pa.timestamp("us"), datetime(1900, 12, 31, 23, 59, 59), datetime(2024, 1, 1)),
    (pa.timestamp("ms", "UTC"), datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
]


def decoded(change):
    bounds, raw = offsets(change.values), payload(change.values)
    rows = decode_records(METADATA_RECORD, raw, bounds[:-1], bounds[1:], path="x")
    return dict(zip(change.keys.to_pylist(), rows.to_pylist(), strict=True)), rows


@pytest.mark.parametrize(("kind", "low", "high"), TYPES, ids=lambda value: str(value)[:30])
def test_bounds_of_every_type_come_back(kind, low, high):
    rows = [("p=1", "f1", low, high, 5, 1), ("p=1", "f2", None, None, 3, 3)]
    change = column_stats_change({"c": stats_table(rows, kind)}, {}, ["c"])
    by_key, batch = decoded(change)
    assert set(by_key) == {column_stats_key("c", "p=1", name) for name in ("f1", "f2")}
    values = stat_values(batch.column("ColumnStatsMetadata"), kind, as_written=True)
    assert values.minimum.to_pylist() == [low, None]
    assert values.maximum.to_pylist() == [high, None]
    if kind == pa.float64():
        assert math.copysign(1, values.minimum[0].as_py()) == -1
    assert values.null_count.tolist() == [1, 3]


def test_a_file_without_values_has_no_type_and_a_nested_column_is_refused():
    rows = [("", ".log", None, None, 0, 0)]
    change = column_stats_change({"c": stats_table(rows, pa.int64())}, {}, [])
    (record,) = decoded(change)[0].values()
    assert record["ColumnStatsMetadata"]["valueType"]["typeOrdinal"] == 1
    assert change.keys.to_pylist() == [column_stats_key("c", "", ".log")]
    nested = stats_table([("", "f", None, None, 1, 1)], pa.list_(pa.int32()))
    with pytest.raises(InvalidInput, match="tags"):
        column_stats_change({"tags": nested}, {}, [])


def test_a_removed_file_loses_its_ranges_in_every_column():
    statistics = {"a": stats_table([("p", "new", 1, 2, 1, 0)], pa.int32())}
    change = column_stats_change(statistics, {"p": ["old", ".old.log"]}, ["a", "b"])
    expected = {column_stats_key(c, "p", f) for c in "ab" for f in ("old", ".old.log")}
    assert set(change.deletes.to_pylist()) == expected


# case B10: stale or loose statistics
def test_partition_ranges_widen_and_start_anew_where_a_partition_was_replaced():
    rows = [
        ("p=1", "f1", 3, 9, 10, 1),
        ("p=1", "f2", -4, 5, 10, 2),
        ("p=2", "f3", 7, 7, 1, 0),
        ("p=3", "f4", None, None, 4, 4),
    ]
    change = partition_stats_change(
        {"n": stats_table(rows, pa.int64())},
        ["n", "gone"],
        overwritten=["p=2"],
        dropped=["p=9"],
    )
    records, batch = decoded(change)
    stats = {
        r["ColumnStatsMetadata"]["fileName"]: r["ColumnStatsMetadata"] for r in records.values()
    }
    assert {path: one["isTightBound"] for path, one in stats.items()} == {
        "p=1": False,
        "p=2": True,
        "p=3": False,
    }
    values = stat_values(batch.column("ColumnStatsMetadata"), pa.int64())
    assert values.minimum.to_pylist() == [-4, 7, None]
    assert values.maximum.to_pylist() == [9, 7, None]
    assert values.value_count.tolist() == [20, 1, 4]
    # Ranges of a column that the new files lack would be too wide, not wrong; they go all the same.
    expected = [("gone", "p=2"), ("n", "p=9"), ("gone", "p=9")]
    assert change.deletes.to_pylist() == [column_stats_prefix(*place) for place in expected]


@pytest.mark.parametrize(("kind", "low", "high"), TYPES, ids=lambda value: str(value)[:30])
def test_a_file_of_unknown_bounds_makes_the_range_of_its_partition_as_wide_as_can_be(
    kind, low, high
):
    rows = [("p", "f1", low, high, 5, 0), ("p", "f2", None, None, 5, 1)]
    change = partition_stats_change({"c": stats_table(rows, kind)}, ["c"])
    stats = decoded(change)[1].column("ColumnStatsMetadata")
    values = stat_values(stats, kind, as_written=True)
    assert pc.less_equal(values.minimum[0], pa.scalar(low, kind)).as_py()
    assert pc.greater_equal(values.maximum[0], pa.scalar(high, kind)).as_py()
    if pa.types.is_integer(kind):
        last = 2 ** (kind.bit_width - 1)
        assert (values.minimum[0].as_py(), values.maximum[0].as_py()) == (-last, last - 1)


def test_the_listing_says_what_came_and_what_went():
    change = files_change({"p=1": {"new": 5}, "": {"x": 1}}, {"p=1": ["old", "new"]}, ["p=2"])
    records, _ = decoded(change)
    maps = {key: dict(record["filesystemMetadata"]) for key, record in records.items()}
    assert maps == {
        "__all_partitions__": {
            "p=1": {"size": 0, "isDeleted": False},
            ".": {"size": 0, "isDeleted": False},
            "p=2": {"size": 0, "isDeleted": True},
        },
        "p=1": {
            "new": {"size": 5, "isDeleted": False},
            "old": {"size": 0, "isDeleted": True},
        },
        ".": {"x": {"size": 1, "isDeleted": False}},
    }
    assert [record["type"] for record in records.values()] == [1, 2, 2]
    cleaned, _ = decoded(files_change({}, {"p=1": ["old"]}))
    assert set(cleaned) == {"p=1"}
    assert set(decoded(files_change({}))[0]) == {"__all_partitions__"}


def test_bloom_filters_of_base_files_come_and_go():
    changes = CommitChanges(
        notes={"bloom_filters": [BloomText("p", "new", "DYNAMIC_V0", "AAAA")]},
        removed={"p": ["old", ".log"]},
    )
    change = BloomFiltersKind().records("bloom_filters", changes, "20240101000000000", {})
    (record,) = decoded(change)[0].values()
    assert record["BloomFilterMetadata"] == {
        "type": "DYNAMIC_V0",
        "timestamp": "20240101000000000",
        "bloomFilter": b"AAAA",
        "isDeleted": False,
    }
    assert change.keys.to_pylist() == [bloom_key("p", "new")]
    assert change.deletes.to_pylist() == [bloom_key("p", "old")]


def test_file_ids_of_every_form_are_kept():
    ids = [
        "d5f9a2c5-6d0b-4219-9edc-1bc2e2d22082-0",
        "d5f9a2c5-6d0b-4219-9edc-1bc2e2d22082-12",
        "d5f9a2c5-6d0b-4219-9edc-1bc2e2d22082",
        "D5F9A2C5-6d0b-4219-9edc-1bc2e2d22082-0",
        "file-7",
    ]
    values = encode_locations(["p=p1"] * 5, ids, 1794767405287)
    bounds, raw = offsets(values), payload(values)
    rows = decode_records(METADATA_RECORD, raw, bounds[:-1], bounds[1:], path="x").to_pylist()
    found = [row["recordIndexMetadata"] for row in rows]
    assert [one["fileIndex"] for one in found] == [0, 12, -1, -1, -1]
    assert [one["fileIdEncoding"] for one in found] == [0, 0, 0, 1, 1]
    assert [one["fileId"] for one in found] == ["", "", "", ids[3], ids[4]]
    assert found[0]["fileIdHighBits"] == -3028210305608236519
    assert found[0]["fileIdLowBits"] == -6999689196997566334
    assert found[0]["position"] is None
