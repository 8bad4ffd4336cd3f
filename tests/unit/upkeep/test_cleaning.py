"""Cleaning by each policy, held against a plain model of which versions must stay."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow.compute as pc
import pytest

import lakedex
from lakedex.config import option_check
from lakedex.config.service_options import CleaningOptions, CleaningPolicy
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.filegroup import FileSliceId
from lakedex.services.clustering import cluster_table
from lakedex.services.clustering.plan import regroup, requested
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    CompactionOperation,
    CompactionPlan,
    Instant,
    State,
    load_table_config,
    write_instant,
)
from lakedex.timeline.clean_plan import CleanPlan, read_clean_plan
from lakedex.txn.lock import LockOptions, open_lock
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table, forget_scans, plan_clean, schedule_clean
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint
from lakedex.write.layout.order import RowOrder, Strategy
from tests.support.upkeep_lab import BY_HAND, Past, files_of, instant_of, make_past, read_by_hudi_rs
from tests.support.write_lab import Lab

KINDS = ("cow", "mor")
RETAIN = "hoodie.clean.commits.retained"
POLICY = "hoodie.clean.policy"
VERSIONS = {POLICY: "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


@pytest.fixture(scope="module")
def pasts(tmp_path_factory) -> dict[str, Past]:
    return {kind: make_past(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


@pytest.fixture
def past(pasts, tmp_path):
    return lambda kind: pasts[kind].copied(tmp_path / kind)


def replaced(path: str) -> dict[FileSliceId, str]:
    """The groups that were replaced, and when."""
    timeline = lakedex.open(path).timeline
    found = {}
    for instant in timeline.write_instants():
        for partition, ids in timeline.commit_metadata(instant).replaced_file_ids.items():
            found |= {FileSliceId(partition, each): instant.requested_time for each in ids}
    return found


def kept_by_commits(path: str, earliest: str) -> dict[tuple[str, str], list[str]]:
    """The model: of each group all versions since the one that was read just before."""
    gone = replaced(path)
    kept = {}
    for place, names in files_of(path).items():
        if gone.get(FileSliceId(*place), "9") < earliest:
            continue
        older = [name for name in names if instant_of(name) < earliest]
        kept[place] = [*older[-1:], *names[len(older) :]]
    return kept


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("retained", [1, 3, 6])
def test_by_commits_exactly_what_no_retained_commit_needs_goes(past, kind, retained):
    table = past(kind)
    earliest = table.times[-retained]
    expected = kept_by_commits(table.path, earliest)
    before = files_of(table.path)
    result = clean_table(table.lab.address, {RETAIN: str(retained)})
    assert result.earliest_retained == earliest
    assert files_of(table.path) == expected != before
    table.holds()
    for instant in table.times[-retained:]:
        assert table.as_of(instant) == table.states[instant]
    with pytest.raises(InvalidInput, match="were cleaned"):
        table.as_of(table.times[-retained - 1])
    assert clean_table(table.lab.address, {RETAIN: str(retained)}).instants == ()


@pytest.mark.parametrize("kind", KINDS)
def test_by_versions_so_many_of_each_group_stay(past, kind):
    table = past(kind)
    gone = replaced(table.path)
    before = files_of(table.path)
    options = VERSIONS | {"hoodie.clean.fileversions.retained": "2"}
    clean_table(table.lab.address, options)
    expected = {
        place: names[-2:] for place, names in before.items() if FileSliceId(*place) not in gone
    }
    assert files_of(table.path) == expected != before
    table.holds()


def test_by_hours_what_a_young_reader_needs_stays(past):
    table = past("cow")
    options = {POLICY: "KEEP_LATEST_BY_HOURS", "hoodie.cleaner.hours.retained": "1"}
    assert clean_table(table.lab.address, options).files == 0
    snapshot = Snapshot.open(table.lab.address.open())
    chosen = CleaningOptions(policy=CleaningPolicy.HOURS, hours=1)
    later = time.time_ns() // 1_000_000 + 3 * 3_600_000
    plan = plan_clean(snapshot, chosen, later)
    assert plan.earliest.requested_time == table.times[-1]
    assert plan.files == plan_clean(snapshot, CleaningOptions(commits=1), later).files


def test_a_look_at_what_changed_finds_what_a_look_at_all_finds(tmp_path):
    lab = Lab(tmp_path, "cow", **BY_HAND)
    past = Past(lab)
    past.upsert(range(12), 0)
    found = 0
    for number in range(1, 8):
        past.upsert([number, number + 3], number)
        snapshot = Snapshot.open(lab.address.open())
        now = time.time_ns() // 1_000_000
        all_of_it = plan_clean(snapshot, CleaningOptions(commits=2, incremental=False), now)
        some = plan_clean(snapshot, CleaningOptions(commits=2), now)
        assert some.files == all_of_it.files
        found += some.count
        clean_table(lab.address, {RETAIN: "2"})
        past.holds()
    assert found


def test_a_table_that_only_grows_is_looked_at_and_left_alone(tmp_path):
    past = Past(Lab(tmp_path, "cow", **{"hoodie.parquet.small.file.limit": "0"}, **BY_HAND))
    for number in range(4):
        past.upsert(range(6 * number, 6 * number + 6), 0)
    for _ in range(2):
        assert clean_table(past.lab.address, {RETAIN: "1"}).instants == ()
    assert len(lakedex.open(past.path).timeline.instants) == 4


@pytest.mark.parametrize("options", [{RETAIN: "1"}, VERSIONS], ids=["commits", "versions"])
def test_files_of_a_savepoint_stay_until_it_is_deleted(past, options):
    table = past("mor")
    saved = table.times[4]
    create_savepoint(table.lab.address, saved)
    clean_table(table.lab.address, options)
    assert table.as_of(saved) == table.states[saved]
    table.holds()
    delete_savepoint(table.lab.address, saved)
    forget_scans(table.lab.address.open())
    assert clean_table(table.lab.address, options).files > 0
    with pytest.raises(InvalidInput, match="were cleaned"):
        table.as_of(saved)
    table.holds()


def test_files_of_a_pending_clustering_and_compaction_stay(past):
    table = past("mor")
    storage = table.lab.address.open()
    snapshot = Snapshot.open(storage)
    old = snapshot.at(table.times[1])
    groups = regroup({old.slices[0].partition: old.slices[:1]}, 1 << 20)
    order = RowOrder.of(("x",), Strategy.LINEAR, snapshot.schema)
    part = old.slices[1]
    compaction = CompactionPlan(
        (
            CompactionOperation(
                part.file_id,
                part.partition,
                part.base_instant,
                part.base.name,
                tuple(log.name for log in part.logs),
            ),
        )
    )
    config = load_table_config(storage)
    last = table.times[-1]
    cluster = Instant(str(int(last) + 1), Action.CLUSTERING, State.REQUESTED)
    write_instant(storage, config, cluster, requested(storage, groups, order))
    compact = Instant(str(int(last) + 2), Action.COMPACTION, State.REQUESTED)
    write_instant(storage, config, compact, compaction.encode())
    assert clean_table(table.lab.address, {RETAIN: "1"}).files > 0
    for each in old.slices[:2]:
        for name in each.file_names:
            assert storage.exists(each.path_of(name))


def test_a_write_that_goes_on_keeps_what_it_began_with(past):
    table = past("cow")
    storage = table.lab.address.open()
    pending = Instant(str(int(table.times[6]) + 1), Action.COMMIT, State.INFLIGHT)
    write_instant(storage, load_table_config(storage), pending, b"")
    plan = plan_clean(Snapshot.open(storage), CleaningOptions(commits=1), 0)
    assert plan.earliest.requested_time == table.times[6]


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_without_files_goes_and_may_come_again(past, kind):
    table = past(kind)
    table.note(table.lab.writer.delete_partitions(["p=p2"]))
    table.upsert([0], 20)
    result = clean_table(table.lab.address, {RETAIN: "1"})
    assert result.partitions == ("p=p2",)
    assert not (Path(table.path) / "p=p2").exists()
    listed = lakedex.open(table.path).metadata("files", keys=["__all_partitions__"])
    assert "p=p2" not in dict(listed["filesystemMetadata"][0].as_py())
    table.holds()
    table.upsert([2, 5], 21)
    assert (Path(table.path) / "p=p2" / ".hoodie_partition_metadata").exists()
    table.holds()


def test_a_plan_that_somebody_left_is_carried_out_by_the_next_clean(past):
    table = past("cow")
    patience = TransactionOptions()
    instant = schedule_clean(table.lab.address, CleaningOptions(commits=2), patience)
    timeline = lakedex.open(table.path).timeline
    planned = read_clean_plan(timeline, instant)
    assert planned.earliest.requested_time == table.times[-2]
    result = clean_table(table.lab.address, {RETAIN: "2"})
    assert result.instants == (instant,)
    assert result.files == planned.count
    table.holds()


def test_a_clean_that_was_planned_before_a_savepoint_leaves_its_files(past):
    """Ours carries the plan out before it keeps anything; that of another engine may not."""
    table, patience = past("cow"), TransactionOptions()
    saved, last = table.times[3], table.times[-1]
    create_savepoint(table.lab.address, saved)
    folder = Path(table.path) / ".hoodie/timeline"
    files = {file: file.read_bytes() for file in folder.glob("*savepoint*")}
    delete_savepoint(table.lab.address, saved)
    instant = schedule_clean(table.lab.address, CleaningOptions(commits=2), patience)
    for file, data in files.items():
        file.write_bytes(data)
    assert clean_table(table.lab.address, {RETAIN: "2"}).instants == (instant,)
    assert table.as_of(saved) == table.states[saved]
    # When the savepoint is gone, so are its files with the next clean.
    delete_savepoint(table.lab.address, saved)
    assert clean_table(table.lab.address, {RETAIN: "2"}).files > 0
    later = schedule_clean(table.lab.address, CleaningOptions(commits=1), patience)
    assert table.as_of(table.times[-2]) == table.states[table.times[-2]]
    (folder / f"{later}.clean.inflight").write_bytes(b"")
    with pytest.raises(InvalidInput, match="were cleaned"):
        table.as_of(table.times[-2])
    with pytest.raises(InvalidInput, match="were cleaned"):
        create_savepoint(table.lab.address, table.times[-2])
    assert lakedex.open(table.path).timeline.is_completed(later)
    table.holds(last)


def test_a_plan_that_cannot_be_read_is_dropped(past):
    # case B38: unreadable plan
    table = past("cow")
    storage = table.lab.address.open()
    instant = Instant(str(int(table.times[-1]) + 1), Action.CLEAN, State.REQUESTED)
    write_instant(storage, load_table_config(storage), instant, b"")
    assert len(clean_table(table.lab.address, {RETAIN: "2"}).instants) == 1
    assert lakedex.open(table.path).timeline.find(instant.requested_time) is None
    table.holds()


def test_a_poisoned_plan_deletes_nothing_that_is_read_and_nothing_elsewhere(past, tmp_path):
    table = past("cow")
    storage = table.lab.address.open()
    current = Snapshot.open(storage).slices[0]
    outside = tmp_path / "outside.parquet"
    outside.write_bytes(b"x")
    names = (current.base.name, "hoodie.properties", "a.txt")
    plan = CleanPlan(
        "KEEP_LATEST_COMMITS", None, "", {current.partition: names, ".hoodie": names[1:2]}
    )
    config = load_table_config(storage)
    instant = Instant(str(int(table.times[-1]) + 1), Action.CLEAN, State.REQUESTED)
    write_instant(storage, config, instant, plan.encode(storage.root))
    assert clean_table(table.lab.address, {RETAIN: "100"}).files == 0
    assert outside.exists()
    table.holds()


def test_cleaning_after_clustering_keeps_the_record_index(past):
    # case B21: record index after clustering and cleaning
    table = past("cow")
    table.note(cluster_table(table.lab.writer, "ver", "linear"))
    clean_table(table.lab.address, VERSIONS)
    table.holds()
    report = lakedex.open(table.path).explain("id = 'k04'")
    assert any(step.kind == "record_index" and step.after < step.before for step in report.steps)


@pytest.mark.parametrize("name", ["cow_trips_all_indexes", "mor_trips_compacted"])
def test_entries_of_all_indexes_of_removed_files_go(golden, tmp_path, name):
    # case B67: expression index entries of cleaned files
    path = str(tmp_path / "t")
    shutil.copytree(golden(name).path, path)
    before = lakedex.open(path).to_arrow()
    result = clean_table(StorageAddress.of(path), VERSIONS)
    assert result.files > 0
    table = lakedex.open(path)
    assert table.to_arrow().sort_by("_hoodie_record_key") == before.sort_by("_hoodie_record_key")
    names = {name for files in table.snapshot.listing.files.values() for name, _ in files}
    for index in ("column_stats", "expr_index_idx_datestr"):
        entries = table.metadata(index).filter(pc.field("type") == 3)
        stats = entries["ColumnStatsMetadata"].combine_chunks()
        found = set(stats.field("fileName").to_pylist())
        assert found <= names, index
    report = table.verify()
    assert not [each for each in report.problems if each.index in ("files", "column_stats")]


def test_hudi_rs_reads_what_is_left(past):
    table = past("cow")
    clean_table(table.lab.address, {RETAIN: "1"})
    assert read_by_hudi_rs(table.path) == table.states[table.times[-1]]


def test_wrong_options_change_nothing(past):
    table = past("cow")
    for options in ({RETAIN: "0"}, {POLICY: "KEEP_ALL"}, {"hoodie.clean.comits.retained": "2"}):
        with pytest.raises(InvalidInput, match=r"hoodie\.clean"):
            clean_table(table.lab.address, options)
    table.holds()


def test_options_of_services_are_compared_with_the_table_or_warned_of(past, caplog, monkeypatch):
    monkeypatch.setattr(option_check, "_warned", set())
    table = past("cow")
    for run, service in ((clean_table, "clean"), (archive_table, "run of archiving")):
        for wrong, words in (
            ({"hoodie.table.name": "another"}, "hoodie.table.name='another' contradicts table"),
            ({"hoodie.clean.comits.retained": "1"}, "did you mean 'hoodie.clean.commits.retained'"),
        ):
            with pytest.raises(InvalidInput, match=words):
                run(table.lab.address, wrong)
        caplog.clear()
        option_check._warned.clear()
        run(table.lab.address, {"hoodie.index.type": "BLOOM", "hoodie.clean.automatic": "true"})
        said = [record.getMessage() for record in caplog.records]
        assert said == [
            f"option hoodie.index.type has no effect on a {service}: it is an option of other work"
        ]


@pytest.mark.parametrize("run", [clean_table, archive_table])
def test_services_wait_for_the_lock_as_long_as_options_say(past, run):
    table = past("cow")
    with (
        open_lock(table.lab.address.open(), LockOptions()),
        pytest.raises(CommitConflict, match=r"waited 0\.001 s"),
    ):
        run(table.lab.address, {"hoodie.write.lock.wait_time_ms": "1"})
    run(table.lab.address, {"hoodie.write.lock.wait_time_ms": "1000"})
