"""A resize that is killed at any step loses nothing, and is run or taken back afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakedex.engine import LocalEngine
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.services.clustering.resizing import (
    pending_resizes,
    resize_buckets,
    run_resize,
    schedule_resize,
)
from lakedex.services.inline import writer_with_services
from lakedex.services.rollback import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.write.resizing import ResizeLimits
from tests.support.bucket_checks import check_same, content_of, rings_of, snapshot_of
from tests.support.killing import changes_of, finish_killed
from tests.support.turns import part_of

LIMITS = ResizeLimits.of(1500, split=1.0, merge=0.1)
ONE = {"hoodie.clustering.plan.strategy.partition.selected": "eu"}


def writer_of(path: str):
    return writer_with_services(StorageAddress.of(path), LocalEngine(1), ONE)


def schedule(path: str) -> None:
    assert schedule_resize(writer_of(path), LIMITS)


def run(path: str) -> None:
    (instant,) = pending_resizes(snapshot_of(path).timeline)
    run_resize(writer_of(path), instant)


def take_back(path: str) -> None:
    (instant,) = pending_resizes(snapshot_of(path).timeline)
    rollback_instant(StorageAddress.of(path), instant)


@pytest.fixture
def planned(damage):
    """A table whose buckets of one partition are to be split, and its rows."""
    path = str(damage("bucket_consistent").path)
    schedule(path)
    return path


def points(job, path, tmp_path, step):
    """Every few changes that a job makes, and those of the ring and of the commit."""
    counted = str(tmp_path / "counted")
    shutil.copytree(path, counted)
    changes = changes_of(job, counted, result=tmp_path / "changes")
    shutil.rmtree(counted)
    chosen = set(range(0, len(changes), step))
    for number, change in enumerate(changes):
        if "hashing_meta" in change or ".replacecommit" in change or ".clustering" in change:
            chosen.update((number, number + 1))
    sampled = part_of(sorted(number for number in chosen if number < len(changes)), 2)
    return sorted({0, *sampled, len(changes) - 1})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_run_that_dies_is_run_again(after, planned, tmp_path):
    before, rings = content_of(planned), rings_of(planned)
    states = set()
    for at in points(run, planned, tmp_path, 15):
        path = str(tmp_path / f"killed{at}")
        shutil.copytree(planned, path)
        finish_killed(run, path, at=at, after=after, result=tmp_path / "end")
        check_same(path, before)
        is_done = rings_of(path) != rings
        assert is_done is not bool(pending_resizes(snapshot_of(path).timeline)), at
        states.add(is_done)
        if not is_done:
            run(path)
        resize_buckets(writer_of(path), LIMITS)
        check_same(path, before)
        assert len(rings_of(path)["eu"].nodes) >= 8, at
        assert not snapshot_of(path).timeline.pending(), at
        shutil.rmtree(path)
    assert states == {False, True}


def test_a_run_that_dies_is_taken_back(planned, tmp_path):
    before, rings = content_of(planned), rings_of(planned)
    for at in points(run, planned, tmp_path, 29):
        path = str(tmp_path / f"killed{at}")
        shutil.copytree(planned, path)
        finish_killed(run, path, at=at, after=True, result=tmp_path / "end")
        if pending_resizes(snapshot_of(path).timeline):
            take_back(path)
            check_same(path, before)
            assert rings_of(path) == rings, at
            assert not snapshot_of(path).timeline.pending(), at
        shutil.rmtree(path)


def test_taking_back_that_dies_is_finished(planned, tmp_path):
    """By the next writer, which also finds a ring that counts no more."""
    run(planned)
    before, split = content_of(planned), rings_of(planned)
    done = snapshot_of(planned).timeline.write_instants()[-1].requested_time

    def undo(path: str) -> None:
        rollback_instant(StorageAddress.of(path), done)

    for at in points(_undo, planned, tmp_path, 13):
        path = str(tmp_path / f"killed{at}")
        shutil.copytree(planned, path)
        finish_killed(_undo, path, at=at, after=True, result=tmp_path / "end")
        check_same(path, before)
        resize_buckets(writer_of(path), ResizeLimits.of(1 << 20, split=2.0, merge=0.0))
        if rings_of(path) == split:
            undo(path)
        assert rings_of(path)["eu"].sequence == 0, at
        check_same(path, before)
        resize_buckets(writer_of(path), LIMITS)
        check_same(path, before)
        shutil.rmtree(path)


def _undo(path: str) -> None:
    done = snapshot_of(path).timeline.write_instants()[-1].requested_time
    rollback_instant(StorageAddress.of(path), done)


@pytest.mark.parametrize("comes", ["before the run", "beside the run"])
def test_a_late_file_of_a_run_that_was_taken_back_is_not_of_the_next_run(
    comes, planned, monkeypatch
):
    """A process that slept while its run was taken back makes one more file of the listing."""
    before, rings = content_of(planned), rings_of(planned)
    (instant,) = pending_resizes(snapshot_of(planned).timeline)
    folder = Path(planned, ".hoodie/metadata/files")
    late = folder / f".files-0000-0_{instant}.log.1_0-0-0"
    data = next(folder.glob(".files-0000-0_*.log.*")).read_bytes()
    real = MetadataStore.begin
    if comes == "before the run":
        late.write_bytes(data)
    else:

        def begin(self, *args):
            if not late.exists() and not comes_again:
                late.write_bytes(data)
                comes_again.append(late)
            return real(self, *args)

        comes_again: list[Path] = []
        monkeypatch.setattr(MetadataStore, "begin", begin)
    run(planned)
    assert late.read_bytes() != data
    assert rings_of(planned) != rings
    check_same(planned, before)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_schedule_that_dies_leaves_a_plan_or_none(after, damage, tmp_path):
    origin = str(damage("bucket_consistent").path)
    before = content_of(origin)
    for at in points(schedule, origin, tmp_path, 1):
        path = str(tmp_path / f"killed{at}")
        shutil.copytree(origin, path)
        finish_killed(schedule, path, at=at, after=after, result=tmp_path / "end")
        check_same(path, before)
        for instant in pending_resizes(snapshot_of(path).timeline):
            run_resize(writer_of(path), instant)
        resize_buckets(writer_of(path), LIMITS)
        check_same(path, before)
        assert len(rings_of(path)["eu"].nodes) >= 8, at
        shutil.rmtree(path)
