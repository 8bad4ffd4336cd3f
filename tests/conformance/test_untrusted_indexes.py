"""Indexes that are incomplete, stale or broken: the answer stays right, and the report says why."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])


def step(table, where, index):
    return next(step for step in table.explain(where).steps if step.index == index)


def keys(table, where):
    found = table.to_arrow(where, columns=["_hoodie_record_key"])
    return sorted(found["_hoodie_record_key"].to_pylist())


def test_a_key_that_stands_twice_is_found_twice(tmp_path):
    # case B71: the record index has one entry for a key that was inserted twice
    builder = TableBuilder(
        tmp_path / "t", SCHEMA, record_key="id", indexes=["record_index", "column_stats"]
    )
    for value in (1, 2):
        row = pa.table({"id": ["a", f"b{value}"], "v": [value, value]}, schema=SCHEMA)
        builder.commit([((), row)])
    table = lakedex.open(builder.finish())
    assert sorted(table.to_arrow("id = 'a'")["v"].to_pylist()) == [1, 2]
    reason = step(table, "id = 'a'", "record_index")
    assert not reason.used
    assert "3 entries for 4 rows" in reason.reason


def test_a_record_index_that_misses_a_key_is_not_asked(damage):
    damaged = damage("cow_trips_all_indexes")
    damaged.remove("record_index", ["k0003"])
    table = damaged.open()
    assert keys(table, "uuid = 'k0003'") == ["k0003"]
    assert not step(table, "uuid = 'k0003'", "record_index").used


def test_a_secondary_index_that_was_not_kept_up_is_not_asked(damage):
    # case B60: an entry that is missing is detected by the counts
    damaged = damage("cow_trips_all_indexes")
    expected = keys(damaged.open(), "city = 'austin'")
    gone = next(key for key in damaged.keys("secondary_index_idx_city") if "austin" in key)
    damaged.remove("secondary_index_idx_city", [gone])
    table = damaged.open()
    assert keys(table, "city = 'austin'") == expected
    assert "not kept up" in step(table, "city = 'austin'", "secondary_index_idx_city").reason


@pytest.mark.parametrize("partition", ["record_index", "column_stats", "secondary_index_idx_city"])
def test_an_index_whose_files_are_broken_costs_time_and_no_rows(damage, partition):
    # case B36: a damaged HFile gives a clear reason and an unpruned query
    damaged = damage("cow_trips_all_indexes")
    expected = {
        where: keys(damaged.open(), where) for where in ("uuid = 'k0003'", "city = 'austin'")
    }
    for file in (damaged.metadata_root / partition).iterdir():
        if file.suffix == ".hfile" or ".log." in file.name:
            file.write_bytes(file.read_bytes()[:-50])
    table = damaged.open()
    for where, wanted in expected.items():
        assert keys(table, where) == wanted


def test_a_metadata_table_that_cannot_be_opened_leaves_the_file_listing(damage):
    damaged = damage("cow_trips_all_indexes")
    expected = keys(damaged.open(), "uuid = 'k0003'")
    (damaged.metadata_root / ".hoodie" / "hoodie.properties").write_bytes(b"nonsense")
    table = damaged.open()
    assert keys(table, "uuid = 'k0003'") == expected
    assert any("metadata table not used" in note for note in table.explain("uuid = 'x'").notes)


def test_an_index_that_is_being_built_is_listed_and_not_asked(damage):
    damaged = damage("cow_trips_all_indexes")
    properties = damaged.path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    names = text.split("hoodie.table.metadata.partitions=")[1].split("\n")[0]
    fewer = ",".join(name for name in names.split(",") if name != "record_index")
    text = text.replace(f"partitions={names}", f"partitions={fewer}")
    text = text.replace("partitions.inflight=", "partitions.inflight=record_index")
    properties.write_text(text)
    table = damaged.open()
    assert keys(table, "uuid = 'k0003'") == ["k0003"]
    assert "not live" in step(table, "uuid = 'k0003'", "record_index").reason
