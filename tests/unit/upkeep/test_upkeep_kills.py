"""kill -9 before and after changes of files that cleaning, archiving, savepoints and restores make.

After each kill the table opens and holds a completed state, and the next call ends what was begun.
A default run takes a sample of the kill points; LAKEDEX_KILLS=all takes every one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakedex
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint
from tests.support.killing import changes_of, finish_killed
from tests.support.upkeep_lab import BY_HAND, Past, files_of, read_by_hudi_rs
from tests.support.write_lab import Lab, row, source

EVERY = os.environ.get("LAKEDEX_KILLS") == "all"
POINTS = 6
FEW = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.timeline.compaction.batch.size": "2",
}
LATER = row("k99", "p0", 500)


def clean_job(path: str, instant: str) -> None:
    clean_table(StorageAddress.of(path), FEW)


def archive_job(path: str, instant: str) -> None:
    archive_table(StorageAddress.of(path), FEW)


def savepoint_job(path: str, instant: str) -> None:
    create_savepoint(StorageAddress.of(path), instant)


def restore_job(path: str, instant: str) -> None:
    restore_table(StorageAddress.of(path), instant)


def rollback_job(path: str, instant: str) -> None:
    rollback_instant(StorageAddress.of(path), instant)


@dataclass(frozen=True)
class Killed:
    """A table after a kill."""

    table: Past
    where: str


@pytest.fixture(scope="module")
def past(tmp_path_factory) -> Past:
    """A savepoint with two commits after it, and a partition that was overwritten."""
    options = {"hoodie.metadata.compact.max.delta.commits": "3"}
    lab = Lab(
        tmp_path_factory.mktemp("past"), "cow", "GLOBAL_RECORD_LEVEL_INDEX", **options, **BY_HAND
    )
    past = Past(lab)
    for number in range(3):
        past.upsert([number, 3, 4, 5], number)
    past.note(lab.writer.insert_overwrite(source([row("k01", "p1", 70), row("k04", "p1", 71)])))
    for number in range(4, 7):
        past.upsert([number, 3, 5], number)
    return past


def killed(
    past: Past, folder: Path, job: Callable[[str, str], None], instant: str
) -> Iterator[Killed]:
    """The table after a kill at each chosen change that a job makes."""
    counted = past.copied(folder / "count")
    changes = changes_of(job, counted.path, instant, result=folder / "seen")
    points = [(number, after) for number in range(len(changes)) for after in (False, True)]
    step = 1 if EVERY else max(1, len(points) // POINTS)
    for number, after in points[step // 2 :: step]:
        table = past.copied(folder / "killed")
        end = folder / "end"
        finish_killed(job, table.path, instant, at=number, after=after, result=end)
        yield Killed(table, f"{'after' if after else 'before'} {number}: {changes[number]}")


def rest(table: Past) -> None:
    """A write that recovers; the table then has nothing pending and its indexes are exact."""
    before = table.lab.rows()
    table.lab.writer.upsert(source([LATER]))
    timeline = lakedex.open(table.path).timeline
    assert not [each for each in timeline.pending() if each.action is not Action.CLEAN]
    expected = [each for each in before if each["id"] != LATER["id"]]
    table.lab.holds([*expected, LATER], "id = 'k04'")


def test_a_clean_killed_anywhere_is_ended_by_the_next(past, tmp_path):
    whole = past.copied(tmp_path / "whole")
    clean_job(whole.path, "")
    for each in killed(past, tmp_path, clean_job, ""):
        table = each.table
        assert table.lab.rows() == table.states[table.times[-1]], each.where
        assert read_by_hudi_rs(table.path) == table.lab.rows(), each.where
        clean_job(table.path, "")
        assert files_of(table.path) == files_of(whole.path), each.where
        assert not lakedex.open(table.path).timeline.pending(), each.where
        table.holds()
        shutil.rmtree(table.path)


def test_archiving_killed_anywhere_loses_no_commit(past, tmp_path):
    cleaned = past.copied(tmp_path / "cleaned")
    clean_job(cleaned.path, "")
    archive_table(
        cleaned.lab.address,
        FEW | {"hoodie.keep.min.commits": "4"} | {"hoodie.keep.max.commits": "5"},
    )
    for each in killed(cleaned, tmp_path, archive_job, ""):
        table = each.table
        found = [one.requested_time for one in lakedex.open(table.path).timeline.between(None)]
        assert found == table.times, each.where
        assert not lakedex.open(table.path).timeline.pending(), each.where
        table.holds()
        archive_job(table.path, "")
        found = [one.requested_time for one in lakedex.open(table.path).timeline.between(None)]
        assert found == table.times, each.where
        rest(table)


def test_a_savepoint_killed_anywhere_is_there_or_not(past, tmp_path):
    saved = past.times[2]
    seen = set()
    for each in killed(past, tmp_path, savepoint_job, saved):
        table = each.table
        timeline = lakedex.open(table.path).timeline
        seen.add(timeline.savepoints())
        rest(table)
        assert lakedex.open(table.path).timeline.savepoints() == timeline.savepoints(), each.where
    assert () in seen


@pytest.mark.parametrize("back", [2, 6], ids=["undone", "built anew"])
def test_a_restore_killed_anywhere_is_ended_by_the_next_write(past, tmp_path, back):
    target = past.times[-back]
    ended = 0
    for each in killed(past, tmp_path, restore_job, target):
        table = each.table
        states = [table.states[time] for time in table.times[-back:]]
        assert table.lab.rows() in states, each.where
        had_begun = any(
            one.action is Action.RESTORE for one in lakedex.open(table.path).timeline.instants
        )
        table.lab.writer.upsert(source([LATER]))
        expected = table.states[target if had_begun else table.times[-1]]
        table.lab.holds([*expected, LATER], "id = 'k04'")
        assert not lakedex.open(table.path).timeline.pending(), each.where
        before = lakedex.open(past.path).snapshot.config.metadata_partitions
        assert lakedex.open(table.path).snapshot.config.metadata_partitions == before, each.where
        ended += had_begun
    assert ended


def test_a_rollback_of_a_commit_killed_anywhere_is_whole_or_nothing(past, tmp_path):
    ended = 0
    for each in killed(past, tmp_path, rollback_job, past.times[-1]):
        table = each.table
        assert table.lab.rows() in [table.states[time] for time in table.times[-2:]], each.where
        table.lab.writer.upsert(source([LATER]))
        found = table.lab.rows()
        gone = [*table.states[table.times[-2]], LATER]
        ended += found == sorted(gone, key=repr)
        kept = [*table.states[table.times[-1]], LATER]
        table.lab.holds(gone if found == sorted(gone, key=repr) else kept, "id = 'k04'")
        assert not lakedex.open(table.path).timeline.pending(), each.where
    assert ended
