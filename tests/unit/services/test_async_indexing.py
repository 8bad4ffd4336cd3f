"""Indexes that are built while writers go on, step by step in one process."""

from __future__ import annotations

import threading

import pytest
from hudi import HudiTable

import lakedex
from lakedex.errors import InvalidInput
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_dropping import drop_index
from lakedex.services.indexing import start_build
from lakedex.services.indexing.runner import run_build
from lakedex.timeline import Action, update_properties
from lakedex.write.verbs import TableWriter
from tests.support.index_builds import (
    FIRST,
    OPTIONS,
    RIDER,
    Interrupted,
    lead,
    secondary,
    start,
)
from tests.support.secondary import Trips, pairs

SIMPLE = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}


@pytest.fixture(params=["cow", "mor"])
def trips(request, tmp_path) -> Trips:
    made = Trips(tmp_path / "t", request.param)
    made.writer.insert(made.rows(*FIRST))
    return made


@pytest.fixture(params=["cow", "mor"])
def plain(request, tmp_path) -> Trips:
    """Without any index but the listing of files."""
    made = Trips(tmp_path / "t", request.param, properties=SIMPLE)
    made.writer.insert(made.rows(*FIRST))
    assert made.table().snapshot.config.metadata_partitions == ("files",)
    return made


def patience(trips: Trips):
    return trips.writer.target().patience


def changes(trips: Trips) -> dict[str, object]:
    """Writes of every kind, one before each step: an update, a delete and a move to elsewhere."""
    return {
        "read": lambda: trips.writer.upsert(
            trips.rows(("a1", 2, "ada", "oslo"), ("d1", 1, "dan", "lima"))
        ),
        "write": lambda: trips.writer.delete(trips.rows(("b1", 9, None, "rio"))),
        "switch": lambda: trips.writer.upsert(trips.rows(("c1", 2, "cat", "rio"))),
    }


def test_a_secondary_index_with_writers_between_all_steps(trips):
    claim = start(trips.writer, "rider")
    steps = lead(trips.writer, claim, changes(trips))
    assert steps == ["read", "write", "switch"], "commits that told the index need no second look"
    assert trips.entries("rider") == pairs({"a1": "ada", "c1": "cat", "d1": "dan"})
    trips.assert_whole()
    assert trips.found("rider in ('ann', 'bob', 'cem')") == []
    assert trips.found("rider in ('ada', 'cat', 'dan')") == ["a1", "c1", "d1"]
    trips.writer.upsert(trips.rows(("d1", 2, "dov", "lima")))
    assert trips.found("rider in ('dan', 'dov')") == ["d1"]
    trips.assert_whole()


@pytest.mark.parametrize("index", ["record_index", "column_stats", "bloom_filters"])
def test_every_other_index_with_writers_between_all_steps(plain, index):
    claim = start(plain.writer, index)
    assert lead(plain.writer, claim, changes(plain)) == ["read", "write", "switch"]
    made = {"column_stats": {"column_stats", "partition_stats"}}.get(index, {index})
    assert {*plain.table().snapshot.config.metadata_partitions} == {"files", *made}
    plain.assert_whole()
    assert plain.found("rider in ('ann', 'bob', 'cem')") == []
    assert plain.found("uuid in ('a1', 'b1', 'c1', 'd1')") == ["a1", "c1", "d1"]
    # Cases B29, B62: a writer whose options do not name the index keeps it.
    plain.writer.upsert(plain.rows(("d1", 2, "dov", "lima"), ("e1", 1, "eva", "oslo")))
    assert {*plain.table().snapshot.config.metadata_partitions} == {"files", *made}
    assert plain.found("rider = 'eva'") == ["e1"]
    plain.assert_whole()


def test_a_secondary_index_and_its_record_index_with_writers_between_all_steps(plain):
    claim = start_build(plain.writer, OPTIONS["record_index"], [secondary("rider")])
    assert {*claim.build.names} == {"record_index", RIDER}
    assert lead(plain.writer, claim, changes(plain)) == ["read", "write", "switch"]
    assert plain.entries("rider") == pairs({"a1": "ada", "c1": "cat", "d1": "dan"})
    plain.assert_whole()
    assert plain.found("rider in ('ann', 'bob', 'cem')") == []
    assert plain.found("rider in ('ada', 'cat', 'dan')") == ["a1", "c1", "d1"]
    assert plain.found("uuid in ('a1', 'b1', 'c1', 'd1')") == ["a1", "c1", "d1"]
    plain.writer.upsert(plain.rows(("d1", 2, "dov", "lima"), ("e1", 1, "eva", "oslo")))
    assert plain.found("rider in ('dan', 'dov', 'eva')") == ["d1", "e1"]
    plain.assert_whole()


