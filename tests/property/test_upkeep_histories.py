"""Writes and services in any order: the rows, every index and retained times are as a model says.

LAKEDEX_SEED picks other histories; a failure names its seed and what was done.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.services.clustering import cluster_table
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint
from tests.support.upkeep_lab import BY_HAND, PARTITIONS, Past, read_by_hudi_rs
from tests.support.write_lab import Lab, row, source

STEPS = int(os.environ.get("LAKEDEX_STEPS", "22"))
SEED = int(os.environ.get("LAKEDEX_SEED", "1"))
FEW = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}


class Story:
    """One table, and what was done to it."""

    def __init__(self, root: Path, kind: str, index: str, seed: int) -> None:
        options = {"hoodie.metadata.compact.max.delta.commits": "4"} | BY_HAND
        self.past = Past(Lab(root, kind, index, **options))
        self.draw = random.Random(f"{kind} {seed}")
        self.address = self.past.lab.address
        self.saved: set[str] = set()
        self.whole: set[str] = set()
        """The commits as of which the table can surely be read."""
        self.done: list[str] = []

    def run(self, steps: int) -> None:
        """Write first, then whatever comes."""
        verbs = (
            [self.upsert] * 5
            + [self.clean] * 3
            + [self.overwrite, self.delete, self.cluster]
            + [self.archive, self.save, self.unsave, self.rollback, self.rollback, self.restore]
        )
        self.upsert()
        for _ in range(steps):
            verb = self.draw.choice(verbs)
            self.done.append(verb.__name__)
            try:
                verb()
            except InvalidInput as error:
                self.done.append(f"refused: {error}")
            self.check()

    def check(self) -> None:
        """The newest state, its indexes, and the times that are retained."""
        past = self.past
        past.holds()
        for instant in sorted((self.whole | self.saved) & set(past.times))[-3:]:
            assert past.as_of(instant) == past.states[instant], instant

    def wrote(self, result: object) -> None:
        self.whole.add(self.past.note(result))

    def version(self) -> int:
        return 10 + len(self.done)

    def upsert(self) -> None:
        keys = self.draw.sample(range(20), 4)
        rows = [row(f"k{i:02}", f"p{i % PARTITIONS}", self.version()) for i in keys]
        self.wrote(self.past.lab.writer.upsert(source(rows)))

    def overwrite(self) -> None:
        number = self.draw.randrange(PARTITIONS)
        rows = [row(f"k{number + 3 * i:02}", f"p{number}", self.version()) for i in range(2)]
        self.wrote(self.past.lab.writer.insert_overwrite(source(rows)))

    def delete(self) -> None:
        gone = self.draw.sample(self.past.lab.rows(), 1)
        result = self.past.lab.writer.delete(source([each | {"ver": 999} for each in gone]))
        self.wrote(result)

    def cluster(self) -> None:
        self.wrote(cluster_table(self.past.lab.writer, "ver", "linear"))

    def clean(self) -> None:
        if self.draw.random() < 0.3:
            options = {
                "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
                "hoodie.clean.fileversions.retained": str(self.draw.randrange(1, 3)),
            }
            kept = 1
        else:
            kept = self.draw.randrange(1, 5)
            options = {"hoodie.clean.commits.retained": str(kept)}
        if clean_table(self.address, options).files:
            self.whole &= set(self.past.times[-kept:])

    def archive(self) -> None:
        archive_table(self.address, FEW | {"hoodie.clean.commits.retained": "1"})

    def save(self) -> None:
        instant = self.draw.choice(self.past.times)
        create_savepoint(self.address, instant)
        self.saved.add(instant)

    def unsave(self) -> None:
        if self.saved:
            instant = self.draw.choice(sorted(self.saved))
            delete_savepoint(self.address, instant)
            self.saved.remove(instant)
            self.whole.discard(instant)

    def rollback(self) -> None:
        if len(self.past.times) > 1:
            newest = self.past.times[-1]
            rollback_instant(self.address, newest)
            self.forget([newest])

    def restore(self) -> None:
        instant = self.draw.choice(self.past.times)
        self.forget(restore_table(self.address, instant).undone)

    def forget(self, instants: object) -> None:
        for instant in instants:
            self.past.states.pop(instant, None)
            self.whole.discard(instant)


@pytest.mark.parametrize(
    ("kind", "index"), [("cow", "GLOBAL_RECORD_LEVEL_INDEX"), ("mor", "BLOOM")]
)
def test_writes_and_services_in_any_order_leave_what_the_model_says(tmp_path, kind, index):
    story = Story(tmp_path, kind, index, SEED)
    try:
        story.run(STEPS)
    except Exception as error:
        raise AssertionError(f"seed {SEED}, {kind}: {story.done}") from error
    past = story.past
    assert read_by_hudi_rs(past.path) == past.states[past.times[-1]]
    timeline = lakedex.open(past.path).timeline
    assert [each.requested_time for each in timeline.between(None)] == past.times
