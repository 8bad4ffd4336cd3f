"""Random histories of small tables, driven by hypothesis, against the dictionary model."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from tests.support.history import CONDITIONS, Commit, History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.row_model import Row, assert_holds
from tests.support.write_shapes import INDEXES, Place, Shape

KEYS = [f"k{number:05d}" for number in range(8)]

places = st.integers(0, 2)
versions = st.integers(1, 9)
changes = st.lists(
    st.tuples(st.sampled_from(KEYS), versions, places, st.booleans()), min_size=1, max_size=6
)


class Histories(RuleBasedStateMachine):
    """A few keys in three partitions, with versions that often come late."""

    table_type = "cow"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="lakedex-history-")
        self.tombs: dict[object, int] = {}

    @initialize(index=st.sampled_from(INDEXES), style=st.sampled_from(("simple", "hive")))
    def begin(self, index: str, style: str) -> None:
        self.start(Shape(self.table_type, index, style))

    def start(self, shape: Shape) -> None:
        self.shape = shape
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.writer = writer_of(
            create(self.shape, self.path), {"hoodie.metadata.compact.max.delta.commits": "3"}
        )

    def write(self, commit: Commit) -> None:
        self.history.apply(commit).write(self.shape, self.writer)

    def row(self, key: str, ver: int, place: int, *, gone: bool = False) -> Row:
        row = self.history.fresh(key, 0, self.place(place))._replace(gone=gone)
        # A record that was deleted by its ordering value stays so for all smaller ones on
        # merge-on-read and is forgotten on copy-on-write; no rule says which is right.
        least = self.tombs.get(self.history.model.identity(row), 0)
        row = row._replace(ver=max(ver, least))
        if gone:
            self.tombs[self.history.model.identity(row)] = row.ver + 1
        return row

    def place(self, number: int) -> Place:
        return self.shape.places[number % len(self.shape.places)]

    @rule(changes=changes)
    def upsert(self, changes: list[tuple[str, int, int, bool]]) -> None:
        rows = [self.row(key, ver, place) for key, ver, place, _ in changes]
        # Two rows of one key and version have no order.
        rows = list({(row.id, row.ver): row for row in rows}.values())
        self.write(Commit("upsert", tuple(rows)))

    @precondition(lambda self: self.shape.marks_deletes)
    @rule(changes=changes)
    def upsert_with_marked_deletes(self, changes: list[tuple[str, int, int, bool]]) -> None:
        once = {key: (key, ver, place, gone) for key, ver, place, gone in changes}
        rows = [self.row(key, ver, place, gone=gone) for key, ver, place, gone in once.values()]
        self.write(Commit("upsert", tuple(rows)))

    @rule(changes=changes)
    def delete(self, changes: list[tuple[str, int, int, bool]]) -> None:
        rows = [self.row(key, ver, place) for key, ver, place, _ in changes]
        columns = (*self.shape.key_fields, *self.shape.partition_fields)
        self.write(Commit("delete", tuple(rows), columns))

    @rule(changes=changes, place=places)
    def overwrite(self, changes: list[tuple[str, int, int, bool]], place: int) -> None:
        rows = {key: self.row(key, ver, place) for key, ver, _, _ in changes}
        path = self.place(place).path
        elsewhere = {row.id for row in self.history.model.live.values() if row.path != path}
        kept = [row for key, row in rows.items() if key not in elsewhere]
        if kept:
            self.write(Commit("insert_overwrite", tuple(kept)))

    @rule(number=st.integers(0, len(CONDITIONS) - 1))
    def delete_where(self, number: int) -> None:
        self.write(Commit("delete_where", condition=CONDITIONS[number][0]))

    @precondition(lambda self: self.history.model.live)
    @rule(at=st.integers(0, 100))
    def drop_partition(self, at: int) -> None:
        paths = sorted({row.path for row in self.history.model.live.values()})
        self.write(Commit("delete_partitions", partitions=(paths[at % len(paths)],)))

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "history"):
            assert_holds(self.path, self.history.model, verify=False)

    def teardown(self) -> None:
        try:
            if hasattr(self, "history"):
                assert_holds(self.path, self.history.model)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class MergeOnReadHistories(Histories):
    """The same with log files, which are compacted at once, or planned first and merged later."""

    table_type = "mor"
    planned: str | None = None

    def write(self, commit: Commit) -> None:
        """Groups of a plan are not replaced before it is run."""
        if commit.verb in ("insert_overwrite", "delete_partitions"):
            self.run_the_plan()
        super().write(commit)

    @rule()
    def schedule(self) -> None:
        if self.planned is None:
            self.planned = schedule_compaction(self.writer)

    @rule()
    def run_the_plan(self) -> None:
        if self.planned is not None:
            run_compaction(self.writer, self.planned)
            self.planned = None

    @rule()
    def compact(self) -> None:
        compact_table(self.writer)
        self.planned = None


class VirtualKeyHistories(Histories):
    """Files without meta columns: keys are computed from the key columns."""

    @initialize(
        index=st.sampled_from(("SIMPLE", "GLOBAL_SIMPLE")),
        style=st.sampled_from(("simple", "hive")),
    )
    def begin(self, index: str, style: str) -> None:
        self.start(Shape(self.table_type, index, style, virtual_keys=True))


class VirtualKeyMergeOnReadHistories(VirtualKeyHistories, MergeOnReadHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [VirtualKeyHistories, VirtualKeyMergeOnReadHistories])
def test_random_histories_without_meta_columns(machine):
    run_histories(machine, count=6, steps=10)


@pytest.mark.parametrize("machine", [Histories, MergeOnReadHistories])
def test_random_histories_leave_the_rows_of_the_model(machine):
    # cases B23, B27: records that change their partition; deletes in the record index
    run_histories(machine, count=9, steps=10)