def test_readers_and_writers_do_not_use_it_before_it_is_whole(plain):
    claim = start(plain.writer, "record_index")

    def look() -> None:
        table = plain.table()
        assert "record_index" not in table.snapshot.config.metadata_partitions
        assert "record_index" not in table.snapshot.definitions
        report = table.explain("uuid = 'a1'")
        assert not any(step.index == "record_index" for step in report.steps), report
        assert plain.found("uuid = 'a1'") == ["a1"]

    lead(plain.writer, claim, {"read": look, "write": look, "switch": look})
    assert len(plain.table().explain("uuid = 'b1'").files) == 1


def test_it_is_listed_as_building_with_what_is_read(trips):
    claim = start(trips.writer, "rider")

    def found() -> list[tuple[str, tuple[str, ...], float | None]]:
        infos = [each for each in trips.table().indexes() if each.name == RIDER]
        return [(each.state, each.columns, each.progress) for each in infos]

    assert found() == [("building", ("rider",), None)]
    seen: list[object] = []
    lead(trips.writer, claim, {"switch": lambda: seen.extend(found())})
    assert seen == [("building", ("rider",), 1.0)]
    assert found() == [("live", ("rider",), None)]


# case B40: rollback of a running writer
def test_a_write_that_began_before_the_build_is_waited_for_and_caught_up_with(trips):
    claims = []
    steps: list[str] = []

    def begin() -> None:
        claims.append(start(trips.writer, "rider"))
        builder = threading.Thread(target=lambda: steps.extend(lead(trips.writer, claims[0], {})))
        builder.start()
        claims.append(builder)
        waits_for(trips, "waiting")

    late = TableWriter(trips.address, Interrupted(begin))
    late.upsert(trips.rows(("a1", 2, "ada", "oslo"), ("b1", 2, "bea", "oslo")))
    claims[1].join(60)
    assert steps.count("read") == 2, "the commit that said nothing of the index makes a second look"
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bea", "c1": "cem"})
    assert trips.found("rider in ('ada', 'bea', 'ann', 'bob')") == ["a1", "b1"]
    trips.assert_whole()


def waits_for(trips: Trips, step: str) -> None:
    """Wait until the builder of the only build is at a step."""
    event = threading.Event()
    for _ in range(600):
        (build,) = trips.table().snapshot.builds
        told = lakedex.index.builds.read_progress(trips.address.open(), build.instant)
        if told is not None and told.step == step:
            return
        event.wait(0.1)
    raise AssertionError(f"the builder never came to {step}")


def test_only_slices_that_changed_are_read_again(trips, monkeypatch):
    read: list[int] = []
    inner = lakedex.services.indexing.reading.survey_shares

    def counting(engine, facts, history, shares, wants):
        read.extend(len(share) for share in shares)
        return inner(engine, facts, history, shares, wants)

    monkeypatch.setattr(lakedex.services.indexing.reading, "survey_shares", counting)
    claim = start(trips.writer, "rider")
    lead(trips.writer, claim, {"write": lambda: silently(trips, ("b1", 2, "bea", "rio"))})
    assert read == [1, 1, 1], "two partitions, and the one of the silent commit once more"
    assert trips.entries("rider") == pairs({"a1": "ann", "b1": "bea", "c1": "cem"})
    trips.assert_whole()


def silently(trips: Trips, *rows: tuple[object, ...], verb: str = "upsert") -> None:
    """A commit that tells indexes in the making nothing, as those of other engines do."""
    storage = trips.address.open()
    inflight = trips.table().snapshot.config.raw["hoodie.table.metadata.partitions.inflight"]
    key = "hoodie.table.metadata.partitions.inflight"
    hidden = Interrupted(lambda: update_properties(storage, {key: inflight}))
    update_properties(storage, {key: ""})
    with pytest.MonkeyPatch.context() as patch:
        # The build must not be taken for one that was dropped while it is out of sight.
        patch.setattr(lakedex.txn.recovery, "clear_builds", lambda *_: False)
        getattr(TableWriter(trips.address, hidden), verb)(trips.rows(*rows))


