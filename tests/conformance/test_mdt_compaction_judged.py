"""Metadata tables that lakedex compacted or made, read by hudi-rs and held against the data."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from lakedex.config import keys as names
from lakedex.engine import LocalEngine
from lakedex.format.avro import METADATA_RECORD, decode_distinct
from lakedex.index.kinds.files.kind import files_change
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.index.metadata_table.compaction import compact_if_due
from lakedex.index.metadata_table.creation import PartitionPlan, create_metadata_table
from lakedex.index.metadata_table.group_merge import merged_records
from lakedex.index.metadata_table.resharding import reshard_entries
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Timeline, load_table_config, new_instant_time, update_properties
from tests.support.sample_tables import changed_cow, changed_mor, make_rows, sorted_rows

GOLDEN = ["cow_trips_all_indexes", "mor_trips_all_indexes", "sharded_record_index", "archived"]


def compact(path, next_time):
    address = StorageAddress.of(str(path))
    return compact_if_due(
        address, LocalEngine(2), max_delta_commits=1, next_time=next_time, has_pending=False
    )


def hudi_rs_rows(path):
    return pa.Table.from_batches(HudiTable(str(path)).read())


@pytest.mark.parametrize("make", [changed_cow, changed_mor], ids=["cow", "mor"])
@pytest.mark.parametrize("layout", ["log", "base"])
def test_a_compacted_metadata_table_serves_both_readers(tmp_path, make, layout):
    builder = make(tmp_path / "sample", metadata=layout)
    clock = builder._clock
    before = contents(builder.path)
    assert compact(builder.path, clock.next) is not None
    builder.commit([("a", make_rows(300, 320))])
    check(builder)
    grown = contents(builder.path)
    assert set(grown) == set(before)
    assert compact(builder.path, clock.next) is not None
    address = StorageAddress.of(str(builder.path))
    reshard_entries(address, LocalEngine(2), "record_index", 6, next_time=clock.next)
    check(builder)
    after = contents(builder.path)
    assert after == grown
    filter_text = "id = 'k305'"
    found = lakedex.open(str(builder.path)).to_arrow(filter=filter_text)
    assert found["id"].to_pylist() == ["k305"]
    report = lakedex.open(str(builder.path)).explain(filter_text)
    assert len(report.files) == 1


def check(builder):
    opened = lakedex.open(str(builder.path))
    assert opened.snapshot.metadata_problem is None
    assert sorted_rows(opened.to_arrow()) == sorted_rows(builder.rows())
    assert sorted_rows(hudi_rs_rows(builder.path)) == sorted_rows(builder.rows())
    assert [str(problem) for problem in opened.verify().problems] == []


def contents(path):
    table = lakedex.open(str(path))
    partitions = load_table_config(StorageAddress.of(str(path)).open()).metadata_partitions
    return {name: by_key(table.metadata(name)) for name in partitions}


def by_key(rows):
    return sorted(rows.to_pylist(), key=lambda row: row["key"])


@pytest.mark.parametrize("name", GOLDEN)
def test_compacting_what_hudi_wrote_changes_no_record(golden, tmp_path, name):
    path = tmp_path / name
    shutil.copytree(golden(name).path, path)
    before = contents(path)
    rows = plain_rows(hudi_rs_rows(path))
    timeline = lakedex.open(str(path)).timeline
    times = iter(range(10**6))
    compacted = compact(path, lambda: new_instant_time(timeline, 1900000000000 + next(times)))
    assert compacted is not None
    assert contents(path) == before
    storage = StorageAddress.of(str(path)).open()
    metadata = MetadataTable(storage, Timeline.load(storage, load_table_config(storage)))
    # A snapshot does not look at what is newer than itself: the next commit will.
    metadata._pin = "3"
    assert {group.base_instant for group in metadata.groups("files")} == {compacted}
    for partition, records in before.items():
        assert by_key(metadata.scan(partition)) == records
    assert plain_rows(hudi_rs_rows(path)) == rows


def plain_rows(rows):
    return sorted(map(str, rows.to_pylist()))


def test_hudi_rs_lists_files_by_a_metadata_table_that_was_made_later(tmp_path):
    builder = changed_mor(tmp_path / "sample", metadata=None)
    address = StorageAddress.of(str(builder.path))
    storage = address.open()
    added = {}
    for info in storage.list_recursive():
        folder, _, name = info.path.rpartition("/")
        if not info.path.startswith(".hoodie") and name != ".hoodie_partition_metadata":
            added.setdefault(folder, {})[name] = info.size_bytes
    config = load_table_config(storage)
    plan = {"files": PartitionPlan(1, files_change(added))}
    create_metadata_table(address, LocalEngine(1), config, plan, next_time=builder._clock.next)
    update_properties(storage, {names.METADATA_PARTITIONS: "files"})
    check(builder)


@pytest.mark.parametrize("name", ["v8_mor", "v6_mor", "mor_trips_all_indexes"])
def test_records_of_older_schemas_are_written_in_the_newest(golden, name):
    storage = StorageAddress.of(golden(name).path).open()
    config = load_table_config(storage)
    metadata = MetadataTable(storage, Timeline.load(storage, config))
    for partition in config.metadata_partitions:
        described = metadata_partition(partition)
        merged = []
        for group in metadata.groups(partition):
            reader = metadata.group_reader(partition, group.file_id)
            for records in merged_records(described, reader):
                assert records.keys.to_pylist() == sorted(set(records.keys.to_pylist()))
                merged += zip(
                    records.keys.cast(pa.large_string()).to_pylist(),
                    decode_distinct(METADATA_RECORD, records.values, path="x").to_pylist(),
                    strict=True,
                )
        expected = {row.pop("key"): row for row in metadata.scan(partition).to_pylist()}
        found = {key: {name: row[name] for name in expected[key]} for key, row in merged}
        for row in [*expected.values(), *found.values()]:
            flags = row.get("ColumnStatsMetadata") or {}
            flags["isTightBound"] = bool(flags.get("isTightBound"))
            if "filesystemMetadata" in row:
                row["filesystemMetadata"] = dict(row["filesystemMetadata"])
        assert found == expected
