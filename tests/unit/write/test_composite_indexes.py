"""Secondary indexes on several columns: what they hold, find, and hide from other engines."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.index.kinds.secondary.records import PAIR_SCHEMA
from lakedex.prune.report import Step
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.index_estimating import estimate_index
from lakedex.services.repairing import repair_table
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.txn.metadata_rollback import drop_metadata
from lakedex.write.verbs import TableWriter
from tests.support.secondary import RECORD_INDEX, Trips, escaped

INDEX = "secondary_index_composite-idx"
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("rider", pa.string()),
        ("n", pa.int64()),
        ("day", pa.string()),
    ]
)
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "1", "hoodie.clean.automatic": "false"}
ROWS = (
    ("a1", 1, "oslo", "ann", 7, "d1"),
    ("a2", 1, "oslo", "bob", 12, "d2"),
    ("b1", 1, "rio", "ann", None, "d3"),
    ("b2", 1, "rio", None, -3, "d4"),
    ("c1", 1, None, "ann", 7, "d5"),
    ("c2", 1, None, None, 7, "d6"),
    ("d1", 1, "", "", 7, "d7"),
    ("d2", 1, "o", "slo", 100, "d8"),
)


class Table(Trips):
    """Trips of single days, so that a day is a file slice, with an index on city and rider."""

    def __init__(self, path: Path, kind: str, *columns: str, **options: str) -> None:
        self.kind, self.columns, self.options = kind, columns, {}
        super().__init__(path, kind, schema=SCHEMA, properties=RECORD_INDEX, partition_by="day")
        self.writer.insert(self.rows(*ROWS))
        create_index(self.writer, "idx", columns, options=options)

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.address, LocalEngine(1), self.options)

    def assert_exact(self) -> None:
        """The entries are those of the rows, and verify agrees."""
        rows = self.table().to_arrow(None, ["_hoodie_record_key", *self.columns]).to_pylist()
        expected = sorted(
            "$".join(
                escaped(None if value is None else str(value))
                for value in [*(row[name] for name in self.columns), row["_hoodie_record_key"]]
            )
            for row in rows
        )
        assert sorted(self.table().metadata(INDEX)["key"].to_pylist()) == expected
        self.assert_whole()

    def step(self, predicate: str) -> Step:
        options = lakedex.ReadOptions(
            weighs_cost=False, without_indexes={"column_stats", "partition_stats"}
        )
        report = lakedex.open(self.path, options=options).explain(predicate)
        return next(step for step in report.steps if step.index == INDEX)

    def asked(self, predicate: str) -> list[str]:
        """The keys that are found; the index leaves just the slices that have them."""
        found = self.found(predicate)
        step = self.step(predicate)
        assert step.used, step.reason
        rows = self.table().to_arrow(predicate, ["day"])
        assert step.after == len(set(rows["day"].to_pylist()))
        return found


@pytest.fixture(scope="module")
def templates(tmp_path_factory) -> dict[str, Table]:
    kinds = ("cow", "mor")
    return {
        kind: Table(tmp_path_factory.mktemp(kind) / "t", kind, "city", "rider") for kind in kinds
    }


@pytest.fixture(params=["cow", "mor"])
def trips(request, templates, tmp_path) -> Table:
    return templates[request.param].copied(tmp_path / "t")


@pytest.fixture
def some_trips(templates, tmp_path) -> Table:
    """A table where its kind makes no difference."""
    return templates["mor"].copied(tmp_path / "t")


def test_all_columns_a_prefix_of_them_or_a_range_are_looked_up(some_trips):
    # cases B13, B15: values that share a prefix; null as secondary key
    trips = some_trips
    trips.assert_exact()
    assert trips.asked("city = 'oslo' AND rider = 'ann'") == ["a1"]
    assert trips.asked("city IN ('oslo', 'rio') AND rider IN ('ann', 'x')") == ["a1", "b1"]
    assert trips.asked("city = 'o' AND rider = 'slo'") == ["d2"]
    assert trips.asked("city = '' AND rider = ''") == ["d1"]
    assert trips.asked("city IS NULL AND rider = 'ann'") == ["c1"]
    assert trips.asked("city IS NULL AND rider IS NULL") == ["c2"]
    assert trips.asked("city <=> NULL AND rider <=> NULL") == ["c2"]
    assert trips.asked("city = 'rio' AND rider IS NULL") == ["b2"]
    assert trips.asked("city = 'oslo'") == ["a1", "a2"]
    assert trips.asked("city = 'oslo' AND rider LIKE 'b%'") == ["a2"]
    assert trips.asked("city = 'oslo' AND rider > 'ann'") == ["a2"]
    assert trips.asked("city = 'oslo' AND rider BETWEEN 'a' AND 'b'") == ["a1"]
    assert trips.asked("city LIKE 'o%'") == ["a1", "a2", "d2"]
    assert trips.asked("city > 'o' AND rider = 'ann'") == ["a1", "b1"]
    either = "city = 'oslo' AND rider = 'bob' OR city = 'rio' AND rider = 'ann'"
    assert trips.asked(either) == ["a2", "b1"]
    assert trips.asked("city = 'oslo' AND rider = 'nobody'") == []
    assert trips.found("rider = 'ann'") == ["a1", "b1", "c1"]
    assert "limits the values of city" in trips.step("rider = 'ann'").reason


def test_every_kind_of_write_keeps_it_exact(trips):
    # case B16: updates of the secondary value
    trips.writer.upsert(
        trips.rows(
            ("a1", 2, "oslo", "ann", 8, "d1"),
            ("a2", 2, "rio", "bob", 12, "d2"),
            ("b1", 2, "rio", "bob", None, "d9"),
            ("b2", 0, "late", "late", 0, "d4"),
            ("e1", 2, "a$b", "\\", 1, "d1"),
            ("e2", 2, "a", "$b\0", 1, "d2"),
            ("e3", 2, "\U0001f600", "x" * 30_000, 1, "d2"),
        )
    )
    trips.assert_exact()
    assert trips.asked("rider = 'bob' AND city = 'rio'") == ["a2", "b1"]
    assert trips.asked("city = 'a$b'") == ["e1"]
    assert trips.asked("city = 'a' AND rider LIKE '$b%'") == ["e2"]
    assert trips.asked("city = '\U0001f600' AND rider > 'w'") == ["e3"]
    trips.writer.delete(trips.rows(("a1", 9, None, None, None, "d1")))
    trips.writer.insert_overwrite(trips.rows(("f1", 3, "oslo", None, 1, "d2")))
    trips.writer.delete_partitions(["day=d5"])
    trips.assert_exact()
    assert trips.asked("city = 'oslo' AND rider IS NULL") == ["f1"]
    cluster_table(trips.writer, "n")
    if trips.kind == "mor":
        compact_table(trips.writer)
    assert trips.found("city = 'rio' AND rider = 'bob'") == ["b1"]
    trips.assert_exact()


def test_commits_taken_back_are_taken_back_in_it(trips):
    kept = trips.writer.upsert(trips.rows(("a1", 2, "rio", "ann", 1, "d1"))).instant
    newest = trips.writer.upsert(trips.rows(("a1", 3, "lima", "ann", 1, "d1"))).instant
    rollback_instant(trips.address, newest)
    trips.assert_exact()
    assert trips.asked("city = 'rio' AND rider = 'ann'") == ["a1", "b1"]
    trips.options = OFTEN
    trips.writer.upsert(trips.rows(("a1", 4, "lima", "eve", 1, "d1")))
    trips.writer.upsert(trips.rows(("a1", 5, "lima", "eva", 1, "d1")))
    restore_table(trips.address, kept)
    trips.assert_exact()
    assert trips.asked("city = 'rio' AND rider = 'ann'") == ["a1", "b1"]


def test_other_engines_are_told_nothing_of_it(some_trips):
    root = Path(some_trips.path, ".hoodie")
    listed = some_trips.table().snapshot.config.raw["hoodie.table.metadata.partitions"]
    assert listed.split(",") == ["column_stats", "files", "partition_stats", "record_index"]
    definitions = json.loads((root / ".index_defs/index.json").read_text())["indexDefinitions"]
    assert not any("composite" in name for name in definitions)
    shown = {each.name: each for each in some_trips.table().indexes()}[INDEX]
    assert (shown.kind, shown.columns, shown.state) == (
        "secondary_index",
        ("city", "rider"),
        "live",
    )


def test_after_a_write_that_says_nothing_of_it_it_is_not_asked(trips, monkeypatch):
    """As after a write of another engine, which changes rows and leaves their entries alone."""
    with monkeypatch.context() as patch:
        patch.setattr("lakedex.index.kinds.secondary.kind.composite_note", lambda *_: {})
        trips.writer.upsert(trips.rows(("a2", 2, "oslo", "zoe", 12, "d2")))
    assert "another engine" in trips.step("city = 'oslo' AND rider = 'zoe'").reason
    trips.writer.upsert(trips.rows(("a1", 2, "oslo", "eve", 12, "d1")))
    assert "another engine" in trips.step("city = 'oslo' AND rider = 'eve'").reason
    told = {each.name: each.problem or "" for each in trips.table().indexes()}
    assert "REFRESH INDEX" in told[INDEX]
    report = trips.table().verify()
    assert report.ok
    assert any(f"{INDEX}: it was not kept up by another engine" in note for note in report.notes)
    assert repair_table(trips.writer).rebuilt == (INDEX,)
    assert trips.asked("city = 'oslo' AND rider = 'zoe'") == ["a2"]
    trips.writer.upsert(trips.rows(("a1", 3, "oslo", "flo", 12, "d1")))
    assert trips.asked("city = 'oslo' AND rider = 'flo'") == ["a1"]
    trips.assert_exact()


def test_verify_finds_wrong_entries_and_repair_puts_them_right(some_trips, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("lakedex.index.kinds.secondary.collect.pair_changes", _nothing)
        some_trips.writer.upsert(some_trips.rows(("a2", 2, "oslo", "zoe", 12, "d2")))
    problems = some_trips.table().verify().problems
    assert sorted((each.index, each.key) for each in problems) == [
        (INDEX, "oslo$bob$a2"),
        (INDEX, "oslo$zoe$a2"),
    ]
    assert not repair_table(some_trips.writer).after.problems
    some_trips.assert_exact()
    assert some_trips.asked("city = 'oslo' AND rider = 'zoe'") == ["a2"]


def test_entries_may_name_their_file_groups(tmp_path):
    trips = Table(tmp_path / "t", "mor", "city", "n", **{"lakedex.covering": "true"})
    trips.writer.upsert(trips.rows(("a2", 2, "oslo", "zoe", 1234, "d7")))
    assert "that the entries name" in trips.step("city = 'oslo' AND n = 1234").reason
    assert trips.asked("city = 'oslo' AND n BETWEEN -5 AND 1000") == ["a1"]
    assert trips.asked("city = 'rio' AND n < 0") == ["b2"]
    assert trips.asked("city = 'rio' AND n IS NULL") == ["b1"]
    trips.assert_exact()


def test_dropped_it_leaves_nothing_behind(some_trips):
    drop_index(some_trips.address, "idx", some_trips.writer.target().patience)
    assert INDEX not in some_trips.table().snapshot.config.metadata_partitions
    assert not Path(some_trips.path, ".hoodie/metadata", INDEX).exists()
    assert all(each.name != INDEX for each in some_trips.table().indexes())
    create_index(some_trips.writer, "idx", "rider")
    assert some_trips.found("rider = 'ann'") == ["a1", "b1", "c1"]
    some_trips.assert_whole()


def test_a_metadata_table_given_up_leaves_its_definition_to_build_it_again(some_trips):
    drop_metadata(some_trips.address.open())
    some_trips.writer.upsert(some_trips.rows(("a1", 2, "rio", "ann", 1, "d1")))
    assert some_trips.found("city = 'rio' AND rider = 'ann'") == ["a1", "b1"]
    refresh_index(some_trips.writer, "idx")
    assert some_trips.asked("city = 'rio' AND rider = 'ann'") == ["a1", "b1"]
    some_trips.assert_exact()


def test_what_cannot_be_made_leaves_the_table_as_it_was(some_trips):
    before = sorted(str(path) for path in Path(some_trips.path).rglob("*"))
    refused = {
        "has a column twice": ("two", ("city", "city")),
        "no column 'none'": ("two", ("city", "none")),
        "has the index": ("idx", "rider"),
        "not on 1 to 16": ("two", ()),
    }
    for message, (name, columns) in refused.items():
        with pytest.raises(InvalidInput, match=message):
            create_index(some_trips.writer, name, columns)
    with pytest.raises(InvalidInput, match="has the index"):
        some_trips.writer.change_columns(lambda known: known.remove(known.get_field_index("rider")))
    assert sorted(str(path) for path in Path(some_trips.path).rglob("*")) == before


def test_it_is_estimated_before_it_is_built(some_trips):
    told = estimate_index(some_trips.table().snapshot, ("city", "rider"))
    assert (told.column, told.rows, told.values) == ("city, rider", len(ROWS), len(ROWS))
    real = {each.name: each for each in some_trips.table().indexes()}[INDEX]
    per_group = told.size_bytes / told.file_groups
    assert per_group == pytest.approx(real.size_bytes / real.file_groups, rel=0.25)


def _nothing(*_: object) -> pa.Table:
    return PAIR_SCHEMA.empty_table()
