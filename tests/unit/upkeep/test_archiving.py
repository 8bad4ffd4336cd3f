"""Archiving: what leaves the active timeline, what must stay, and how the history grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakedex
from lakedex.config import table_checksum
from lakedex.config.service_options import ArchivingOptions, CleaningOptions
from lakedex.errors import InvalidInput
from lakedex.storage.local import LocalStorage
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    ArchivedTimeline,
    Instant,
    State,
    Timeline,
    load_table_config,
    write_instant,
)
from lakedex.timeline.history_writer import (
    ArchivedInstant,
    append_history,
    merge_levels,
    remove_old_versions,
)
from lakedex.timeline.lsm_history import LsmHistory
from lakedex.upkeep.archiving import archive_table, data_instants_to_archive
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint
from tests.support.upkeep_lab import BY_HAND, Past, make_past, read_by_hudi_rs
from tests.support.write_lab import Lab

FEW = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
}
HISTORY = ".hoodie/timeline/history"


@pytest.fixture(scope="module")
def cow(tmp_path_factory):
    return make_past(tmp_path_factory.mktemp("cow"), "cow")


@pytest.fixture
def table(cow, tmp_path):
    return cow.copied(tmp_path / "cow")


def active(path: str) -> list[str]:
    return [each.requested_time for each in lakedex.open(path).timeline.write_instants()]


def test_the_oldest_commits_go_once_what_they_replaced_is_cleaned(table):
    # case B49: archived replace commits
    begun = table.times[:]
    result = archive_table(table.lab.address, FEW)
    replacing = next(
        each.requested_time
        for each in lakedex.open(table.path).timeline.write_instants()
        if each.action is Action.REPLACECOMMIT
    )
    assert active(table.path)[0] == replacing
    assert result.instants == begun.index(replacing)
    table.holds()
    clean_table(table.lab.address, FEW)
    archive_table(table.lab.address, FEW)
    kept = active(table.path)
    assert len(kept) < 6
    assert kept == begun[-len(kept) :]
    table.holds()
    assert read_by_hudi_rs(table.path) == table.states[begun[-1]]
    archived = lakedex.open(table.path).timeline.archived
    writes = [each.requested_time for each in archived.instants() if each.action.is_write]
    assert writes == begun[: -len(kept)]
    done = lakedex.open(table.path).timeline.completion_time(begun[-2])
    changes = lakedex.open(table.path).changes(done)
    assert set(changes["_hoodie_commit_time"].to_pylist()) == {begun[-1]}
    table.upsert([4, 5, 6], 30)
    table.holds()


def test_the_metadata_of_an_archived_commit_is_what_it_was(table):
    timeline = lakedex.open(table.path).timeline
    first = timeline.write_instants()[0]
    before = timeline.commit_metadata(first)
    archive_table(table.lab.address, FEW)
    archived = lakedex.open(table.path).timeline.archived
    found = archived.find(first.requested_time)
    assert found == first
    assert lakedex.open(table.path).timeline.commit_metadata(found) == before


def test_the_timeline_of_the_metadata_table_goes_too(table):
    metadata = Path(table.path) / ".hoodie/metadata"
    before = len(lakedex.open(str(metadata)).timeline.write_instants())
    clean_table(table.lab.address, FEW)
    archive_table(table.lab.address, FEW)
    result = archive_table(table.lab.address, FEW)
    storage = LocalStorage(str(metadata))
    timeline = Timeline.load(storage, load_table_config(storage))
    assert len(timeline.write_instants()) < before - 5
    assert result.metadata_instants == 0
    archived = timeline.archived.instants()
    assert archived[0].requested_time.startswith("00000000000000")
    assert not {each.requested_time for each in archived} & set(active(table.path))
    table.holds()


def to_archive(path: str, **cleaning: int) -> list[str]:
    snapshot = Snapshot.open(LocalStorage(path))
    found = data_instants_to_archive(
        snapshot, ArchivingOptions(least=3, most=4), CleaningOptions(**cleaning), 0
    )
    return [each.requested_time for each in found]


def test_what_others_ask_for_stays(table):
    times = table.times
    assert to_archive(table.path, commits=2)[-1] < times[-3]
    # What the next clean is to look at.
    assert to_archive(table.path, commits=9) == times[: len(times) - 10]
    storage = table.lab.address.open()
    config = load_table_config(storage)
    pending = Instant(str(int(times[3]) + 1), Action.COMMIT, State.REQUESTED)
    path = write_instant(storage, config, pending, b"")
    found = to_archive(table.path, commits=2)
    assert found
    assert found == times[: len(found)]
    assert len(found) <= 3
    storage.delete(path)
    create_savepoint(table.lab.address, times[2])
    assert to_archive(table.path, commits=2) == times[:2]


def test_before_the_metadata_table_is_compacted_nothing_goes(tmp_path):
    options = {"hoodie.metadata.compact.max.delta.commits": "1000"}
    past = Past(Lab(tmp_path, "cow", **options, **BY_HAND))
    for number in range(6):
        past.upsert([number], number)
    assert archive_table(past.lab.address, FEW).instants == 0


def test_too_few_commits_to_keep_are_refused(table):
    limits = {"hoodie.keep.min.commits": "20", "hoodie.keep.max.commits": "10"}
    with pytest.raises(InvalidInput, match=r"hoodie\.keep\.min\.commits=20 must be less"):
        archive_table(table.lab.address, limits)


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [({"hoodie.keep.max.commits": "10"}, 9, 10), ({"hoodie.keep.min.commits": "40"}, 40, 41)],
)
def test_of_two_limits_the_one_that_was_chosen_counts(given, least, most):
    found = ArchivingOptions.resolve(given)
    assert (found.least, found.most) == (least, most)


def archived(number: int) -> ArchivedInstant:
    time = f"202601010000{number:05d}"
    return ArchivedInstant(time, f"202601010000{number:05d}", Action.COMMIT, b"m%d" % number, None)


def test_levels_are_merged_and_old_files_go(tmp_path):
    storage = LocalStorage(str(tmp_path))
    config = load_table_config_for(storage)
    for number in range(25):
        append_history(storage, HISTORY, [archived(2 * number), archived(2 * number + 1)])
        merge_levels(storage, HISTORY, 3)
        remove_old_versions(storage, HISTORY)
        found = ArchivedTimeline.load(storage, config)
        times = [each.requested_time for each in found.instants()]
        assert times == [archived(n).requested_time for n in range(2 * number + 2)]
        assert found.metadata(times[number]) == b"m%d" % number
    levels = [file.level for file in LsmHistory(storage, HISTORY).files()]
    assert max(levels) == 2
    assert len(levels) < 6
    names = [file.name for file in (tmp_path / HISTORY).iterdir()]
    assert len([name for name in names if name.startswith("manifest_")]) == 3
    assert len(names) < 14


def load_table_config_for(storage: LocalStorage):
    storage.create(
        ".hoodie/hoodie.properties",
        b"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.timeline.layout.version=2\n"
        b"hoodie.table.checksum=%d\n" % table_checksum("t"),
    )
    return load_table_config(storage)


def test_what_an_attempt_left_that_was_cut_short_is_written_over(tmp_path):
    storage = LocalStorage(str(tmp_path))
    append_history(storage, HISTORY, [archived(1)])
    storage.create(f"{HISTORY}/manifest_2", b"half")
    name = f"{archived(2).requested_time}_{archived(2).requested_time}_0.parquet"
    storage.create(f"{HISTORY}/{name}", b"half")
    append_history(storage, HISTORY, [archived(2)])
    assert len(LsmHistory(storage, HISTORY).instants(None, None)) == 2
    manifest = json.loads((tmp_path / HISTORY / "manifest_2").read_text(encoding="utf-8"))
    assert {entry["fileName"] for entry in manifest["files"]} >= {name}


def test_who_looked_before_an_archiving_reads_what_went_all_the_same(table):
    clean_table(table.lab.address, {"hoodie.clean.commits.retained": "4"})
    seen = lakedex.open(table.path)
    (clean,) = [each for each in seen.timeline.completed() if each.action is Action.CLEAN]
    said = seen.timeline.read(clean)
    storage = table.lab.address.open()
    moved = ArchivedInstant(
        clean.requested_time, str(clean.completion_time), Action.CLEAN, said, None
    )
    append_history(storage, HISTORY, [moved])
    storage.delete(f".hoodie/timeline/{clean.requested_time}_{clean.completion_time}.clean")
    assert seen.timeline.read(clean) == said
    newest = table.times[-1]
    assert seen.to_arrow(as_of=newest).num_rows == len(table.states[newest])
    with pytest.raises(InvalidInput, match="older file versions were cleaned"):
        seen.to_arrow(as_of=table.times[0])
