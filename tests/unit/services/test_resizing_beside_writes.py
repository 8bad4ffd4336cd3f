"""Writers beside a resize that pends: rows go to the old and to the new buckets, or virtual log
files of the old ones name those of the new ones."""

from __future__ import annotations

import shutil

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, InvalidInput, ServicePends
from lakedex.filegroup import LogFile, parse_data_file
from lakedex.format.logfile import read_blocks
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.services.clustering.resizing import (
    pending_resizes,
    resize_buckets,
    run_resize,
    schedule_resize,
)
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.resizing import ResizeLimits
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import check_buckets, rings_of, snapshot_of
from tests.support.buckets import assert_in_buckets
from tests.support.history import History, create, writer_of
from tests.support.killing import changes_of, finish_killed
from tests.support.resizing import (
    DUAL,
    MERGE_ALL,
    VIRTUAL,
    beside,
    lab_of,
    logs_of,
    plan_merge,
    plan_split,
    rows_of,
)
from tests.support.row_model import assert_holds
from tests.support.turns import part_of
from tests.support.write_lab import Lab, source
from tests.support.write_shapes import Shape


@pytest.fixture(params=[DUAL, VIRTUAL], ids=["dual", "virtual"])
def writes(request):
    """The option that lets a write go on beside a resize."""
    return request.param


class Interrupted(LocalEngine):
    def __init__(self, act):
        super().__init__(2)
        self._act = act

    def map(self, label, worker, tasks):
        answers = super().map(label, worker, tasks)
        if label == "write the files" and self._act is not None:
            act, self._act = self._act, None
            act()
        return answers


@pytest.mark.parametrize("engine", ["CONSISTENT_HASHING", "EXTENDIBLE_HASHING"])
def test_rows_go_to_old_and_new_buckets_while_a_resize_pends(engine, writes, tmp_path):
    lab = lab_of(tmp_path, engine)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    with pytest.raises(ServicePends, match=instant):
        lab.writer.upsert(source(rows_of(3, 2)))
    assert logs_of(lab.path, instant) == []
    result = beside(lab, writes).upsert(source(rows_of(50, 2)))
    assert result.updated + result.inserted == 50
    lab.holds(rows_of(50, 2))
    copies = logs_of(lab.path, instant)
    assert len(copies) == 4
    for copy in copies:
        log = parse_data_file(copy.name, copy.stat().st_size)
        assert isinstance(log, LogFile)
        blocks = read_blocks(lab.address.open().source(f"p=a/{copy.name}"))
        assert {block.instant_time for block in blocks} == {result.instant}
    beside(lab, writes).delete(source(rows_of(10, 3)))
    beside(lab, writes).upsert(source(rows_of(5, 4, 10)))
    with pytest.raises(ServicePends, match="was deleted from it"):
        beside(lab, writes).upsert(source(rows_of(1, 5)))
    expected = [*rows_of(5, 4, 10), *rows_of(35, 2, 15)]
    lab.holds(expected)
    run_resize(lab.writer, instant)
    lab.holds(expected)
    check_buckets(lab.path)
    assert len(rings_of(lab.path)["p=a"].nodes) == 4
    lab.writer.upsert(source(rows_of(60, 5)))
    lab.holds(rows_of(60, 5))
    compact_table(lab.writer)
    clean_table(lab.address, {"hoodie.cleaner.commits.retained": "1"})
    lab.holds(rows_of(60, 5))
    check_buckets(lab.path)


