"""Indexes that lakedex alone knows, built while writers go on: no other engine hears of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable
from typer.testing import CliRunner

import lakedex
from lakedex.cli.main import app
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.services.index_creating import create_index, resume_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.indexing import BackgroundBuild
from lakedex.services.indexing.claims import Claim, put_down
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.timeline import update_properties
from lakedex.write.verbs import TableWriter
from tests.support.index_builds import Interrupted, assert_no_trace, begun, lead
from tests.support.killing import DieAt, finish, start
from tests.support.secondary import RECORD_INDEX, Trips

PAIR = "secondary_index_composite-pair"
OWN = "expr_index_own-own"
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("rider", pa.string()),
        ("city", pa.string()),
        ("s", pa.struct([("n", pa.int64())])),
    ]
)
FIRST = [
    ("a1", 1, "ann", "oslo", {"n": 1}),
    ("b1", 1, "bob", "rio", {"n": 2}),
    ("c1", 1, "cem", "bonn", None),
]
INFLIGHT = "hoodie.table.metadata.partitions.inflight"
ASKED = {
    PAIR: ("pair", ("city", "rider"), "city = '{city}' AND rider = '{rider}'"),
    OWN: ("own", "concat(city, rider)", "concat(city, rider) = '{city}{rider}'"),
}
PARTS = [PAIR, OWN]
WITHOUT = {"column_stats", "partition_stats"}


def table(path: Path, kind: str) -> Trips:
    """A table whose rows lie in a file slice each."""
    return Trips(path, kind, schema=SCHEMA, properties=RECORD_INDEX, partition_by="uuid")


@pytest.fixture(params=["cow", "mor"])
def trips(request, tmp_path) -> Trips:
    made = table(tmp_path / "t", request.param)
    made.writer.insert(made.rows(*FIRST))
    return made


def begin(writer: TableWriter, index: str) -> Claim:
    """A build that is there and that nobody runs."""
    return begun(writer, *ASKED[index][:2])


def asked(trips: Trips, index: str, rider: str, city: str) -> list[str]:
    """The rows, and the index removed every other file."""
    predicate = ASKED[index][2].format(rider=rider, city=city)
    rows = trips.found(predicate)
    options = lakedex.ReadOptions(weighs_cost=False, without_indexes=WITHOUT)
    report = lakedex.open(trips.path, options=options).explain(predicate)
    (step,) = [each for each in report.steps if each.index == index]
    assert step.used, step.reason
    # Ranges still tell of the rows that log files changed.
    assert len(rows) <= step.after <= len(rows) + (index == OWN), report
    return rows


def changes(trips: Trips) -> dict[str, object]:
    return {
        "read": lambda: trips.writer.upsert(
            trips.rows(("a1", 2, "ada", "oslo", {"n": 5}), ("d1", 1, "dan", "lima", None))
        ),
        "write": lambda: trips.writer.delete(trips.rows(("b1", 9, None, "rio", None))),
        "switch": lambda: trips.writer.upsert(trips.rows(("e1", 2, "eva", "lyon", {"n": 9}))),
    }


@pytest.mark.parametrize("index", PARTS)
def test_writers_between_all_steps(trips, index):
    claim = begin(trips.writer, index)
    config = trips.table().snapshot.config
    assert config.metadata_partitions_inflight == (index,)
    assert not config.raw.get(INFLIGHT), "Hudi writes to whatever stands there"
    assert [each.state for each in trips.table().indexes() if each.name == index] == ["building"]
    steps = lead(trips.writer, claim, changes(trips))
    assert steps == ["read", "write", "switch"], "commits that told the index need no second look"
    for rider, city, keys in (
        ("ada", "oslo", ["a1"]),
        ("ann", "oslo", []),
        ("bob", "rio", []),
        ("eva", "lyon", ["e1"]),
    ):
        assert asked(trips, index, rider, city) == keys
    trips.assert_whole()
    trips.writer.upsert(trips.rows(("d1", 3, "dov", "lima", None)))
    assert asked(trips, index, "dov", "lima") == ["d1"]
    trips.assert_whole()
    config = trips.table().snapshot.config
    assert config.own_metadata_partitions == (index,)
    assert config.metadata_partitions_inflight == ()
    assert sum(batch.num_rows for batch in HudiTable(trips.path).read()) == 4


@pytest.mark.parametrize("index", PARTS)
def test_by_the_public_call_and_by_the_command_line(trips, index):
    name, columns, _ = ASKED[index]
    build = create_index(trips.writer, name, columns, wait=False)
    assert isinstance(build, BackgroundBuild)
    assert build.wait(60)
    assert asked(trips, index, "bob", "rio") == ["b1"]
    drop_index(trips.address, name, trips.writer.target().patience)
    named = [columns] if isinstance(columns, str) else columns
    flags = [part for each in named for part in ("--on", each)]
    done = CliRunner().invoke(app, ["index", "build", trips.path, name, *flags])
    assert done.output.strip() == f"built {index}"
    assert asked(trips, index, "bob", "rio") == ["b1"]
    trips.assert_whole()


@pytest.mark.parametrize("index", PARTS)
def test_it_is_stopped_kept_up_and_taken_up_by_its_name(trips, index):
    put_down(begin(trips.writer, index))
    trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima", None)))
    assert trips.found(ASKED[index][2].format(rider="dan", city="lima")) == ["d1"]
    assert resume_index(trips.writer, ASKED[index][0]).wait(60)
    assert asked(trips, index, "dan", "lima") == ["d1"]
    trips.assert_whole()


@pytest.mark.parametrize("index", PARTS)
def test_dropped_while_it_is_built_it_leaves_no_trace(trips, index):
    before = dict(trips.table().snapshot.config.raw)
    claim = begin(trips.writer, index)
    patience = trips.writer.target().patience

    def drop() -> None:
        drop_index(trips.address, ASKED[index][0], patience)

    with pytest.raises(CommitConflict, match="was dropped"):
        lead(trips.writer, claim, {"write": drop})
    assert_no_trace(trips.path, index)
    after = dict(trips.table().snapshot.config.raw)
    assert {k: v for k, v in after.items() if v} == {k: v for k, v in before.items() if v}
    trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima", None)))
    trips.assert_whole()


@pytest.mark.parametrize("index", PARTS)
def test_a_commit_of_another_engine_makes_a_second_look(trips, index):
    """Hudi's writers do not see the build at all."""
    claim = begin(trips.writer, index)
    storage = trips.address.open()

    def silently() -> None:
        back = Interrupted(lambda: update_properties(storage, {INFLIGHT: index}))
        update_properties(storage, {INFLIGHT: ""})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lakedex.txn.recovery, "clear_builds", lambda *_: False)
            rows = trips.rows(("b1", 2, "bea", "rio", None))
            TableWriter(trips.address, back).upsert(rows)

    steps = lead(trips.writer, claim, {"write": silently})
    assert steps.count("read") == 2
    assert asked(trips, index, "bea", "rio") == ["b1"]
    trips.assert_whole()


