"""`lakedex read`: rows on the screen and in files."""

from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as pq
import pytest


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def trips(golden):
    return golden("cow_trips_all_indexes").path


def test_json_rows_are_those_that_hudi_reads(golden, lakedex):
    table = golden("cow_trips_all_indexes")
    result = lakedex("read", table.path, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    expected = [
        {name: value for name, value in row.items() if not name.startswith("_hoodie")}
        for row in table.expected["rows"]
    ]
    by_key = sorted(lines(result.stdout), key=lambda row: str(row["uuid"]))
    assert by_key == sorted(expected, key=lambda row: row["uuid"])


def test_filter_columns_and_limit(trips, lakedex):
    arguments = ("--columns", "uuid, fare", "--filter", "fare > 1000", "--json")
    found = lines(lakedex("read", trips, *arguments).stdout)
    assert sorted(row["uuid"] for row in found) == ["k0002", "k0003"]
    assert all(list(row) == ["uuid", "fare"] for row in found)
    assert len(lines(lakedex("read", trips, *arguments, "--limit", "1").stdout)) == 1
    assert lakedex("read", trips, *arguments, "--limit", "0").stdout == ""


def test_meta_columns_on_demand(trips, lakedex):
    row = lines(lakedex("read", trips, "--meta", "--limit", "1", "--json").stdout)[0]
    assert list(row)[:5] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    ]


def test_time_travel_reads_the_rows_of_then(golden, lakedex):
    path = golden("mor_trips_all_indexes").path
    timeline = json.loads(lakedex("show", path, "--timeline", "--json").stdout)["timeline"]
    found = lakedex("read", path, "--as-of", timeline[0]["time"], "--json").stdout
    assert len(lines(found)) == 40


def test_the_screen_shows_twenty_rows_and_says_that_there_are_more(trips, lakedex):
    result = lakedex("read", trips, "--columns", "uuid")
    assert result.stdout.count("k00") == 20
    assert "only 20 rows are shown" in result.stderr
    result = lakedex("read", trips, "--columns", "uuid", "--limit", "48")
    assert result.stdout.count("k00") == 48
    assert result.stderr == ""


def test_values_of_every_type_are_plain_in_json(golden, lakedex):
    table = golden("cow_nonpartitioned")
    rows = lines(lakedex("read", table.path, "--json").stdout)
    by_key = {(row["k1"], row["k2"]): row for row in rows}
    assert len(by_key) == len(rows) == table.expected["row_count"]
    for expected in table.expected["rows"]:
        row = by_key[expected["k1"], expected["k2"]]
        for name in ("b", "i", "l", "f", "d", "s", "bin", "dt", "dec_big", "arr", "m"):
            assert row[name] == expected[name], name


def test_csv_has_a_line_for_each_row_and_nested_values_as_json(golden, lakedex):
    path = golden("cow_nonpartitioned").path
    result = lakedex("read", path, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    expected = lines(lakedex("read", path, "--json").stdout)
    assert len(rows) == 32
    for row, plain in zip(rows, expected, strict=True):
        assert row["s"] == (plain["s"] or "")
        assert row["tsz"] == (plain["tsz"] or "")
        assert (json.loads(row["st"]) if row["st"] else None) == plain["st"]


def test_parquet_holds_the_same_rows(golden, lakedex, tmp_path):
    table = golden("cow_nonpartitioned")
    output = tmp_path / "rows.parquet"
    result = lakedex("read", table.path, "--output", str(output))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "wrote 32 rows" in result.stderr
    assert pq.read_table(output).num_rows == 32
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_query_without_rows_writes_a_file_without_rows(trips, lakedex, tmp_path):
    for name, content in (("none.csv", '"uuid"\n'), ("none.json", "")):
        arguments = ("--filter", "fare < -1", "--columns", "uuid", "--output", str(tmp_path / name))
        assert lakedex("read", trips, *arguments).exit_code == 0
        assert (tmp_path / name).read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--columns", "nope"], "no column 'nope'"),
        (["--format", "parquet"], "needs --output"),
        (["--output", "rows.unknown"], "say with --format"),
        (["--output", "x.csv", "--format", "table"], "needs the format"),
        (["--json", "--format", "csv"], "not both"),
        (["--output", "no/such/folder/rows.csv"], "no folder"),
        (["--filter", "fare >"], "unexpected the end"),
    ],
)
def test_wrong_arguments_are_one_clear_line(trips, lakedex, arguments, words):
    result = lakedex("read", trips, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr.splitlines()[0]