def test_merged_buckets_take_the_rows_of_both(writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_merge(lab)
    for version in (2, 3, 4):
        beside(lab, writes).upsert(source(rows_of(20 + version, version, version)))
    before = lab.rows()
    run_resize(lab.writer, instant)
    lab.holds(before)
    check_buckets(lab.path)
    assert len(rings_of(lab.path)["p=a"].nodes) == 1


def test_writes_complete_while_the_resize_runs(writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    attempts = []

    def write() -> None:
        attempts.append(1)
        beside(lab, writes).upsert(source(rows_of(20, 2)))
        beside(lab, writes).delete(source(rows_of(5, 3, 30)))
        beside(lab, writes).upsert(source(rows_of(10, 3, 38)))

    run_resize(TableWriter(lab.address, Interrupted(write)), instant)
    lab.holds([*rows_of(20, 2), *rows_of(10, 1, 20), *rows_of(3, 1, 35), *rows_of(10, 3, 38)])
    check_buckets(lab.path)
    assert attempts == [1]
    # The condition on a column prunes by ranges that the new log files are part of.
    assert len(lab.rows("ver = 3")) == len(lab.rows("ver = 3", indexes=False)) == 10


def test_an_index_of_keys_is_exact_after_writes_beside_a_resize(writes, tmp_path):
    whole = {"hoodie.metadata.global.record.level.index.enable": "true"}
    lab = lab_of(tmp_path, **whole)
    lab.writer.upsert(source(rows_of(40, 1)))
    create_index(lab.writer, "on_ver", "ver")
    create_index(lab.writer, "on_x", "x", using="bitmap")
    instant = plan_split(lab)
    beside(lab, writes).upsert(source(rows_of(20, 2, 30)))

    def write() -> None:
        beside(lab, writes).upsert(source(rows_of(30, 3, 40)))
        beside(lab, writes).delete(source(rows_of(5, 3)))

    run_resize(TableWriter(lab.address, Interrupted(write)), instant)
    expected = [*rows_of(25, 1, 5), *rows_of(10, 2, 30), *rows_of(30, 3, 40)]
    lab.holds(expected, "id = 'k060'", "ver = 3", "ver = 2", "x = 0.5", "id = 'k001'")
    check_buckets(lab.path)


def test_a_write_that_began_before_the_resize_completed_is_moved(writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    late = TableWriter(
        lab.address, Interrupted(lambda: run_resize(TableWriter(lab.address), instant)), writes
    )
    late.upsert(source(rows_of(40, 2)))
    lab.holds(rows_of(40, 2))
    check_buckets(lab.path)
    assert logs_of(lab.path, instant) == [], "the copies of the first attempt are gone"


def test_a_write_whose_resize_was_taken_back_is_refused(writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    late = TableWriter(
        lab.address, Interrupted(lambda: rollback_instant(lab.address, instant)), writes
    )
    with pytest.raises(CommitConflict):
        late.upsert(source(rows_of(40, 2)))
    lab.holds(rows_of(40, 1))
    assert logs_of(lab.path, instant) == []
    check_buckets(lab.path)


def test_of_two_writers_of_one_bucket_one_wins(writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    late = TableWriter(
        lab.address, Interrupted(lambda: beside(lab, writes).upsert(source(rows_of(40, 2)))), writes
    )
    with pytest.raises(CommitConflict):
        late.upsert(source(rows_of(40, 3)))
    lab.holds(rows_of(40, 2))
    run_resize(lab.writer, instant)
    lab.holds(rows_of(40, 2))
    check_buckets(lab.path)


def test_a_write_that_is_rolled_back_takes_its_copies_along(writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, writes).upsert(source(rows_of(10, 2)))
    first = logs_of(lab.path, instant)
    second = beside(lab, writes).upsert(source(rows_of(40, 3)))
    assert len(logs_of(lab.path, instant)) > len(first)
    rollback_instant(lab.address, second.instant)
    assert logs_of(lab.path, instant) == first
    expected = [*rows_of(10, 2), *rows_of(30, 1, 10)]
    lab.holds(expected)
    run_resize(lab.writer, instant)
    lab.holds(expected)
    check_buckets(lab.path)


def test_a_resize_whose_new_buckets_have_rows_is_not_dropped(writes, tmp_path):
    """Its log files would be taken for committed ones, once it is long gone."""
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, writes).upsert(source(rows_of(40, 2)))
    with pytest.raises(InvalidInput, match="run it"):
        rollback_instant(lab.address, instant)
    run_resize(lab.writer, instant)
    lab.holds(rows_of(40, 2))
    assert len(rings_of(lab.path)["p=a"].nodes) == 4
    rollback_instant(lab.address, instant)
    lab.holds(rows_of(40, 2))
    assert pending_resizes(snapshot_of(lab.path).timeline) == (instant,)
    assert len(rings_of(lab.path)["p=a"].nodes) == 2
    run_resize(lab.writer, instant)
    lab.holds(rows_of(40, 2))
    check_buckets(lab.path)


@pytest.mark.parametrize("to", part_of(range(4), 2))
def test_a_restore_to_any_commit_around_a_resize(to, writes, tmp_path):
    lab = lab_of(tmp_path)
    states, done = [], []

    def note(instant: str | None) -> None:
        done.append(instant)
        states.append(lab.rows())

    note(lab.writer.upsert(source(rows_of(40, 1))).instant)
    instant = plan_split(lab)
    note(beside(lab, writes).upsert(source(rows_of(20, 2))).instant)
    note(beside(lab, writes).upsert(source(rows_of(30, 3, 20))).instant)
    run_resize(lab.writer, instant)
    note(lab.writer.upsert(source(rows_of(60, 4))).instant)
    restore_table(lab.address, done[to])
    lab.holds(states[to])
    check_buckets(lab.path)
    for pending in pending_resizes(snapshot_of(lab.path).timeline):
        assert pending == instant
        run_resize(lab.writer, pending)
        lab.holds(states[to])
    lab.writer.upsert(source(rows_of(70, 5)))
    lab.holds(rows_of(70, 5))
    check_buckets(lab.path)


def restore(path: str, to: str) -> None:
    restore_table(StorageAddress.of(path), to)


def test_a_restore_that_dies_leaves_no_copies(writes, tmp_path):
    """The commit that names the copies is gone then; they are named by the resize."""
    lab = lab_of(tmp_path)
    first = lab.writer.upsert(source(rows_of(40, 1))).instant
    instant = plan_split(lab)
    beside(lab, writes).upsert(source(rows_of(20, 2)))
    assert logs_of(lab.path, instant)
    counted = str(tmp_path / "counted")
    shutil.copytree(lab.path, counted)
    changes = changes_of(restore, counted, first, result=tmp_path / "changes")
    # From the moment on at which the first copy is about to be deleted.
    (at, *_) = (n for n, each in enumerate(changes) if f"_{instant}.log" in each)
    killed = str(tmp_path / "killed")
    shutil.copytree(lab.path, killed)
    finish_killed(restore, killed, first, at=at, after=False, result=tmp_path / "end")
    assert logs_of(killed, instant)
    TableWriter(StorageAddress.of(killed)).upsert(source(rows_of(10, 3)))
    assert not logs_of(killed, instant)
    check_buckets(killed)


def test_a_restore_that_dies_keeps_the_copies_of_writes_that_stay(writes, tmp_path):
    """The resize is a plan again, and its new buckets have rows that were committed before."""
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    stays = beside(lab, writes).upsert(source(rows_of(20, 2))).instant
    copies, expected = logs_of(lab.path, instant), lab.rows()
    run_resize(lab.writer, instant)
    counted = str(tmp_path / "counted")
    shutil.copytree(lab.path, counted)
    changes = changes_of(restore, counted, stays, result=tmp_path / "changes")
    # From the moment on at which the resize pends again.
    (first, *_) = (
        n for n, each in enumerate(changes) if f"delete .hoodie/timeline/{instant}" in each
    )
    for at in range(first, min(first + 4, len(changes))):
        killed = str(tmp_path / f"killed{at}")
        shutil.copytree(lab.path, killed)
        finish_killed(restore, killed, stays, at=at, after=True, result=tmp_path / "end")
        own = Lab.__new__(Lab)
        own.path, own.address = killed, StorageAddress.of(killed)
        restore(killed, stays)
        own.holds(expected)
        assert [each.name for each in logs_of(killed, instant)] == [each.name for each in copies]
        run_resize(TableWriter(own.address), instant)
        own.holds(expected)
        check_buckets(killed)


def test_a_table_without_log_files_has_no_dual_writes(writes, tmp_path):
    properties = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    lab = Lab(tmp_path, "cow", "BUCKET", properties=properties)
    with pytest.raises(InvalidInput, match="copy-on-write"):
        beside(lab, writes).upsert(source(rows_of(4, 1)))


def upsert(path: str, writes: dict[str, str]) -> None:
    TableWriter(StorageAddress.of(path), LocalEngine(1), writes).upsert(source(rows_of(30, 2)))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_write_that_dies_leaves_no_copies(after, writes, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, writes).upsert(source(rows_of(5, 1)))
    first = logs_of(lab.path, instant)
    counted = str(tmp_path / "counted")
    shutil.copytree(lab.path, counted)
    changes = changes_of(upsert, counted, writes, result=tmp_path / "changes")
    chosen = {n for n, each in enumerate(changes) if f"_{instant}.log" in each}
    chosen.update(range(0, len(changes), 9))
    for at in part_of(sorted(chosen), 2):
        path = str(tmp_path / f"killed{at}")
        shutil.copytree(lab.path, path)
        finish_killed(upsert, path, writes, at=at, after=after, result=tmp_path / "end")
        own = Lab.__new__(Lab)
        own.path, own.address = path, StorageAddress.of(path)
        was_done = {each["ver"] for each in own.rows()} == {1, 2}
        expected = [*rows_of(30, 2), *rows_of(10, 1, 30)] if was_done else rows_of(40, 1)
        own.holds(expected)
        run_resize(TableWriter(own.address), instant)
        own.holds(expected)
        check_buckets(path)
        names = [each.name for each in logs_of(path, instant)]
        assert was_done or names == [each.name for each in first], at
        shutil.rmtree(path)


@pytest.mark.parametrize(
    ("engine", "style"),
    part_of(
        [
            ("BUCKET_CONSISTENT", "simple"),
            ("BUCKET_CONSISTENT", "nonpartitioned"),
            ("BUCKET_EXTENDIBLE", "composite"),
        ],
        3,
    ),
)
def test_histories_with_a_resize_pending_all_the_time(engine, style, writes, tmp_path):
    shape, path = Shape("mor", engine, style), str(tmp_path)
    history = History(shape, seed=11, rows=160)
    address = create(shape, path, {"hoodie.metadata.index.bloom.filter.enable": "true"})
    writer = writer_of(address, writes)
    create_index(writer, "on_n", "n", using="bitmap")
    refused = 0
    for number, commit in enumerate(history.commits(12)):
        if commit.verb == "cluster":
            continue
        try:
            commit.write(shape, writer)
        except CommitConflict:
            # Rows that come back after a delete, and overwrites, wait for the resize.
            refused += 1
            for instant in pending_resizes(snapshot_of(path).timeline):
                run_resize(writer, instant)
            commit.write(shape, writer)
        assert_holds(path, history.model)
        if number % 2:
            for instant in pending_resizes(snapshot_of(path).timeline):
                run_resize(writer, instant)
            assert_holds(path, history.model)
            assert_in_buckets(path, shape.key_fields)
        elif number % 4 == 0:
            schedule_resize(
                writer, ResizeLimits(1, split_above=0, merge_below=0, most=8), MiddlePolicy()
            )
        else:
            schedule_resize(writer, MERGE_ALL)
    for instant in pending_resizes(snapshot_of(path).timeline):
        run_resize(writer, instant)
    resize_buckets(writer, MERGE_ALL)
    assert_holds(path, history.model)
    check_buckets(path)
    assert refused < 8
    assert lakedex.open(path).verify().ok
