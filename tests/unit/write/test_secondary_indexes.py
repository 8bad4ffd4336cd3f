"""Secondary indexes kept up to date by every kind of write, on both table types."""

from __future__ import annotations

import re
import shutil

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.expr.tree import Column, Compare, Literal, Op
from lakedex.index.definitions import IndexDefinition
from lakedex.services.clustering import cluster_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.killing import DieAt, changes_of, finish, start
from tests.support.secondary import Trips, changes_of_newest, pairs

INDEX = "secondary_index_idx_rider"


@pytest.fixture(scope="module", params=["cow", "mor"])
def template(request, tmp_path_factory) -> Trips:
    """Six trips of four riders in two cities, with an index on the rider."""
    made = Trips(tmp_path_factory.mktemp(request.param) / "t", request.param)
    made.writer.insert(
        made.rows(
            ("a1", 1, "ann", "oslo"),
            ("a2", 1, "ann", "rio"),
            ("b1", 1, "bob", "oslo"),
            ("c1", 1, None, "rio"),
            ("d1", 1, "", "oslo"),
            ("e1", 1, "eve", "rio"),
        )
    )
    made.index("rider")
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    """A copy of the template."""
    return template.copied(tmp_path / "t")


def test_the_index_is_built_from_what_is_there(trips):
    expected = {"a1": "ann", "a2": "ann", "b1": "bob", "c1": None, "d1": "", "e1": "eve"}
    assert trips.entries("rider") == pairs(expected)
    trips.assert_whole()
    report = trips.table().explain("rider = 'bob'")
    step = next(step for step in report.steps if step.index == INDEX)
    assert (step.before, step.after) == (2, 1)
    assert trips.found("rider = 'bob'") == ["b1"]
    assert trips.found("rider in ('ann', 'eve', 'nobody')") == ["a1", "a2", "e1"]


# case B16: updates of the secondary value
def test_an_update_writes_what_changed_and_nothing_else(trips):
    trips.writer.upsert(trips.rows(("a1", 2, "ann", "oslo"), ("b1", 2, "bob", "oslo")))
    assert changes_of_newest(trips.path, INDEX) == (0, 0)
    trips.writer.upsert(trips.rows(("a1", 3, "zoe", "oslo"), ("b1", 3, "bob", "oslo")))
    assert changes_of_newest(trips.path, INDEX) == (1, 1)
    assert trips.found("rider = 'ann'") == ["a2"]
    assert trips.found("rider = 'zoe'") == ["a1"]
    trips.assert_whole()


# case B16: updates of the secondary value
def test_a_value_that_changes_twice_in_a_batch_and_values_that_are_swapped(trips):
    trips.writer.upsert(
        trips.rows(
            ("a1", 2, "first", "oslo"),
            ("a1", 3, "second", "oslo"),
            ("b1", 2, "eve", "oslo"),
            ("e1", 2, "bob", "rio"),
        )
    )
    assert changes_of_newest(trips.path, INDEX) == (3, 3)
    assert trips.found("rider = 'first'") == []
    assert trips.found("rider in ('second', 'bob')") == ["a1", "e1"]
    trips.assert_whole()


def test_a_version_that_comes_too_late_changes_nothing(trips):
    trips.writer.upsert(trips.rows(("a1", 0, "late", "oslo"), ("c1", 0, "late", "rio")))
    assert trips.found("rider = 'late'") == []
    assert trips.entries("rider")[0] == "\0$c1"
    trips.writer.upsert(trips.rows(("a1", 1, "same", "oslo")))
    assert trips.found("rider = 'same'") == ["a1"]
    trips.assert_whole()


# case B16: updates of the secondary value
def test_deletes_and_rows_that_come_back(trips):
    trips.writer.delete(trips.rows(("a1", 9, None, "oslo"), ("c1", 9, None, "rio")))
    assert trips.found("rider is null") == []
    assert trips.found("rider = 'ann'") == ["a2"]
    trips.writer.upsert(trips.rows(("a1", 10, "ann", "oslo"), ("c1", 10, "new", "rio")))
    assert trips.found("rider in ('ann', 'new')") == ["a1", "a2", "c1"]
    trips.writer.delete_where("rider = 'ann'")
    assert trips.found("rider = 'ann'") == []
    trips.assert_whole()