@pytest.mark.parametrize("index", PARTS)
def test_the_commit_before_its_build_is_rolled_back(trips, index):
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo", None)))
    build = create_index(trips.writer, *ASKED[index][:2], wait=False)
    assert build.wait(60)
    newest = trips.table().timeline.write_instants()[-1].requested_time
    assert index in rollback_instant(trips.address, newest).indexes_rebuilt
    assert asked(trips, index, "ann", "oslo") == ["a1"]
    trips.assert_whole()


def build_it(path: str, index: str) -> None:
    """A job for a process of its own."""
    writer = TableWriter(StorageAddress.of(path), LocalEngine(1))
    create_index(writer, *ASKED[index][:2], wait=False).wait()


@pytest.mark.parametrize("index", PARTS)
@pytest.mark.parametrize(
    ("text", "skip", "is_after", "is_whole"),
    [
        ("lakedex.json", 0, True, False),
        (".indexing", 2, False, False),
        (".indexing", 2, True, True),
        (".indexing", 1, True, False),
    ],
)
def test_killed_it_is_whole_or_leaves_no_trace(tmp_path, index, text, skip, is_after, is_whole):
    trips = table(tmp_path / "t", "cow")
    trips.writer.insert(trips.rows(*FIRST))
    death = DieAt(text=text, skip=skip, is_after=is_after)
    assert finish(start(build_it, trips.path, index, watch=death)) == -9
    trips.writer.upsert(trips.rows(("d1", 7200, "dan", "lima", None)))
    if is_whole:
        assert asked(trips, index, "dan", "lima") == ["d1"]
    else:
        assert_no_trace(trips.path, index)
        assert not Path(trips.path, ".hoodie/.index_defs/lakedex.json").exists()
    trips.assert_whole()


def test_two_at_once_beside_one_that_hudi_knows(trips):
    pair, own = begin(trips.writer, PAIR), begin(trips.writer, OWN)
    third = create_index(trips.writer, "idx_rider", "rider", wait=False)
    assert third.wait(60)
    lead(
        trips.writer,
        pair,
        {
            "read": lambda: trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo", None))),
            "write": lambda: lead(trips.writer, own, {}),
            "switch": lambda: trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima", None))),
        },
    )
    for index in PARTS:
        assert asked(trips, index, "ada", "oslo") == ["a1"]
        assert asked(trips, index, "dan", "lima") == ["d1"]
    trips.assert_whole()


@pytest.mark.parametrize("columns", ["rider", ("city", "rider")])
def test_a_covering_index_covers_from_its_switch_on(trips, columns):
    options = {"lakedex.covering": "true"}
    build = create_index(trips.writer, "pair", columns, options=options, wait=False)
    assert build.wait(60)

    def reason() -> str:
        free = lakedex.ReadOptions(weighs_cost=False, without_indexes=WITHOUT)
        report = lakedex.open(trips.path, options=free).explain("rider = 'bob' AND city = 'rio'")
        (step,) = [each for each in report.steps if each.index == build.indexes[0]]
        return step.reason

    assert "that the entries name" in reason()
    trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima", None)))
    assert "that the entries name" in reason()
    trips.assert_whole()
