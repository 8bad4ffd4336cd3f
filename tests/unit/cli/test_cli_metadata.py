"""`lakedex metadata`: merged records, flattened."""

from __future__ import annotations

import json

import pytest

from lakedex.services.index_creating import create_index
from tests.support.secondary import Trips


def records(result):
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def table(golden):
    return golden("cow_trips_all_indexes")


def test_every_partition_has_the_keys_that_hudi_reads(table, lakedex):
    for name, expected in table.expected["metadata_rows"].items():
        found = records(lakedex("metadata", table.path, name, "--json"))
        assert sorted(each["key"] for each in found) == sorted(each["key"] for each in expected)
        assert lakedex("metadata", table.path, name).exit_code == 0


def test_a_record_location_names_its_file_group(table, lakedex):
    found = records(lakedex("metadata", table.path, "record_index", "--key", "k0003", "--json"))
    assert [(each["key"], each["type"]) for each in found] == [("k0003", "record_index")]
    report = json.loads(
        lakedex("explain", table.path, "uuid = 'k0003'", "--files", "--json").stdout
    )
    assert found[0]["fileId"] == report["files"][0]["file_id"]
    assert found[0]["partitionName"] == report["files"][0]["partition"]


def test_statistics_show_the_value_and_not_the_union(table, lakedex):
    found = records(lakedex("metadata", table.path, "column_stats", "--json"))
    ranges = {(each["minValue"], each["maxValue"]) for each in found if each["columnName"] == "ts"}
    assert all(isinstance(low, int) and isinstance(high, int) for low, high in ranges)


def test_secondary_entries_tell_their_record_key(table, lakedex):
    arguments = ("secondary_index_idx_city", "--prefix", "a\\$b$", "--json")
    found = records(lakedex("metadata", table.path, *arguments))
    assert sorted(each["recordKey"] for each in found) == ["k0017", "k0026"]


def test_a_bloom_filter_keeps_its_own_type_beside_the_type_of_the_record(table, lakedex):
    arguments = ("bloom_filters", "--limit", "1", "--json")
    (found,) = records(lakedex("metadata", table.path, *arguments))
    assert (found["type"], found["filterType"]) == ("bloom_filter", "DYNAMIC_V0")


def test_files_are_printed_one_a_line(table, lakedex):
    result = lakedex("metadata", table.path, "files")
    names = [name for name in table.expected["files"] if name.startswith("state=")]
    bases = [name.rpartition("/")[2] for name in names if name.endswith(".parquet")]
    assert bases
    assert all(name in result.stdout for name in bases)


def test_limit_says_how_many_there_are(table, lakedex):
    result = lakedex("metadata", table.path, "record_index", "--limit", "2")
    assert result.stdout.splitlines()[-1] == "2 of 48 records"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "no metadata partition is called 'nope'"),
        (["record_index", "--key", "a", "--prefix", "b"], "not both"),
    ],
)
def test_wrong_questions_are_one_line(table, lakedex, arguments, words):
    result = lakedex("metadata", table.path, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_entries_on_several_columns_tell_their_record_keys(tmp_path, lakedex):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(("k$1", 1, "ann", "oslo"), ("k2", 1, None, "o$lo")))
    create_index(trips.writer, "both", ("city", "rider"))
    found = records(lakedex("metadata", trips.path, "secondary_index_composite-both", "--json"))
    assert sorted(each["recordKey"] for each in found) == ["k$1", "k2"]
