"""kill -9 of real processes at random times, again and again on the same table.

The dead writers had services with them: compaction, cleaning and archiving, of the table and of
its metadata table. After each kill the table opens, holds all and only completed commits, verifies
clean, and the next write succeeds and leaves nothing behind of the dead one. LAKEDEX_RANDOM_KILLS
sets how many die, LAKEDEX_SEED replays a run as far as a clock can be replayed.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

import lakedex
from lakedex.timeline import Action
from tests.support.history import Commit, History, create
from tests.support.killing import finish, start
from tests.support.leftovers import assert_nothing_left
from tests.support.row_model import assert_holds
from tests.support.write_jobs import write_and_serve
from tests.support.write_shapes import WRITE_OPTIONS, Shape

KILLS = int(os.environ.get("LAKEDEX_RANDOM_KILLS", "200"))
SHAPES = (
    Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple"),
    Shape("mor", "BLOOM", "simple"),
)
# Every index of the metadata table is there; more columns would be more of the same.
PROPERTIES = {"hoodie.metadata.index.column.stats.column.list": "ver,name"}
OPTIONS = WRITE_OPTIONS | {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
}


class Stage:
    """A table that is written by processes that die, and what it must hold."""

    def __init__(self, shape: Shape, path: Path, seed: str | None) -> None:
        self.draw = random.Random(seed)
        self.shape = shape
        self.history = History(shape, seed=self.draw.randrange(1 << 30), rows=40)
        self.path = path
        create(shape, path, PROPERTIES)
        self.write(self.history.apply(self.history.insert(40)))
        # The first child waits for the server that it is forked from.
        self.seconds_of_a_write()
        self.length = self.seconds_of_a_write()

    def write(self, commit: Commit) -> None:
        write_and_serve(self.shape, str(self.path), commit, OPTIONS)

    def begin(self, commit: Commit):
        return start(write_and_serve, self.shape, str(self.path), commit, OPTIONS)

    def seconds_of_a_write(self) -> float:
        """How long a write takes in a process of its own, here and now."""
        begun = time.monotonic()
        assert finish(self.begin(self.commit())) == 0
        return time.monotonic() - begun

    def commit(self) -> Commit:
        """One that is made, of a table whose size stays much the same."""
        history = self.history
        kinds = [history.updates, history.mixture, history.reinserts, history.marked_deletes]
        if len(history.model.live) > 60:
            kinds = [history.deletes, history.overwrite]
        return history.apply(self.draw.choice(kinds)(12))

    def newest(self) -> str:
        """The time of the newest write that completed, services left out."""
        timeline = lakedex.open(str(self.path)).timeline
        merges = Action.DELTACOMMIT if self.shape.table_type == "mor" else Action.COMMIT
        return max(
            instant.requested_time
            for instant in timeline.write_instants()
            if instant.action in (merges, Action.REPLACECOMMIT)
        )

    def kill_one(self) -> float:
        """Let a write begin and kill it; the seconds it had."""
        before, newest = self.history.model.copy(), self.newest()
        child = self.begin(self.commit())
        begun = time.monotonic()
        # Some end by themselves, so that the last moments are as likely as all others.
        child.join(self.draw.random() * self.length * 1.05)
        lived = time.monotonic() - begun
        child.kill()
        code = finish(child)
        assert code in (0, -9)
        has_ended = code == 0
        if has_ended:
            # The machine has become faster, or the write was a small one.
            self.length = 0.8 * self.length + 0.2 * lived
        else:
            self.length = max(self.length, lived)
        if self.newest() == newest:
            assert not has_ended
            self.history.model = before
        return lived


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_writes_killed_at_random_times_are_whole_or_nothing(tmp_path, shape):
    stage = Stage(shape, tmp_path / "table", os.environ.get("LAKEDEX_SEED"))
    for number in range(KILLS // len(SHAPES)):
        lived = stage.kill_one()
        try:
            assert_holds(str(stage.path), stage.history.model)
            stage.write(stage.commit())
            # Whether it verifies is asked again after the next kill.
            assert_holds(str(stage.path), stage.history.model, verify=False)
            assert_nothing_left(stage.path)
        except Exception as problem:
            where = f"kill {number} after {lived:.3f} s"
            raise AssertionError(f"{where}: {type(problem).__name__}: {problem}") from problem
    assert_holds(str(stage.path), stage.history.model)
