"""Each index damaged on purpose: repair puts that right, and changes nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable
from typer.testing import CliRunner

import lakedex
from lakedex.cli.main import app
from lakedex.services.index_creating import create_index
from lakedex.services.repairing import RepairReport, repair_table
from tests.support import damage as damages
from tests.support.damage import Damage
from tests.support.secondary import Trips

SCHEMA = pa.schema(
    [("uuid", pa.string()), ("ts", pa.int64()), ("rider", pa.string()), ("city", pa.string())]
)
ROWS = [(f"k{n}", 1, f"r{n % 3}", "oslo" if n % 2 else "rio") for n in range(40)]
ALL = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


@pytest.fixture(scope="module", params=["cow", "mor"])
def template(request, tmp_path_factory) -> Trips:
    made = Trips(tmp_path_factory.mktemp("made") / "t", request.param, schema=SCHEMA)
    writer = made.writer.with_options(ALL)
    writer.insert(made.rows(*ROWS))
    # The metadata table has base files, and log files after them.
    compacting = writer.with_options({"hoodie.metadata.compact.max.delta.commits": "1"})
    compacting.upsert(made.rows(*[(key, 2, rider, city) for key, _, rider, city in ROWS[:9]]))
    writer.upsert(made.rows(*[(key, 3, rider, city) for key, _, rider, city in ROWS[20:24]]))
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    return template.copied(tmp_path / "t")


def keys_of(path: str) -> list[str]:
    return sorted(lakedex.open(path).to_arrow(columns=["uuid"])["uuid"].to_pylist())


def repaired(trips: Trips) -> RepairReport:
    """The report of a repair after which everything agrees and the rows are as they were."""
    rows = sorted(row[0] for row in ROWS)
    data = {file: file.read_bytes() for file in Path(trips.path).glob("*/*.parquet")}
    done = repair_table(trips.writer)
    assert not done.before.ok
    assert done.ok, str(done)
    assert lakedex.open(trips.path).verify().ok
    assert keys_of(trips.path) == rows
    assert sum(batch.num_rows for batch in HudiTable(trips.path).read()) == len(rows)
    assert {file: file.read_bytes() for file in Path(trips.path).glob("*/*.parquet")} == data
    trips.writer.upsert(trips.rows(("new", 1, "r9", "oslo"), ("k1", 9, "r9", "oslo")))
    assert keys_of(trips.path) == sorted([*rows, "new"])
    assert lakedex.open(trips.path).verify().ok
    return done


def test_a_table_that_is_right_is_left_as_it_is(trips):
    before = {file: file.read_bytes() for file in Path(trips.path).rglob("*") if file.is_file()}
    report = repair_table(trips.writer)
    assert report.ok
    assert "nothing to repair" in str(report)
    after = {file: file.read_bytes() for file in Path(trips.path).rglob("*") if file.is_file()}
    assert after == before


def test_entries_of_the_record_index_are_repaired_one_by_one(trips):
    damage = Damage(Path(trips.path))
    keys = damage.keys("record_index")
    donor = damage.record("record_index", "k0")
    damage.write("record_index", {"k1": donor, "nobody": donor}, ["k7"])
    assert {"k1", "k7"} <= {*keys}
    report = repaired(trips)
    assert report.repaired == {"record_index": 3}
    assert report.rebuilt == ()


@pytest.mark.parametrize("columns", [["rider"], ["city", "rider"]])
def test_entries_of_secondary_indexes_are_repaired_one_by_one(trips, columns):
    create_index(trips.writer, "idx", columns)
    (name,) = [n for n in trips.table().snapshot.definitions if n.startswith("secondary_index_")]
    damage = Damage(Path(trips.path))
    keys = sorted(damage.keys(name))
    stale = keys[4].rpartition("$")[0] + "$nobody"
    if len(columns) == 1:
        damage.write(name, {stale: damage.record(name, keys[4])}, keys[:2])
    else:
        damage.write(name, {}, keys[:2])
    files = {*Path(trips.path, ".hoodie/metadata", name).iterdir()}
    report = repaired(trips)
    assert report.repaired == {name: 3 if len(columns) == 1 else 2}
    assert report.rebuilt == ()
    assert files < {*Path(trips.path, ".hoodie/metadata", name).iterdir()}


def test_a_secondary_index_with_an_entry_in_a_wrong_place_is_built_anew(trips, monkeypatch):
    create_index(trips.writer, "idx", "rider")
    damage, name = Damage(Path(trips.path)), "secondary_index_idx"
    count = len(trips.table().snapshot.metadata.groups(name))
    own = damages._group(name, "r0$k0", count)
    record = damage.record(name, "r0$k0")
    monkeypatch.setattr(damages, "_group", lambda _name, _key, count: (own + 1) % count)
    damage.write(name, {"r0$k0": record}, [])
    assert repaired(trips).rebuilt == (name,)


def test_the_listing_is_repaired_file_by_file(trips):
    damage = Damage(Path(trips.path))

    def forget_one(record):
        record["filesystemMetadata"] = record["filesystemMetadata"][1:]

    partition = next(key for key in damage.keys("files") if not key.startswith("_"))
    damage.edit("files", partition, forget_one)
    report = repaired(trips)
    assert report.repaired == {"files": 1}


@pytest.mark.parametrize("index", ["column_stats", "bloom_filters"])
def test_an_index_whose_files_all_lost_their_entries(trips, index):
    damage = Damage(Path(trips.path))
    damage.remove(index, damage.keys(index))
    report = repaired(trips)
    assert index in report.repaired
    assert report.rebuilt == ()


@pytest.mark.parametrize("index", ["record_index", "column_stats", "files"])
def test_a_broken_file_of_the_metadata_table_does_not_brick_the_table(trips, index):
    for file in (Path(trips.path) / ".hoodie/metadata" / index).glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:50])
    report = repaired(trips)
    assert index in report.rebuilt


def test_what_the_listing_lost_is_found_before_other_indexes_are_judged(trips):
    # Held against a listing without files, all entries of all other indexes would look stale.
    damage = Damage(Path(trips.path))
    damage.remove("files", [key for key in damage.keys("files") if not key.startswith("__")])
    report = repaired(trips)
    assert report.repaired.keys() == {"files"}


def test_a_listing_whose_logs_are_torn_is_built_anew(trips):
    for file in (Path(trips.path) / ".hoodie/metadata/files").glob(".*.log.*"):
        file.write_bytes(b"#HUDI#" + b"\xff" * 40)
    assert "files" in repaired(trips).rebuilt


def test_the_command_repairs_and_says_what_it_did(trips):
    damage = Damage(Path(trips.path))
    damage.remove("record_index", ["k7"])
    done = CliRunner().invoke(app, ["repair", trips.path])
    assert done.exit_code == 0
    assert done.stdout == "1 problem found, all repaired\n  record_index: 1 entry repaired\n"
    again = CliRunner().invoke(app, ["repair", trips.path, "--json"])
    assert json.loads(again.stdout)["ok"]
