"""kill -9 of real processes at every change of a file that a commit makes.

After each kill the table opens, holds all and only completed commits, verifies clean, and the
next write succeeds and leaves nothing behind of the dead one. A default run takes a sample of the
kill points; LAKEDEX_KILLS=all takes every one. Kills at random times are in `test_random_kills`.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import lakedex
from lakedex.errors import TableNotFound
from lakedex.index.kinds.windowed.state import FOLDER
from lakedex.storage.open import StorageAddress
from tests.support import killing
from tests.support.history import Commit, History, create, writer_of
from tests.support.killing import DieAt, Watch, changes_of, finish, finish_killed, start
from tests.support.leftovers import assert_nothing_left
from tests.support.row_model import Model, assert_holds
from tests.support.write_jobs import make_table, write_one
from tests.support.write_shapes import Shape

EVERY = os.environ.get("LAKEDEX_KILLS") == "all"
POINTS_A_SCENARIO = 12
COW = Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
MOR = Shape("mor", "BLOOM", "simple")
BUCKETS = Shape("cow", "BUCKET", "simple")
RING = Shape("mor", "BUCKET_CONSISTENT", "simple")
WINDOWED = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "daily", 2)


@dataclass(frozen=True)
class Scene:
    """A table just before a write, the write, and the one after it."""

    shape: Shape
    path: Path
    commit: Commit
    next_commit: Commit
    before: Model
    after: Model
    last: Model
    last_without: Model
    """What the table holds after the next write, if the one that was killed is not there."""
    options: dict[str, str] = field(default_factory=dict)


def prepare(
    shape: Shape,
    path: Path,
    make: Callable[[History], Commit],
    *,
    commits: int = 3,
    options: dict[str, str] | None = None,
) -> Scene:
    """A table of some commits, and the one to die in."""
    history = History(shape, rows=40)
    address = create(shape, path)
    writer = writer_of(address, options)
    kinds = [history.updates, history.deletes, history.updates]
    for number in range(commits):
        commit = history.insert(40) if number == 0 else kinds[number % 3](12)
        history.apply(commit).write(shape, writer)
    before = history.model.copy()
    commit = history.apply(make(history))
    after = history.model.copy()
    next_commit = history.apply(Commit("upsert", tuple(history.new_rows(8))))
    without = before.copy()
    without.upsert(next_commit.rows)
    return Scene(
        shape, path, commit, next_commit, before, after, history.model, without, options or {}
    )


def cow_upsert(path: Path) -> Scene:
    return prepare(COW, path, lambda history: history.mixture(12))


def mor_upsert_and_compaction(path: Path) -> Scene:
    """Only changes of rows that are there, so that they go to log files."""
    options = {"hoodie.metadata.compact.max.delta.commits": "7"}

    def changes(history: History) -> Commit:
        rows = [history.changed(row) for row in history.sample(15)]
        return Commit("upsert", (*rows[:10], *(row._replace(gone=True) for row in rows[10:])))

    return prepare(MOR, path, changes, options=options)


def insert_overwrite(path: Path) -> Scene:
    return prepare(COW, path, lambda history: history.overwrite(6))


def bucket_upsert(path: Path) -> Scene:
    return prepare(BUCKETS, path, lambda history: history.mixture(12))


def ring_overwrite(path: Path) -> Scene:
    """Its buckets get other file groups, which only the hashing metadata name."""
    return prepare(RING, path, lambda history: history.overwrite(6))


def first_commit(path: Path) -> Scene:
    return prepare(MOR, path, lambda history: history.insert(20), commits=0)


def recovery(path: Path) -> Scene:
    """The write before this one died when its metadata was written and it was not."""
    scene = prepare(COW, path, lambda history: history.mixture(12))
    died = Commit("upsert", scene.commit.rows[:-2])
    death = DieAt(text="create .hoodie/timeline/", skip=2)
    assert finish(start(write_one, scene.shape, str(path), died, scene.options, watch=death)) == -9
    (pending,) = lakedex.open(str(path)).timeline.pending()
    metadata = lakedex.open(str(path / ".hoodie/metadata")).timeline
    assert pending.requested_time in {each.requested_time for each in metadata.write_instants()}
    return scene


def windowed_upsert(path: Path) -> Scene:
    """The index is compacted by the write that dies, and has files that nobody needs any more."""
    options = {"hoodie.metadata.compact.max.delta.commits": "3"}
    return prepare(WINDOWED, path, lambda history: history.mixture(12), commits=4, options=options)


def clustering(path: Path) -> Scene:
    """The same rows in other file groups, and the next write is to one that was to go."""
    options = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "6000"}
    order = {"columns": ("n", "name"), "strategy": "zorder"}
    scene = prepare(COW, path, lambda history: Commit("cluster", **order), options=options)
    rows = tuple(row._replace(ver=row.ver + 1) for row in scene.before.live.values())
    scene.last.upsert(rows)
    scene.last_without.upsert(rows)
    return replace(scene, next_commit=Commit("upsert", (*scene.next_commit.rows, *rows)))


SCENES = {
    scene.__name__: scene
    for scene in (
        cow_upsert,
        mor_upsert_and_compaction,
        insert_overwrite,
        bucket_upsert,
        ring_overwrite,
        first_commit,
        recovery,
        clustering,
    )
}


@pytest.fixture(scope="module", params=SCENES)
def scene(request, tmp_path_factory) -> Scene:
    return SCENES[request.param](tmp_path_factory.mktemp(request.param) / "table")


def test_a_write_killed_at_any_change_is_whole_or_nothing(scene, tmp_path):
    # cases B25, B34, B39, B45, B76
    changes = changes_of(write_one, *copied(scene, tmp_path / "count"), result=tmp_path / "seen")
    assert_scene_is_what_it_says(scene, changes)
    points = [(number, after) for number in range(len(changes)) for after in (False, True)]
    for number, after in points if EVERY else sample(points, POINTS_A_SCENARIO):
        where = f"{'after' if after else 'before'} {number}: {changes[number]}"
        arguments = copied(scene, tmp_path / "killed")
        finish_killed(write_one, *arguments, at=number, after=after, result=tmp_path / "end")
        assert_unharmed(scene, arguments[1], where)


def test_a_write_killed_while_it_changes_the_windowed_index_leaves_nothing_that_counts(tmp_path):
    scene = windowed_upsert(tmp_path / "scene" / "table")
    changes = changes_of(write_one, *copied(scene, tmp_path / "count"), result=tmp_path / "seen")
    windowed = [
        number for number, change in enumerate(changes) if "/windowed_record_index/" in change
    ]
    verbs = {changes[number].split()[0] for number in windowed}
    assert verbs == {"create", "replace", "delete", "delete_folder"}
    points = [(number, after) for number in windowed for after in (False, True)]
    for number, after in points if EVERY else sample(points, 4):
        where = f"{'after' if after else 'before'} {number}: {changes[number]}"
        arguments = copied(scene, tmp_path / "killed")
        finish_killed(write_one, *arguments, at=number, after=after, result=tmp_path / "end")
        assert_unharmed(scene, arguments[1], where)
        assert_states_are_of_commits(Path(arguments[1]))


def assert_states_are_of_commits(path: Path) -> None:
    """Two commits later nothing is there of the one that died."""
    done = {instant.requested_time for instant in lakedex.open(str(path)).timeline.write_instants()}
    folders = [folder for folder in (path / FOLDER).iterdir() if any(folder.iterdir())]
    assert {folder.name.partition("-")[2] for folder in folders} <= done


def sample(points: list, count: int) -> list:
    """Every k-th point, beginning elsewhere at each run of a day."""
    step = max(1, len(points) // count)
    return points[int(time.time() // 86_400) % step :: step]


def assert_scene_is_what_it_says(scene: Scene, changes: list[str]) -> None:
    """The changes that make each scene worth killing are among those that are made."""
    text = "\n".join(changes)
    assert re.search(r"create \.hoodie/timeline/[0-9]+_[0-9]+\.\w+$", text, re.MULTILINE), text
    if "compact" in str(scene.options):
        assert re.search(r"create (oslo|rio|lima)/\..*\.log\.1_", text)
        assert re.search(r"metadata/\.hoodie/timeline/[0-9]+_[0-9]+\.commit$", text, re.MULTILINE)
    if scene.shape is RING:
        assert re.search(r"replace \.hoodie/\.bucket_index/.*/[0-9]{17}\.hashing_meta", text)
    if scene.path.parent.name.startswith("recovery"):
        assert ".rollback" in text


def copied(scene: Scene, target: Path) -> tuple:
    """The scene's table once more, as the arguments of its write."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(scene.path, target)
    return scene.shape, str(target), scene.commit, scene.options