# case B23: records that change their partition
def test_a_record_that_moves_keeps_its_entry(trips):
    trips.writer.upsert(trips.rows(("a1", 2, "ann", "lima"), ("b1", 2, "bea", "rio")))
    assert changes_of_newest(trips.path, INDEX) == (1, 1)
    assert trips.found("rider in ('ann', 'bea')") == ["a1", "a2", "b1"]
    assert trips.found("rider = 'bob'") == []
    trips.assert_whole()


# case B22: keys of replaced file groups
def test_partitions_that_are_overwritten_or_dropped(trips):
    trips.writer.insert_overwrite(trips.rows(("a1", 2, "ann", "oslo"), ("f1", 2, "fay", "oslo")))
    assert trips.found("rider in ('ann', 'bob', 'fay')") == ["a1", "a2", "f1"]
    trips.assert_whole()
    trips.writer.delete_partitions(["city=rio"])
    assert trips.entries("rider") == pairs({"a1": "ann", "f1": "fay"})
    trips.assert_whole()
    trips.writer.insert_overwrite_table(trips.rows(("z1", 3, None, "lima")))
    assert trips.entries("rider") == pairs({"z1": None})
    trips.assert_whole()


def test_a_key_that_two_partitions_hold_for_a_while(trips):
    """The older copy goes with its partition; what the newer one has must stay."""
    trips.writer.insert_overwrite(trips.rows(("a1", 2, "ann", "lima"), ("b1", 2, "bea", "lima")))
    assert trips.found("rider = 'ann'") == ["a1", "a1", "a2"]
    assert trips.found("rider in ('bob', 'bea')") == ["b1", "b1"]
    trips.writer.delete_partitions(["city=oslo"])
    assert trips.found("rider = 'ann'") == ["a1", "a2"]
    assert trips.entries("rider") == pairs(
        {"a1": "ann", "a2": "ann", "b1": "bea", "c1": None, "e1": "eve"}
    )
    trips.assert_whole()


def test_clustering_leaves_the_index_as_it_is(trips):
    before = trips.entries("rider")
    cluster_table(trips.writer, "rider")
    assert changes_of_newest(trips.path, INDEX) == (0, 0)
    assert trips.entries("rider") == before
    assert trips.found("rider = 'ann'") == ["a1", "a2"]
    trips.writer.upsert(trips.rows(("a1", 5, "new", "oslo")))
    assert trips.found("rider = 'new'") == ["a1"]
    trips.assert_whole()


def change_riders(path: str) -> None:
    """A job for a process of its own: other riders, a delete, a move."""
    trips = Trips.opened(path)
    trips.writer.upsert(
        trips.rows(("a1", 5, "dead", "oslo"), ("a2", 5, "dead", "lima"), ("z1", 5, "dead", "rio"))
    )


def test_a_write_that_dies_after_its_index_was_told_is_taken_back(trips, tmp_path):
    before = trips.entries("rider")
    copy = trips.copied(tmp_path / "copy")
    changes = changes_of(change_riders, copy.path, result=tmp_path / "seen")
    text = "create .hoodie/metadata/.hoodie/timeline/"
    told = [change for change in changes if change.startswith(text)]
    assert re.search(r"/[0-9]+_[0-9]+\.deltacommit$", told[-1])
    dead = trips.copied(tmp_path / "dead")
    death = DieAt(text=text, skip=len(told) - 1, is_after=True)
    assert finish(start(change_riders, dead.path, watch=death)) == -9
    assert dead.found("rider = 'dead'") == []
    assert dead.entries("rider") == before
    dead.writer.upsert(dead.rows(("b1", 6, "bea", "oslo")))
    assert dead.found("rider in ('dead', 'bea', 'ann')") == ["a1", "a2", "b1"]
    dead.assert_whole()


