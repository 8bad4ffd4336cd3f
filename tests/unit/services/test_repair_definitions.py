"""The files that say what indexes are on are damaged: queries go on, and repair puts them back."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.errors import CorruptFile, IndexUnusable, LakedexError
from lakedex.index.definitions import COPY_PATH
from lakedex.services.index_creating import create_index
from lakedex.services.repairing import repair_table
from tests.support.secondary import Trips
from tests.support.write_lab import Lab, row, source

DEFINITIONS = ".hoodie/.index_defs/index.json"
OWN_DEFINITIONS = ".hoodie/.index_defs/lakedex.json"
PROPERTIES = ".hoodie/metadata/.hoodie/hoodie.properties"
ROWS = [(f"k{n}", 1, f"r{n % 3}", "oslo" if n % 2 else "rio") for n in range(12)]
NAMED = ["secondary_index_composite-both", "secondary_index_idx_rider", "expr_index_up"]


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Trips:
    made = Trips(tmp_path_factory.mktemp("made") / "t", "mor")
    made.writer.insert(made.rows(*ROWS))
    made.index("rider")
    create_index(made.writer, "both", ["city", "rider"])
    create_index(made.writer, "up", "upper(city)")
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    return template.copied(tmp_path / "t")


def damage(path: str, name: str, how: str) -> None:
    file = Path(path) / name
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: 0 if how == "empty" else -40])


def write_one(trips: Trips) -> None:
    trips.writer.upsert(trips.rows(("k1", 2, "r9", "oslo")))
    assert trips.found("rider = 'r9'") == ["k1"]
    trips.assert_whole()


@pytest.mark.parametrize("how", ["cut", "gone"])
@pytest.mark.parametrize("name", [DEFINITIONS, OWN_DEFINITIONS])
def test_queries_go_on_and_repair_puts_definitions_back(trips, name, how):
    damage(trips.path, name, how)
    table = trips.table()
    assert trips.found("rider = 'r0' and city = 'rio'") == ["k0", "k6"]
    report = table.explain("rider = 'r0'")
    assert len(report.files) == report.total
    assert f"metadata table not used: {name}" in str(report)
    assert {*NAMED} <= {each.name for each in table.indexes()}
    with pytest.raises(CorruptFile, match=name):
        trips.writer.upsert(trips.rows(("k1", 2, "r9", "oslo")))
    done = repair_table(trips.writer)
    assert (done.before.ok, done.ok, done.dropped) == (False, True, ())
    assert {*NAMED} <= {*trips.table().snapshot.config.metadata_partitions}
    assert trips.table().snapshot.definitions["secondary_index_idx_rider"].source_fields == (
        "rider",
    )
    write_one(trips)


def test_an_index_that_nobody_knows_the_columns_of_is_dropped_and_named(trips):
    for name in (DEFINITIONS, COPY_PATH):
        damage(trips.path, name, "cut")
    done = repair_table(trips.writer)
    assert done.ok
    assert done.dropped == ("expr_index_up", "secondary_index_idx_rider")
    assert "secondary_index_idx_rider: dropped, as its definition is lost" in str(done)
    assert NAMED[0] in trips.table().snapshot.config.metadata_partitions
    write_one(trips)
    trips.index("rider")
    trips.assert_whole()


# A record index by partition is looked up in vain as one over the whole table.
@pytest.mark.parametrize("kept", [True, False])
def test_keys_are_found_without_the_definition_of_a_record_index(tmp_path, kept):
    lab = Lab(tmp_path, "cow", "RECORD_LEVEL_INDEX")
    rows = [row(f"k{n}", f"p{n % 3}", 1) for n in range(30)]
    lab.writer.insert(source(rows))
    damage(lab.path, DEFINITIONS, "gone")
    if not kept:
        damage(lab.path, COPY_PATH, "gone")
    assert lab.rows("id = 'k7'") == [rows[7]]
    assert repair_table(lab.writer).ok
    lab.holds(rows, "id = 'k7'")
    assert lakedex.open(lab.path).snapshot.definitions["record_index"].is_partitioned
    lab.writer.upsert(source([row("k7", "p1", 2)]))
    assert lab.rows("id = 'k7'") == [row("k7", "p1", 2)]


@pytest.mark.parametrize("how", ["cut", "empty", "gone"])
def test_damaged_properties_of_the_metadata_table_are_no_end(trips, how):
    damage(trips.path, PROPERTIES, how)
    if how == "cut":
        Path(trips.path, PROPERTIES).write_bytes(b"\x00\xff no properties")
    assert trips.found("rider = 'r0' and city = 'rio'") == ["k0", "k6"]
    with pytest.raises(LakedexError, match="lakedex repair") as refused:
        trips.writer.upsert(trips.rows(("k1", 2, "r9", "oslo")))
    assert refused.type is IndexUnusable
    assert repair_table(trips.writer).ok
    assert {*NAMED} <= {*trips.table().snapshot.config.metadata_partitions}
    write_one(trips)


def test_a_damaged_history_of_the_metadata_table_is_no_end(trips):
    history = Path(trips.path, ".hoodie/metadata/.hoodie/timeline/history")
    history.mkdir(exist_ok=True)
    (history / "_version_").write_bytes(b"")
    assert trips.found("rider = 'r0' and city = 'rio'") == ["k0", "k6"]
    assert repair_table(trips.writer).ok
    assert {*NAMED} <= {*trips.table().snapshot.config.metadata_partitions}
    write_one(trips)
