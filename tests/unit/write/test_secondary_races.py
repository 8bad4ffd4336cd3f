"""Secondary indexes beside other writers, bulk loads and new columns."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.services.index_creating import create_index
from lakedex.services.index_dropping import drop_index
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.secondary import SCHEMA, Trips, pairs


class Interrupted(LocalEngine):
    """Lets somebody else write when the data files of a write are there, before its commit."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._acts = [act]

    def map(self, label, worker, tasks):
        answers = super().map(label, worker, tasks)
        if label == "write the files" and self._acts:
            self._acts.pop()()
        return answers


@pytest.fixture
def trips(tmp_path) -> Trips:
    made = Trips(tmp_path / "t", "mor")
    made.writer.bulk_insert(made.rows(("a1", 1, "ann", "oslo"), ("b1", 1, "bob", "rio")), "rider")
    return made


def test_rows_that_come_while_an_index_is_made_are_in_it(trips):
    other = trips.rows(("c1", 1, "cem", "oslo"), ("a1", 2, "ada", "oslo"))
    engine = Interrupted(lambda: trips.writer.upsert(other))
    create_index(TableWriter(trips.address, engine), "idx_rider", "rider")
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_a_write_that_began_before_an_index_was_made_is_written_again(trips):
    mine = trips.rows(("c1", 1, "cem", "oslo"), ("a1", 2, "ada", "oslo"))
    engine = Interrupted(lambda: trips.index("rider"))
    with pytest.raises(CommitConflict, match="partitions"):
        TableWriter(trips.address, engine).upsert(mine)
    assert trips.entries("rider") == pairs({"a1": "ann", "b1": "bob"})
    trips.assert_whole()
    trips.writer.upsert(mine)
    assert trips.found("rider in ('cem', 'ada', 'ann')") == ["a1", "c1"]
    trips.assert_whole()


def test_an_index_that_was_made_anew_on_another_column(trips):
    """The name is the same, so that the table's properties do not tell."""
    trips.index("rider", "idx")

    def swap() -> None:
        drop_index(trips.address, "idx", trips.writer.target().patience)
        trips.index("city", "idx")

    with pytest.raises(CommitConflict, match="made the index secondary_index_idx anew"):
        TableWriter(trips.address, Interrupted(swap)).upsert(trips.rows(("a1", 2, "ada", "oslo")))
    trips.assert_whole()
    assert trips.found("city = 'oslo'") == ["a1"]


def test_bulk_loads_and_a_column_that_older_rows_lack(trips):
    trips.index("rider")
    trips.writer.bulk_insert(trips.rows(("c1", 1, "cem", "oslo"), ("d1", 1, None, "lima")), "rider")
    assert trips.entries("rider") == pairs({"a1": "ann", "b1": "bob", "c1": "cem", "d1": None})
    wider = pa.schema([*SCHEMA, pa.field("tip", pa.int32())])
    rows = pa.table(
        {"uuid": ["a1"], "ts": [2], "rider": ["ann"], "city": ["oslo"], "tip": [7]}, schema=wider
    )
    trips.writer.upsert(ArrowRowSource(rows))
    trips.index("tip")
    assert trips.entries("tip") == pairs({"a1": "7", "b1": None, "c1": None, "d1": None})
    assert trips.found("tip is null") == ["b1", "c1", "d1"]
    assert trips.found("tip = 7") == ["a1"]
    trips.assert_whole()
