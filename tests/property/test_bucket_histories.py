"""Random histories of tables with a bucket index: every record stays in its bucket, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import lakedex
from lakedex.errors import CommitConflict
from lakedex.index.kinds.bucket.resize import MiddlePolicy, ResizeLimits
from lakedex.services.clustering.resizing import (
    pending_resizes,
    resize_buckets,
    run_resize,
    schedule_resize,
)
from lakedex.services.index_creating import create_index
from lakedex.services.rollback import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from tests.property.test_random_histories import Histories, MergeOnReadHistories, changes
from tests.support.bucket_checks import snapshot_of
from tests.support.buckets import assert_in_buckets
from tests.support.history import Commit, History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.row_model import Model, assert_holds
from tests.support.write_shapes import BUCKETS, Shape

RECORD_INDEX = {"hoodie.metadata.record.level.index.enable": "true"}
GLOBAL_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
EVERY_BUCKET = ResizeLimits(1, split_above=0, merge_below=0, most=64)
NO_BUCKET = ResizeLimits.of(1 << 20, split=2.0, merge=0.5)
WRITES = "lakedex.bucket.resize.writes"
UPKEEP = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


class BucketHistories(Histories):
    """A few keys in three partitions, each of four buckets."""

    @initialize(
        index=st.sampled_from(sorted(BUCKETS)),
        style=st.sampled_from(("simple", "hive", "composite", "nonpartitioned")),
        indexes=st.sampled_from(("none", "keys", "all")),
    )
    def begin(self, index: str, style: str, indexes: str) -> None:
        self.shape = Shape(self.table_type, index, style)
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.before: list[Model] = []
        is_whole = style == "nonpartitioned"
        # One over the whole table knows one place of a key, which may be in several partitions.
        of_keys = GLOBAL_INDEX if is_whole else RECORD_INDEX
        properties = FILTERS if indexes == "none" else FILTERS | of_keys
        options = {"hoodie.metadata.compact.max.delta.commits": "3"} | UPKEEP
        self.writer = writer_of(create(self.shape, self.path, properties), options)
        if indexes == "all":
            if is_whole:
                create_index(self.writer, "on_name", "name")
            create_index(self.writer, "on_n", "n", using="bitmap")
            create_index(self.writer, "on_text", "name", using="ngram")
            create_index(
                self.writer, "on_length", "name", using="column_stats", options={"expr": "length"}
            )

    def write(self, commit: Commit) -> None:
        before = self.history.model.copy()
        newest = self.newest()
        super().write(commit)
        self.before = [before] if self.newest() != newest else self.before
        self.check()

    def check(self) -> None:
        assert_holds(self.path, self.history.model)
        assert_in_buckets(self.path, self.shape.key_fields)

    def newest(self) -> str | None:
        instants = Snapshot.open(StorageAddress.of(self.path).open()).timeline.write_instants()
        return instants[-1].requested_time if instants else None

    @rule(changes=changes, verb=st.sampled_from(("insert", "bulk_insert")))
    def insert(self, changes: list[tuple[str, int, int, bool]], verb: str) -> None:
        """New keys; readers of log files would merge others with their records."""
        rows = {(key, place): self.row(key, ver, place) for key, ver, place, _ in changes}
        known = self.history.model.live
        new = {self.history.model.identity(row): row for row in rows.values()}
        new = {name: row for name, row in new.items() if name not in known}
        if new:
            self.write(Commit(verb, tuple(new.values())))

    @rule(changes=changes)
    def overwrite_all(self, changes: list[tuple[str, int, int, bool]]) -> None:
        rows = {key: self.row(key, ver, place) for key, ver, place, _ in changes}
        self.write(Commit("insert_overwrite_table", tuple(rows.values())))

    @precondition(lambda self: self.shape.index != "BUCKET" and self.newest())
    @rule(splits=st.booleans())
    def resize(self, splits: bool) -> None:
        """Halves of all ranges, or small neighbours in one bucket."""
        newest, writer = self.newest(), self.writer
        if splits:
            instant = schedule_resize(writer, EVERY_BUCKET, MiddlePolicy())
            if instant is not None:
                run_resize(writer, instant)
        else:
            resize_buckets(writer, NO_BUCKET)
        if self.newest() != newest:
            self.before = [self.history.model.copy()]
        self.check()

    @rule()
    def tend(self) -> None:
        address = StorageAddress.of(self.path)
        clean_table(address, options={"hoodie.clean.commits.retained": "1"})
        kept = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
        archive_table(address, options={**kept, "hoodie.clean.commits.retained": "1"})
        self.before = []

    @precondition(lambda self: self.before)
    @rule()
    def roll_back(self) -> None:
        newest = self.newest()
        assert newest is not None
        rollback_instant(StorageAddress.of(self.path), newest)
        self.history.model = self.before.pop()
        self.tombs = {}
        assert_holds(self.path, self.history.model)


class BucketLogHistories(BucketHistories, MergeOnReadHistories):
    """The same with log files, which are compacted at once, or planned first and merged later."""

    table_type = "mor"

    def write(self, commit: Commit) -> None:
        # A row that comes back is merged into a base file, which a plan that pends would hide.
        self.run_the_plan()
        super().write(commit)


class ResizingHistories(BucketLogHistories):
    """Writes beside resizes that are planned first and run later."""

    def begin_writes(self) -> None:
        """Writers of both ways, at random."""
        options = {"hoodie.metadata.compact.max.delta.commits": "3"} | UPKEEP
        self.writers = [
            writer_of(StorageAddress.of(self.path), options | {WRITES: way})
            for way in ("dual", "virtual", "virtual")
        ]

    def write(self, commit: Commit) -> None:
        """Rows that come back, and overwrites, wait for the resize."""
        if not hasattr(self, "writers"):
            self.begin_writes()
        self.writers.append(self.writers.pop(0))
        self.writer = self.writers[0]
        model = self.history.model.copy()
        try:
            super().write(commit)
        except CommitConflict:
            self.history.model = model
            self.run_resizes()
            super().write(commit)

    def check(self) -> None:
        if pending_resizes(snapshot_of(self.path).timeline):
            assert_holds(self.path, self.history.model)
            assert lakedex.open(self.path).verify().ok
        else:
            super().check()

    @precondition(lambda self: self.shape.index != "BUCKET" and self.newest())
    @rule(splits=st.booleans())
    def plan_resize(self, splits: bool) -> None:
        """It pends until a rule or a refused write runs it."""
        limits = ResizeLimits(1, split_above=0, merge_below=0, most=16) if splits else NO_BUCKET
        schedule_resize(self.writer, limits, MiddlePolicy())

    @rule()
    def run_resizes(self) -> None:
        """Nothing that readers see changes."""
        for instant in pending_resizes(snapshot_of(self.path).timeline):
            run_resize(self.writer, instant)
            self.before = []
        self.check()


@pytest.mark.parametrize("machine", [BucketHistories, BucketLogHistories, ResizingHistories])
def test_random_histories_leave_every_record_in_its_bucket(machine):
    # cases B49, B50, B53, B54, B55, B70, B78
    run_histories(machine, count=8, steps=8)