def assert_unharmed(scene: Scene, path: str, where: str) -> None:
    """All that must hold after a kill."""
    try:
        is_there = completed(path) > completed(str(scene.path))
        assert_holds(path, scene.after if is_there else scene.before)
        scene.next_commit.write(scene.shape, writer_of(StorageAddress.of(path), scene.options))
        assert_holds(path, scene.last if is_there else scene.last_without)
        assert_nothing_left(Path(path))
    except Exception as problem:
        raise AssertionError(f"killed {where}: {type(problem).__name__}: {problem}") from problem


def completed(path: str) -> int:
    """How many writes completed."""
    return len(lakedex.open(path).timeline.write_instants())


def test_a_table_whose_making_is_killed_can_be_made_again(tmp_path):
    target = tmp_path / "table"
    changes = changes_of(make_table, COW, str(target), result=tmp_path / "seen")
    for number in range(len(changes)):
        for after in (False, True):
            shutil.rmtree(target, ignore_errors=True)
            child = start(make_table, COW, str(target), watch=Watch(number, after))
            assert finish(child) == -9
            try:
                lakedex.open(str(target))
            except TableNotFound:
                create(COW, target)
            assert_holds(str(target), Model(COW))


def test_every_change_of_a_file_passes_the_watch(tmp_path):
    """What the kill points rest on: no file of the table changes behind the watch's back."""
    scene = cow_upsert(tmp_path / "cow" / "table")
    before = {file: file.stat().st_mtime_ns for file in scene.path.rglob("*") if file.is_file()}
    seen = changes_of(write_one, *copied(scene, tmp_path / "copy"), result=tmp_path / "seen")
    changed = {change.partition(" ")[2] for change in seen}
    root = tmp_path / "copy"
    for file in root.rglob("*"):
        name = str(file.relative_to(root))
        if file.is_file() and scene.path / name not in before:
            assert name in changed
    assert killing.server().get_start_method() == "forkserver"
