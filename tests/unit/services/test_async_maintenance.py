"""Indexes with `maintenance=async`: writers leave them alone, queries read what is newer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable
from typer.testing import CliRunner

import lakedex
from lakedex.cli.main import app
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.inline import writer_with_services
from lakedex.services.repairing import repair_table
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.services.verifying import verify
from lakedex.timeline import load_table_config
from lakedex.write.operation import INDEX
from lakedex.write.pipeline import run_write
from tests.support.secondary import RECORD_INDEX, Trips

SCHEMA = pa.schema(
    [("uuid", pa.string()), ("ts", pa.int64()), ("rider", pa.string()), ("city", pa.string())]
)
FIRST = [("a1", 1, "ann", "oslo"), ("b1", 1, "bob", "rio"), ("c1", 1, "cem", "bonn")]
ASYNC = {"maintenance": "async"}
KINDS = {
    "secondary_index_async-lag": ("rider", "", "rider = '{}'"),
    "secondary_index_async-pair": (("rider", "city"), "", "rider = '{}' AND city IS NOT NULL"),
    "expr_index_own-upper": ("upper(rider)", "column_stats", "upper(rider) = '{}'"),
    "expr_index_own-bloom": ("upper(rider)", "bloom_filters", "upper(rider) = '{}'"),
    "bitmap_index_bits": ("rider", "bitmap", "rider = '{}'"),
}
WITHOUT = {"column_stats", "partition_stats"}
ONLY = lakedex.ReadOptions(weighs_cost=False, without_indexes=WITHOUT)


def given_name(index: str) -> str:
    return index.replace("-", "_").rpartition("_")[2]


@pytest.fixture
def kind(request) -> str:
    """Merge-on-read unless a test says otherwise."""
    return getattr(request, "param", "mor")


@pytest.fixture
def trips(kind, tmp_path) -> Trips:
    """A table whose rows are in a file slice each."""
    made = Trips(tmp_path / "t", kind, schema=SCHEMA, properties=RECORD_INDEX, partition_by="uuid")
    made.writer.insert(made.rows(*FIRST))
    return made


@pytest.fixture(params=["secondary_index_async-lag", "expr_index_own-upper", "bitmap_index_bits"])
def index(request, trips) -> str:
    columns, using, _ = KINDS[request.param]
    create_index(trips.writer, given_name(request.param), columns, using=using, options=ASYNC)
    return request.param


def predicate_of(index: str, rider: str) -> str:
    return KINDS[index][2].format(rider.upper() if "upper" in KINDS[index][2] else rider)


def asked(trips: Trips, index: str, rider: str) -> tuple[list[str], int, str]:
    """The rows of a rider, how many slices the index left, and its reason."""
    predicate = predicate_of(index, rider)
    rows = trips.found(predicate)
    everything = lakedex.open(trips.path).to_arrow(None, ["uuid", "rider"]).to_pylist()
    assert rows == sorted(row["uuid"] for row in everything if row["rider"] == rider)
    report = lakedex.open(trips.path, options=ONLY).explain(predicate)
    (step,) = [each for each in report.steps if each.index == index]
    assert step.used, step.reason
    return rows, step.after, step.reason


@pytest.mark.parametrize("index", list(KINDS), indirect=True)
@pytest.mark.parametrize("kind", ["cow", "mor"], indirect=True)
def test_newer_slices_are_read_until_a_refresh(trips, index, kind):
    assert asked(trips, index, "bob")[:2] == (["b1"], 1)
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    trips.writer.insert(trips.rows(("d1", 1, "dan", "rio")))
    rows, left, reason = asked(trips, index, "bob")
    assert rows == ["a1", "b1"]
    assert left == 3
    assert "covers the table up to instant" in reason
    # Filters are of base files: slices with log files are always read.
    newer = 2 - (index == "expr_index_own-bloom" and kind == "mor")
    assert f"{newer} newer file slices are read" in reason
    rows, left, _ = asked(trips, index, "ann")
    assert (rows, left) == ([], 2)
    refresh_index(trips.writer, given_name(index))
    rows, left, reason = asked(trips, index, "dan")
    assert rows == ["d1"]
    has_logs = any(each.logs for each in trips.writer.snapshot().slices)
    assert left == 1 + (index == "expr_index_own-bloom" and has_logs)
    assert "newer" not in reason
    assert not verify(trips.writer.snapshot()).problems


@pytest.mark.parametrize("index", list(KINDS), indirect=True)
def test_the_list_of_indexes_shows_how_far_one_is_behind(trips, index, kind):
    def status() -> str:
        found = {each.name: each for each in lakedex.open(trips.path).indexes()}
        assert {each.maintenance for name, each in found.items() if name != index} == {"sync"}
        assert found[index].maintenance == "async"
        return found[index].status

    assert status() == "live, maintenance=async, up to date"
    trips.writer.insert(trips.rows(("d1", 1, "dan", "rio")))
    assert status() == "live, maintenance=async, 1 commits behind, 1 newer file slices"
    trips.writer.insert(trips.rows(("e1", 1, "eve", "rio"), ("f1", 1, "fay", "rio")))
    assert status() == "live, maintenance=async, 2 commits behind, 3 newer file slices"
    shown = CliRunner().invoke(app, ["indexes", trips.path, "--json"])
    assert '"commits_behind": 2' in shown.output
    refresh_index(trips.writer, given_name(index))
    assert status() == "live, maintenance=async, up to date"


def test_a_second_refresh_does_nothing(trips, index):
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    refresh_index(trips.writer, given_name(index))
    before = trips.writer.snapshot().timeline.last_completed
    refresh_index(trips.writer, given_name(index))
    assert trips.writer.snapshot().timeline.last_completed == before


@pytest.mark.parametrize("kind", ["cow", "mor"], indirect=True)
def test_deletes_compaction_and_clustering(trips, index):
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo"), ("b1", 2, "cem", "rio")))
    refresh_index(trips.writer, given_name(index))
    trips.writer.delete(trips.rows(("c1", 3, "cem", "bonn")))
    assert trips.found(predicate_of(index, "cem")) == ["b1"]
    if trips.writer.snapshot().config.table_type.value == "MERGE_ON_READ":
        compact_table(trips.writer)
        assert trips.found(predicate_of(index, "bob")) == ["a1"]
    cluster_table(trips.writer, "rider")
    assert trips.found(predicate_of(index, "cem")) == ["b1"]
    refresh_index(trips.writer, given_name(index))
    # An entry of an older row may lead to one slice too many.
    rows, left, _ = asked(trips, index, "ann")
    assert (rows, left <= 1) == ([], True)
    assert asked(trips, index, "cem")[:2] == (["b1"], 1)


@pytest.mark.parametrize("kind", ["cow", "mor"], indirect=True)
def test_rollback_and_restore_below_the_refresh(trips, index):
    first = trips.writer.snapshot().timeline.last_completed
    changed = trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    rollback_instant(trips.address, changed.instant)
    assert asked(trips, index, "ann")[0] == ["a1"]
    trips.writer.upsert(trips.rows(("a1", 3, "cem", "oslo")))
    refresh_index(trips.writer, given_name(index))
    assert asked(trips, index, "cem")[:1] == (["a1", "c1"],)
    restore_table(trips.address, first.requested_time)
    # The files of the first write are there again, with the rows that they had.
    for rider, key in (("ann", "a1"), ("bob", "b1"), ("cem", "c1")):
        assert trips.found(predicate_of(index, rider)) == [key]
    refresh_index(trips.writer, given_name(index))
    assert asked(trips, index, "ann")[:2] == (["a1"], 1)


def test_time_travel_reads_the_rows_of_that_time(trips, index):
    before = trips.writer.snapshot().timeline.last_completed.requested_time
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    refresh_index(trips.writer, given_name(index))
    table = lakedex.open(trips.path)
    predicate = predicate_of(index, "ann")
    assert table.to_arrow(predicate, ["uuid"], as_of=before)["uuid"].to_pylist() == ["a1"]


def test_it_goes_and_comes_again(trips, index):
    drop_index(trips.address, given_name(index), trips.writer.target().patience)
    assert index not in {each.name for each in lakedex.open(trips.path).indexes()}
    columns, using, _ = KINDS[index]
    create_index(trips.writer, given_name(index), columns, using=using, options=ASYNC)
    assert asked(trips, index, "cem")[:2] == (["c1"], 1)


def test_a_background_build_covers_what_it_read(trips):
    build = create_index(trips.writer, "lag", "rider", options=ASYNC, wait=False)
    build.wait()
    assert asked(trips, "secondary_index_async-lag", "bob")[:2] == (["b1"], 1)


def test_other_engines_do_not_see_a_lagging_index(trips, index):
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    config = load_table_config(trips.address.open())
    listed = config.raw["hoodie.table.metadata.partitions"].split(",")
    assert not [name for name in listed if "async" in name or "own" in name or "bitmap" in name]
    shared = Path(trips.path, ".hoodie/.index_defs/index.json")
    assert given_name(index) not in shared.read_text()
    assert sum(batch.num_rows for batch in HudiTable(trips.path).read()) == len(FIRST)


def test_a_rebuild_removes_outdated_entries(trips):
    create_index(trips.writer, "lag", "rider", options=ASYNC)
    name = "secondary_index_async-lag"
    for number in range(5):
        trips.writer.upsert(trips.rows(("a1", 2 + number, f"r{number}", "oslo")))
        refresh_index(trips.writer, "lag")
    grown = len(lakedex.open(trips.path).metadata(name))
    refresh_index(trips.writer, "lag", rebuild=True)
    assert len(lakedex.open(trips.path).metadata(name)) == 2 * len(FIRST) < grown
    assert asked(trips, name, "r4")[:2] == (["a1"], 1)


def test_a_write_that_ends_during_a_refresh_is_not_covered(trips):
    """The refresh reads the slices of its beginning; what is committed meanwhile is newer."""
    create_index(trips.writer, "lag", "rider", options=ASYNC)
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    target = replace(trips.writer.target(), engine=_WritesMeanwhile(trips))
    run_write(replace(target, refreshed=("secondary_index_async-lag",)), INDEX, None)
    for rider, key in (("dan", "a1"), ("eve", "b1")):
        rows, left, reason = asked(trips, "secondary_index_async-lag", rider)
        assert (rows, left) == ([key], 2)
        assert "2 newer file slices are read" in reason


class _WritesMeanwhile(LocalEngine):
    """Another writer commits as soon as the data is read for the index."""

    def __init__(self, trips: Trips) -> None:
        super().__init__(1)
        self._trips: Trips | None = trips

    def map(self, step, work, items):
        done = super().map(step, work, items)
        trips, self._trips = self._trips, None
        if trips is not None:
            trips.writer.upsert(trips.rows(("a1", 3, "dan", "oslo"), ("b1", 3, "eve", "rio")))
        return done


@pytest.mark.parametrize("name", ["record_index", "column_stats", "bloom_filters"])
def test_indexes_that_every_writer_needs_are_not_async(trips, name):
    drop = [each.name for each in lakedex.open(trips.path).indexes()]
    if name in drop and name != "record_index":
        drop_index(trips.address, name, trips.writer.target().patience)
    with pytest.raises(InvalidInput, match="cannot have maintenance=async"):
        create_index(trips.writer, name, "uuid", options=ASYNC)


@pytest.mark.parametrize("value", ["later", ""])
def test_a_wrong_value_is_refused(trips, value):
    with pytest.raises(InvalidInput, match="is sync or async, not"):
        create_index(trips.writer, "lag", "rider", options={"maintenance": value})


def test_sync_is_the_default_and_can_be_said(trips):
    create_index(trips.writer, "plain", "rider", options={"maintenance": "SYNC"})
    listed = load_table_config(trips.address.open()).raw["hoodie.table.metadata.partitions"]
    assert "secondary_index_plain" in listed.split(",")


def test_a_covering_index_is_not_async(trips):
    with pytest.raises(InvalidInput, match=r"lakedex\.covering and maintenance=async"):
        create_index(trips.writer, "lag", "rider", options={**ASYNC, "lakedex.covering": "true"})


def test_damage_is_found_and_repaired(trips):
    create_index(trips.writer, "lag", "rider", options=ASYNC)
    trips.writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    assert not verify(trips.writer.snapshot()).problems
    assert not repair_table(trips.writer).after.problems
    assert asked(trips, "secondary_index_async-lag", "bob")[0] == ["a1", "b1"]


def test_a_file_that_a_clean_removes_is_no_end(trips, index):
    """All that is needed to catch up are the files of now, however much history is gone."""
    for number in range(14):
        trips.writer.upsert(trips.rows(("a1", 2 + number, f"r{number}", "oslo")))
    refresh_index(trips.writer, given_name(index))
    assert asked(trips, index, "r13")[0] == ["a1"]


def test_a_write_refreshes_what_is_too_far_behind(trips, index):
    options = {"lakedex.index.refresh.inline.max.commits": "2"}
    writer = writer_with_services(trips.address, LocalEngine(1), options)
    writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    assert "newer" in asked(trips, index, "cem")[2] or "bloom" in index
    writer.upsert(trips.rows(("b1", 2, "eve", "oslo")))
    assert "newer" not in asked(trips, index, "cem")[2]


def test_by_the_option_of_a_write(trips):
    options = {
        "hoodie.metadata.index.secondary.column": "rider",
        "hoodie.index.name": "lag",
        "lakedex.index.maintenance": "async",
    }
    writer = writer_with_services(trips.address, LocalEngine(1), options)
    writer.upsert(trips.rows(("a1", 2, "bob", "oslo")))
    rows, left, reason = asked(trips, "secondary_index_async-lag", "cem")
    assert (rows, left) == (["c1"], 2)
    assert "1 newer file slices are read" in reason
    done = CliRunner().invoke(app, ["index", "refresh", trips.path, "lag"])
    assert done.exit_code == 0, done.output
    assert asked(trips, "secondary_index_async-lag", "cem")[:2] == (["c1"], 1)