# case B71: duplicate keys after plain inserts
def test_keys_that_were_inserted_twice_are_both_found(trips):
    trips.writer.insert(trips.rows(("a1", 2, "ann", "oslo"), ("b1", 2, "other", "rio")))
    assert trips.found("rider = 'ann'") == ["a1", "a1", "a2"]
    assert trips.found("rider = 'other'") == ["b1"]
    reasons = {step.index: step.reason for step in trips.table().explain("rider = 'bob'").steps}
    assert "entries for 8 rows" in reasons[INDEX]
    trips.writer.delete(trips.rows(("a1", 9, None, "oslo"), ("b1", 9, None, "oslo")))
    assert trips.found("rider in ('ann', 'bob', 'other')") == ["a2"]
    trips.assert_whole()
    step = next(s for s in trips.table().explain("rider = 'eve'").steps if s.index == INDEX)
    assert (step.before, step.after) == (2, 1)


# case B18: newest index for older snapshots
def test_an_older_state_and_changes_are_not_asked_of_the_newest_index(trips):
    first = trips.table().timeline.write_instants()[0].requested_time
    before = trips.table().timeline.write_instants()[-1].requested_time
    trips.writer.upsert(trips.rows(("a1", 2, "zoe", "oslo")))
    table = trips.table()
    old = table.to_arrow("rider = 'ann'", ["uuid"], as_of=before)
    assert sorted(old["uuid"].to_pylist()) == ["a1", "a2"]
    assert len(table.to_arrow("rider = 'zoe'", ["uuid"], as_of=first)) == 0
    step = next(s for s in table.explain("rider = 'ann'", before).steps if s.index == INDEX)
    assert step.before == step.after


ODD = {
    "plain": "a",
    "longer": "ab",
    "dollar": "a$b",
    "dollars": "$",
    "slash": "a\\b",
    "slashes": "\\\\$",
    "nul": "a\0b",
    "nul alone": "\0",
    "emoji": "\U0001f600",
    "private use": "\uffee",
    "empty": "",
    "null": None,
    "the word": "null",
    "long": "x" * 30_000,
    "longer still": "x" * 30_001,
}


# cases B13, B14, B15
def test_odd_values_and_odd_keys(tmp_path):
    trips = Trips(tmp_path / "t", "mor")
    cities = ("oslo", "rio")
    rows = [
        (f"{name}$\\", 1, value, cities[number % 2])
        for number, (name, value) in enumerate(ODD.items())
    ]
    trips.writer.insert(trips.rows(*rows[:8]))
    trips.index("rider")
    trips.writer.upsert(trips.rows(*rows[4:]))
    assert trips.entries("rider") == pairs([(row[0], row[2]) for row in rows])
    trips.assert_whole()
    found = lakedex.open(trips.path).to_arrow("rider = 'a'", ["uuid"])
    assert found["uuid"].to_pylist() == ["plain$\\"]
    assert trips.found("rider is null") == ["null$\\"]
    assert trips.found("rider = ''") == ["empty$\\"]
    assert trips.found("rider = 'null'") == ["the word$\\"]
    assert trips.found(f"rider = '{'x' * 30_000}'") == ["long$\\"]
    for value in ("a", "\0", "$", "\U0001f600", "x" * 30_001):
        asked = Compare(Op.EQ, Column(("rider",)), Literal(value, pa.string()))
        steps = trips.table().explain(asked).steps
        assert next(step.after for step in steps if step.index == INDEX) == 1, value
    shifted = [(row[0], 2, rows[at - 1][2], row[3]) for at, row in enumerate(rows)]
    trips.writer.upsert(trips.rows(*shifted))
    assert trips.entries("rider") == pairs([(row[0], row[2]) for row in shifted])
    trips.writer.delete(trips.rows(*shifted))
    assert trips.entries("rider") == []
    trips.assert_whole()


# case B14: escaping in secondary keys
def test_values_too_long_for_an_entry_are_refused_and_leave_the_table_as_it_was(trips):
    before = trips.entries("rider")
    for value in ("x" * 32_768, "$" * 20_000):
        with pytest.raises(
            InvalidInput, match=r"column 'rider' makes an entry of .* drop the index"
        ):
            trips.writer.upsert(trips.rows(("a1", 2, value, "oslo"), ("n1", 2, "new", "oslo")))
    assert trips.entries("rider") == before
    assert trips.found("rider in ('ann', 'new')") == ["a1", "a2"]
    trips.writer.upsert(trips.rows(("a1", 3, "x" * 32_000, "oslo")))
    assert trips.found("rider like 'xxx%'") == ["a1"]
    trips.assert_whole()