def test_a_silent_commit_between_two_that_tell(trips):
    """What was told before the second look must not come back after it."""
    claim = start(trips.writer, "rider")

    def happen() -> None:
        trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima"), ("a1", 2, "ada", "oslo")))
        silently(trips, ("d1", 9, None, "lima"), verb="delete")
        silently(trips, ("a1", 3, "amy", "oslo"))

    steps = lead(trips.writer, claim, {"write": happen})
    assert steps.count("read") == 2
    assert trips.entries("rider") == pairs({"a1": "amy", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_writers_that_never_tell_wait_for_the_builder_once(trips):
    claim = start(trips.writer, "rider")
    number = iter(range(2, 100))
    stop = threading.Event()

    def on_step(step: str) -> None:
        # The last look is read under the lock, where nobody can write.
        if step == "switch":
            silently(trips, ("a1", next(number), f"ann{next(number)}", "oslo"))

    run_build(trips.writer, claim, stop, on_step)
    assert RIDER in trips.table().snapshot.config.metadata_partitions
    trips.assert_whole()


def test_clustering_overwriting_and_dropping_partitions_meanwhile(plain):
    claim = start(plain.writer, "record_index")
    acts = {
        "read": lambda: cluster_table(plain.writer, "rider"),
        "write": lambda: plain.writer.insert_overwrite(plain.rows(("f1", 1, "fay", "rio"))),
        "switch": lambda: plain.writer.delete_partitions(["city=oslo"]),
    }
    assert lead(plain.writer, claim, acts).count("read") >= 2
    plain.assert_whole()
    assert plain.found("uuid in ('a1', 'b1', 'c1', 'f1')") == ["f1"]


def test_services_meanwhile(tmp_path):
    """Compactions of the table and of its metadata table, and cleans, do not stand in the way."""
    trips = Trips(tmp_path / "t", "mor")
    trips.writer.insert(trips.rows(*FIRST))
    claim = start(trips.writer, "rider")
    often = {
        "hoodie.metadata.compact.max.delta.commits": "2",
        "hoodie.clean.commits.retained": "1",
        "hoodie.clean.automatic": "true",
    }

    def happen() -> None:
        writer = trips.writer.with_options(often)
        for number in range(2, 6):
            writer.upsert(trips.rows(("a1", number, f"ann{number}", "oslo")))
            compact_table(writer)

    def compactions() -> int:
        inner = lakedex.open(f"{trips.path}/.hoodie/metadata").timeline
        return sum(each.action is Action.COMMIT for each in inner.write_instants())

    before = compactions()
    lead(trips.writer, claim, {"write": happen, "switch": happen})
    # Case B44: the metadata table was compacted while the indexing instant was pending.
    assert compactions() > before
    assert trips.entries("rider") == pairs({"a1": "ann5", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_two_builds_at_once(trips):
    first, other = start(trips.writer, "rider"), start(trips.writer, "city")
    lead(
        trips.writer,
        first,
        {
            "read": lambda: trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo"))),
            "write": lambda: lead(trips.writer, other, {}),
            "switch": lambda: trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima"))),
        },
    )
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem", "d1": "dan"})
    assert trips.entries("city") == pairs({"a1": "oslo", "b1": "rio", "c1": "oslo", "d1": "lima"})
    trips.assert_whole()


def test_columns_of_an_index_in_the_making_cannot_change(trips):
    start(trips.writer, "rider")
    with pytest.raises(InvalidInput, match="drop that first"):
        trips.writer.change_columns(lambda schema: schema.remove(schema.get_field_index("rider")))
    with pytest.raises(InvalidInput, match="need the record index"):
        drop_index(trips.address, "record_index", patience(trips))


def test_hudi_rs_reads_the_table_at_every_step(trips):
    def judge() -> None:
        rows = sum(batch.num_rows for batch in HudiTable(trips.path).read())
        assert rows == len(FIRST)

    claim = start(trips.writer, "rider")
    judge()
    lead(trips.writer, claim, dict.fromkeys(("read", "write", "switch"), judge))
    judge()
