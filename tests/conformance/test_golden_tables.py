"""Every table that real Hudi wrote: rows, metadata partitions and queries as Hudi tells them."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import lakedex
from lakedex.filegroup import count_rows, count_rows_of
from tests.support.golden import golden_names, golden_queries

KEY_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path")


def plain(value, *, nested=False):
    """A value as the JSON beside the tables spells it."""
    if isinstance(value, dict):
        return {key: plain(item, nested=True) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: plain(item, nested=True) for key, item in value}
    if isinstance(value, list):
        return [plain(item, nested=True) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return float(value) if nested else str(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value


def user_rows(table: pa.Table) -> list[dict]:
    kept = [n for n in table.column_names if not n.startswith("_hoodie_") or n in KEY_COLUMNS]
    rows = [
        {name: plain(value) for name, value in row.items()}
        for row in table.select(kept).to_pylist()
    ]
    return sorted(rows, key=lambda row: [row[name] for name in KEY_COLUMNS])


def expected_rows(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: [row[name] for name in KEY_COLUMNS])


@pytest.mark.parametrize("name", golden_names())
def test_rows_of_the_latest_snapshot_equal_what_hudi_reads(golden, name):
    fixture = golden(name)
    table = lakedex.open(fixture.path).to_arrow()
    assert user_rows(table) == expected_rows(fixture.expected["rows"])
    assert table.num_rows == fixture.expected["row_count"]


@pytest.mark.parametrize("name", golden_names())
def test_rows_streamed_in_batches_are_the_same_rows(golden, name):
    table = lakedex.open(golden(name).path)
    streamed = pa.Table.from_batches(table.to_batches(), schema=table.schema)
    assert user_rows(streamed) == user_rows(table.to_arrow())


@pytest.mark.parametrize("name", golden_names())
def test_every_metadata_partition_equals_what_hudi_reads(golden, name):
    fixture = golden(name)
    table = lakedex.open(fixture.path)
    for partition, rows in fixture.expected["metadata_rows"].items():
        found = {row["key"]: payload(row) for row in table.metadata(partition).to_pylist()}
        assert found == {row["key"]: row for row in rows}, partition


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def payload(row: dict) -> dict:
    """A metadata record without what the JSON leaves out: nulls and empty file ids."""
    found = without_nulls(plain(row))
    location = found.get("recordIndexMetadata")
    if location and location.get("fileId") == "":
        del location["fileId"]
    return found


@pytest.mark.parametrize("name", golden_names())
def test_rows_are_counted_without_reading_them(golden, name):
    fixture = golden(name)
    snapshot = lakedex.open(fixture.path).snapshot
    counted = sum(count_rows(snapshot.read_context, each) for each in snapshot.slices)
    assert counted == fixture.expected["row_count"]
    assert count_rows_of(snapshot.read_context, snapshot.slices) == counted


@pytest.mark.parametrize("name", golden_names())
def test_meta_columns_tell_file_and_commit_of_every_row(golden, name):
    fixture = golden(name)
    names = ["_hoodie_partition_path", "_hoodie_file_name", "_hoodie_commit_time"]
    rows = lakedex.open(fixture.path).to_arrow(columns=[*names, "_hoodie_record_key"])
    found: dict[tuple, list] = {}
    for row in rows.to_pylist():
        place = tuple(row[column] for column in names)
        found.setdefault(place, []).append(row["_hoodie_record_key"])
    expected = {
        (place["partition"], place["file"], place["commit_time"]): sorted(place["keys"])
        for place in fixture.expected["record_locations"]
    }
    assert {place: sorted(keys) for place, keys in found.items()} == expected


@pytest.mark.parametrize(("name", "query"), golden_queries())
def test_queries_give_the_right_keys_with_and_without_indexes(golden, name, query):
    fixture = golden(name)
    wanted = sorted(query.get("plain", query.get("keys")))
    pruned = lakedex.open(fixture.path)
    unpruned = lakedex.ReadOptions(without_indexes=frozenset(["all"]))
    scanned = lakedex.open(fixture.path, options=unpruned)
    for table in (pruned, scanned):
        keys = table.to_arrow(query["where"], columns=["_hoodie_record_key"])
        assert sorted(keys["_hoodie_record_key"].to_pylist()) == wanted
    assert len(scanned.files(query["where"])) == len(scanned.files())