# case B13: values that share a prefix
def test_values_that_begin_alike_are_different_values(trips):
    trips.writer.upsert(trips.rows(("a1", 2, "an", "oslo"), ("a2", 2, "ann$", "rio")))
    assert trips.found("rider = 'an'") == ["a1"]
    assert trips.found("rider = 'ann'") == []
    assert trips.found("rider = 'ann$'") == ["a2"]


# cases B42, B60: second index of the same kind; second secondary index not maintained
def test_two_indexes_are_both_kept_up(trips):
    trips.index("city")
    trips.writer.upsert(trips.rows(("a1", 2, "zoe", "rio"), ("e1", 2, "eve", "oslo")))
    assert trips.found("rider = 'zoe'") == ["a1"]
    assert trips.found("city = 'rio'") == ["a1", "a2", "c1"]
    assert trips.found("city = 'rio' or rider = 'bob'") == ["a1", "a2", "b1", "c1"]
    trips.assert_whole()
    trips.writer.upsert(trips.rows(("a1", 3, "zoe", "rio")))
    for predicate in ("rider = 'eve'", "city = 'oslo'"):
        steps = trips.table().explain(predicate).steps
        assert not [step for step in steps if "without the index" in step.reason]


# case B60: second secondary index not maintained
def test_an_index_that_hudi_forgot_is_built_anew(golden, tmp_path):
    path = str(tmp_path / "t")
    shutil.copytree(golden("two_secondary_mor").path, path)
    assert lakedex.open(path).verify(["secondary_index_idx_rider"]).problems
    writer = TableWriter(StorageAddress.of(path))
    refresh_index(writer, "idx_rider")
    table = lakedex.open(path)
    assert not table.verify().problems
    definition = table.snapshot.definitions["secondary_index_idx_rider"]
    assert (definition.source_fields, definition.version) == (("rider",), 2)


# case B19: sharding of upgraded secondary indexes
def test_an_index_placed_by_whole_keys_stays_so(tmp_path):
    """As in a table that was upgraded with its old indexes: the definition says V1."""
    trips = Trips(tmp_path / "t", "mor")
    trips.writer.insert(trips.rows(*((f"k{n}", 1, f"r{n % 3}", "oslo") for n in range(12))))
    old = IndexDefinition(INDEX, "secondary_index", "identity", ("rider",), {}, 1)
    trips.writer.add_index(old)
    trips.writer.upsert(trips.rows(("k1", 2, "r9", "oslo"), ("k2", 2, "r2", "oslo")))
    metadata = trips.table().snapshot.metadata
    stored = pa.array(trips.entries("rider"))
    spread = [
        {key[:2] for key in metadata.lookup_in(INDEX, group.file_id, stored)["key"].to_pylist()}
        for group in metadata.groups(INDEX)
    ]
    assert spread[0] & spread[1], "all pairs of a value are in one group"
    assert trips.found("rider = 'r9'") == ["k1"]
    assert trips.found("rider = 'r1'") == ["k10", "k4", "k7"]
    trips.assert_whole()


def test_a_table_of_hudi_is_indexed_and_written_on(golden, tmp_path):
    path = str(tmp_path / "t")
    shutil.copytree(golden("two_secondary_mor").path, path)
    writer = TableWriter(StorageAddress.of(path))
    create_index(writer, "idx_ts", "ts")
    rows = lakedex.open(path).to_arrow(None, ["id", "city", "rider", "ts"])
    moved = rows.set_column(2, "rider", pa.array([f"new-{n}" for n in range(len(rows))]))
    later = moved.set_column(3, "ts", pa.compute.add(rows["ts"], 1))
    refresh_index(writer, "idx_rider")
    writer.upsert(ArrowRowSource(later))
    table = lakedex.open(path)
    assert not table.verify().problems
    assert table.to_arrow("rider = 'new-1'", ["id"])["id"].to_pylist() == [rows["id"][1].as_py()]
