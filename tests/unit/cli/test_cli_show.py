"""`lakedex show` and `lakedex indexes`: the figures are those of the table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakedex.config.properties_text import table_checksum


def test_show_tells_what_the_table_is(golden, lakedex):
    table = golden("mor_trips_all_indexes")
    result = lakedex("show", table.path, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert set(answer) == {"table", "files", "schema", "timeline", "sizes"}
    assert answer["table"]["name"] == "mor_trips"
    assert answer["table"]["type"] == "MERGE_ON_READ"
    assert answer["table"]["version"] == 9
    assert answer["table"]["record_key_fields"] == ["uuid"]
    assert answer["table"]["partition_fields"] == ["state"]
    assert answer["table"]["ordering_fields"] == ["ts"]
    assert answer["table"]["merge_mode"] == "EVENT_TIME_ORDERING"
    assert answer["table"]["metadata_problem"] is None
    assert sorted(answer["table"]["metadata_partitions"]) == table.expected["metadata_partitions"]
    data_files = [name for name in table.expected["files"] if name.startswith("state=")]
    logs = [name for name in data_files if ".log." in name]
    assert answer["files"]["log_files"] == len(logs)
    assert answer["files"]["file_slices"] == 5


def test_show_lists_the_timeline_with_rows_written(golden, lakedex):
    table = golden("mor_trips_all_indexes")
    answer = json.loads(lakedex("show", table.path, "--timeline", "--json").stdout)
    expected = {entry["instant"] for entry in table.expected["timeline"]}
    assert {instant["time"] for instant in answer["timeline"]} == expected
    writes = [each for each in answer["timeline"] if each["action"] == "deltacommit"]
    first = writes[0]
    assert (first["operation"], first["rows_inserted"], first["files_written"]) == ("INSERT", 40, 3)
    assert sum(instant["rows_deleted"] for instant in writes) == 4
    assert answer["table"]["last_instant"]["time"] == writes[-1]["time"]


def test_show_has_schema_timeline_and_sizes_unless_some_are_named(golden, lakedex):
    path = golden("mor_trips_all_indexes").path
    printed = lakedex("show", path).stdout
    everything = json.loads(lakedex("show", path, "--json").stdout)
    newest = [instant["time"] for instant in everything["timeline"]][-10:]
    assert all(time in printed for time in newest)
    assert all(column["name"] in printed for column in everything["schema"])
    assert all(row["partition"] in printed for row in everything["sizes"])
    named = json.loads(lakedex("show", path, "--schema", "--json").stdout)
    assert set(named) == {"table", "files", "schema"}
    assert named["schema"] == everything["schema"]


def test_a_table_whose_columns_cannot_be_told_is_shown(golden, lakedex, tmp_path):
    table = Path(shutil.copytree(golden("cow_nonpartitioned").path, tmp_path / "t"))
    properties = table / ".hoodie" / "hoodie.properties"
    text = properties.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "create.schema" not in line]
    properties.write_text("\n".join(lines), encoding="utf-8")
    for commit in (table / ".hoodie" / "timeline").glob("*commit"):
        commit.write_bytes(b"broken")
    result = lakedex("show", str(table))
    assert result.exit_code == 0
    assert "the columns are unknown: " in result.stdout


def test_show_limits_the_timeline_to_the_newest_instants(golden, lakedex):
    path = golden("mor_trips_all_indexes").path
    everything = json.loads(lakedex("show", path, "--timeline", "--json").stdout)["timeline"]
    newest = json.loads(lakedex("show", path, "--timeline", "--limit", "2", "--json").stdout)
    assert newest["timeline"] == everything[-2:]
    nothing = json.loads(lakedex("show", path, "--timeline", "--limit", "0", "--json").stdout)
    assert nothing["timeline"] == []


def test_show_as_of_an_instant_sees_the_files_of_then(golden, lakedex):
    path = golden("mor_trips_all_indexes").path
    times = json.loads(lakedex("show", path, "--timeline", "--json").stdout)["timeline"]
    first = times[0]["time"]
    answer = json.loads(lakedex("show", path, "--as-of", first, "--json").stdout)
    assert answer["table"]["last_instant"]["time"] == first
    assert answer["files"]["log_files"] == 0


def test_sizes_by_partition_add_up_to_the_table(golden, lakedex):
    path = golden("mor_trips_all_indexes").path
    answer = json.loads(lakedex("show", path, "--sizes", "--json").stdout)
    names = {row["partition"] for row in answer["sizes"]}
    assert names == {"state=california", "state=new-york", "state=texas"}
    for figure in ("bytes", "file_slices", "base_files", "log_files"):
        assert sum(row[figure] for row in answer["sizes"]) == answer["files"][figure]


def test_show_has_the_schema_with_types(golden, lakedex):
    answer = json.loads(lakedex("show", golden("v6_cow").path, "--schema", "--json").stdout)
    assert answer["schema"][0]["name"] == "_hoodie_commit_time"
    assert {"name": "ts", "type": "int64", "nullable": True} in answer["schema"]


def test_readable_tables_are_not_cut_when_the_output_is_no_terminal(golden, lakedex):
    path = golden("cow_trips_all_indexes").path
    result = lakedex("show", path, "--timeline", "--schema", "--sizes")
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert "\x1b" not in result.stdout
    wide = [line for line in result.stdout.splitlines() if "secondary_index_idx_rider" in line]
    assert "bloom_filters, column_stats" in wide[0]


@pytest.mark.parametrize("name", ["archived", "v6_mor", "v8_mor", "cow_nonpartitioned"])
def test_every_section_is_printed_for_tables_of_every_version(golden, lakedex, name):
    result = lakedex("show", golden(name).path, "--timeline", "--schema", "--sizes")
    assert result.exit_code == 0
    assert golden(name).expected["table_config"]["hoodie.table.name"] in result.stdout


def test_a_name_that_looks_like_markup_or_steers_the_terminal_is_printed_literally(
    golden, lakedex, tmp_path
):
    table = Path(shutil.copytree(golden("cow_nonpartitioned").path, tmp_path / "[b]t"))
    properties = table / ".hoodie" / "hoodie.properties"
    old = golden("cow_nonpartitioned").expected["table_config"]
    name = "[red]x\x1b[31m"
    sums = (old["hoodie.table.checksum"], table_checksum(name, old.get("hoodie.database.name")))
    text = properties.read_text(encoding="utf-8")
    text = text.replace(f"name={old['hoodie.table.name']}\n", "name=[red]x\\u001b[31m\n")
    properties.write_text(text.replace(*map(str, sums)), encoding="utf-8")
    result = lakedex("show", str(table))
    assert result.exit_code == 0
    assert "[red]x\\x1b[31m" in result.stdout
    assert "/[b]t" in result.stdout
    assert "\x1b" not in result.stdout
    assert json.loads(lakedex("show", str(table), "--json").stdout)["table"]["name"] == name


def test_indexes_are_listed_with_state_and_size(golden, lakedex):
    table = golden("cow_trips_all_indexes")
    answer = json.loads(lakedex("indexes", table.path, "--json").stdout)
    assert answer["metadata_problem"] is None
    by_name = {each["name"]: each for each in answer["indexes"]}
    assert sorted(by_name) == table.expected["metadata_partitions"]
    city = by_name["secondary_index_idx_city"]
    assert (city["kind"], city["columns"], city["state"]) == ("secondary_index", ["city"], "live")
    assert city["file_groups"] == 2
    assert city["size_bytes"] > 0
    printed = lakedex("indexes", table.path).stdout
    assert all(name in printed for name in by_name)


def test_a_metadata_table_that_cannot_be_read_is_told_and_the_table_still_shown(
    golden, lakedex, tmp_path
):
    table = Path(shutil.copytree(golden("cow_nonpartitioned").path, tmp_path / "t"))
    (table / ".hoodie" / "metadata" / ".hoodie" / "hoodie.properties").unlink()
    answer = json.loads(lakedex("show", str(table), "--json").stdout)
    assert answer["table"]["metadata_problem"]
    assert answer["files"]["file_slices"] == 1
    assert answer["files"]["listing"].startswith("file listing, as no Hudi table at")
    listed = lakedex("indexes", str(table))
    assert "cannot be read" in listed.stderr
    assert "record_index" in listed.stdout
