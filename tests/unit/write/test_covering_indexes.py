"""Secondary indexes whose entries name the file groups of their rows: one step instead of two."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.index.kinds.record_index.lookup import distinct_locations
from lakedex.index.kinds.secondary.collect import PairCollector
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.services.clustering import cluster_table
from lakedex.services.index_creating import create_index, refresh_index
from tests.support.secondary import Trips, pairs

INDEX = "secondary_index_idx_rider"
COVERING = {"lakedex.covering": "true"}
ONE_STEP = "that the entries name"


@pytest.fixture(scope="module", params=["cow", "mor"])
def template(request, tmp_path_factory) -> Trips:
    """Six trips of four riders in three cities, with a covering index on the rider."""
    made = Trips(tmp_path_factory.mktemp(request.param) / "t", request.param)
    made.writer.insert(
        made.rows(
            ("a1", 1, "ann", "oslo"),
            ("a2", 1, "ann", "rio"),
            ("b1", 1, "bob", "oslo"),
            ("c1", 1, None, "rio"),
            ("d1", 1, "", "lima"),
            ("e1", 1, "eve", "lima"),
        )
    )
    create_index(made.writer, "idx_rider", "rider", options=COVERING)
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    """A copy of the template."""
    return template.copied(tmp_path / "t")


def reason(trips: Trips, predicate: str) -> str:
    """What the index says; the rows are those of a scan, in the slices that it leaves."""
    options = lakedex.ReadOptions(weighs_cost=False)
    table = lakedex.open(trips.path, options=options)
    trips.found(predicate)
    report = table.explain(predicate)
    step = next(step for step in report.steps if step.index == INDEX)
    rows = table.to_arrow(predicate, ["_hoodie_partition_path"])
    wanted = set(rows["_hoodie_partition_path"].to_pylist())
    assert step.used, step.reason
    assert wanted <= {each.partition for each in report.files}
    assert step.after == len(wanted)
    return step.reason


def assert_places_are_right(trips: Trips) -> None:
    """Every entry names the file group in which its row is."""
    table = trips.table()
    metadata = table.snapshot.metadata
    entries = metadata.scan_ranges(INDEX, [(b"", None)], with_places=True)
    assert sorted(entries["key"].to_pylist()) == trips.entries("rider")
    columns = ["_hoodie_record_key", "_hoodie_partition_path"]
    rows = table.to_arrow(None, columns)
    where = dict(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    for at, key in enumerate(entries["key"].to_pylist()):
        (place,) = distinct_locations(entries.slice(at, 1))
        assert place.partition == where[key.rpartition("$")[2]]
        assert place in {each.id for each in table.snapshot.slices}


def test_a_lookup_takes_one_step(trips):
    assert ONE_STEP in reason(trips, "rider = 'bob'")
    assert ONE_STEP in reason(trips, "rider IS NULL")
    assert ONE_STEP in reason(trips, "rider LIKE 'e%'")
    assert_places_are_right(trips)
    trips.assert_whole()


def test_updates_deletes_and_moves_keep_the_places_right(trips):
    trips.writer.upsert(
        trips.rows(
            ("a1", 2, "zoe", "oslo"),
            ("a2", 2, "ann", "cairo"),
            ("b1", 2, "bob", "lima"),
            ("f1", 2, "bob", "rio"),
        )
    )
    trips.writer.delete(trips.rows(("e1", 9, None, "lima")))
    assert trips.found("rider = 'bob'") == ["b1", "f1"]
    for value in ("bob", "ann", "zoe"):
        assert ONE_STEP in reason(trips, f"rider = '{value}'")
    assert_places_are_right(trips)
    trips.writer.insert_overwrite(trips.rows(("b1", 3, "bob", "lima"), ("g1", 3, None, "lima")))
    assert_places_are_right(trips)
    assert ONE_STEP in reason(trips, "rider = 'bob'")
    trips.assert_whole()


def test_after_a_clustering_the_record_index_is_asked_again(trips):
    cluster_table(trips.writer, "rider")
    assert ONE_STEP not in reason(trips, "rider = 'bob'")
    refresh_index(trips.writer, "idx_rider")
    assert ONE_STEP in reason(trips, "rider = 'bob'")
    assert trips.table().snapshot.definitions[INDEX].is_covering


def test_places_are_not_believed_after_a_write_that_says_nothing_of_them(trips, monkeypatch):
    """As after a write of another engine, which may move a row and leave its entry alone."""
    with monkeypatch.context() as patch:
        patch.setattr("lakedex.index.kinds.secondary.kind.covering_note", lambda *_: {})
        trips.writer.upsert(trips.rows(("e1", 2, "eve", "oslo")))
    assert ONE_STEP not in reason(trips, "rider = 'eve'")
    trips.writer.upsert(trips.rows(("h1", 2, "hal", "oslo")))
    assert ONE_STEP not in reason(trips, "rider = 'hal'")
    refresh_index(trips.writer, "idx_rider")
    assert ONE_STEP in reason(trips, "rider = 'hal'")


def test_verify_names_entries_that_tell_a_wrong_place(template, tmp_path, monkeypatch):
    made = template.copied(tmp_path / "t")
    first = made.table().snapshot.slices[0].id

    add_rows = PairCollector.add_rows
    monkeypatch.setattr(
        PairCollector,
        "add_rows",
        lambda self, changed: add_rows(self, replace(changed, place=first)),
    )
    refresh_index(made.writer, "idx_rider")
    rows = made.table().to_arrow(None, ["uuid", "_hoodie_partition_path"])
    elsewhere = [
        row["uuid"] for row in rows.to_pylist() if row["_hoodie_partition_path"] != first.partition
    ]
    problems = made.table().verify([INDEX]).problems
    assert sorted(each.key.rpartition("$")[2] for each in problems) == sorted(elsewhere)
    assert all("its entry names" in str(each) for each in problems)


def test_entries_are_those_of_any_other_index(trips):
    expected = {"a1": "ann", "a2": "ann", "b1": "bob", "c1": None, "d1": "", "e1": "eve"}
    assert trips.entries("rider") == pairs(expected)
    assert RECORD_INDEX_PAYLOAD not in trips.table().metadata(INDEX).column_names


def test_the_option_is_checked(trips):
    for options, name in (({"lakedex.covering": "maybe"}, "idx_ts"), (COVERING, "column_stats")):
        with pytest.raises(InvalidInput, match=r"lakedex\.covering is true or false"):
            create_index(trips.writer, name, "ts", options=options)
