"""Random histories of tables with secondary indexes: the index says what the rows say, always."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import lakedex
from lakedex.services.clustering import cluster_table
from lakedex.services.index_creating import create_index
from lakedex.services.index_dropping import drop_index
from lakedex.storage.open import StorageAddress
from tests.property.test_random_histories import Histories
from tests.support.history import History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.row_model import Row, assert_holds
from tests.support.secondary import escaped, pairs
from tests.support.write_shapes import Shape

NAMES = ("a", "ab", "a$", "$b", "\\", "\0", "\U0001f600", "", None, "null")
ASKED: dict[str, Callable[[Row], bool]] = {
    "name = 'a'": lambda row: row.name == "a",
    "name is null": lambda row: row.name is None,
    "name = ''": lambda row: row.name == "",
    "name in ('a$')": lambda row: row.name == "a$",
    "name like 'a%'": lambda row: row.name in ("a", "ab", "a$"),
    "name between '' and 'a'": lambda row: row.name is not None and row.name <= "a",
    "name > 'n' or n = 1": lambda row: row.n == 1 or (row.name or "") > "n",
    "n = 0": lambda row: row.n == 0,
    "n > 1": lambda row: row.n is not None and row.n > 1,
    "name = 'a$' and n = 1": lambda row: (row.name, row.n) == ("a$", 1),
    "name is null and n in (0, 2)": lambda row: row.name is None and row.n in (0, 2),
    "name = '' and n < 2": lambda row: row.name == "" and row.n is not None and row.n < 2,
}
OPTIONS = {"hoodie.metadata.compact.max.delta.commits": "3"}
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}


class IndexedHistories(Histories):
    """Indexes on one column and on two from the start, a third one that comes and goes."""

    @initialize(
        index=st.sampled_from(("GLOBAL_RECORD_LEVEL_INDEX", "GLOBAL_SIMPLE")),
        style=st.sampled_from(("simple", "hive")),
        covers=st.booleans(),
    )
    def begin(self, index: str, style: str, covers: bool) -> None:
        self.shape = Shape(self.table_type, index, style)
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.writer = writer_of(create(self.shape, self.path, RECORD_INDEX), OPTIONS)
        options = {"lakedex.covering": "true"} if covers else {}
        create_index(self.writer, "on_name", "name", options=options)
        create_index(self.writer, "on_both", ("name", "n"), options=options)
        self.indexed = {"name"}

    def row(self, key: str, ver: int, place: int, *, gone: bool = False) -> Row:
        row = super().row(key, ver, place, gone=gone)
        odd = NAMES[(row.n or 0) % len(NAMES)]
        return row._replace(name=odd, n=None if row.n is None else row.n % 3)

    @precondition(lambda self: "n" not in self.indexed)
    @rule()
    def index_the_number(self) -> None:
        create_index(self.writer, "on_n", "n")
        self.indexed.add("n")

    @precondition(lambda self: "n" in self.indexed)
    @rule()
    def drop_that_index(self) -> None:
        patience = self.writer.target().patience
        drop_index(StorageAddress.of(self.path), "on_n", patience)
        self.indexed.discard("n")

    @precondition(lambda self: self.history.model.live)
    @rule(column=st.sampled_from(("name", "n")))
    def cluster(self, column: str) -> None:
        cluster_table(self.writer, column)

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "indexed"):
            return
        model, table = self.history.model, lakedex.open(self.path)
        assert_holds(self.path, model)
        for column in self.indexed:
            values = {
                model.key(row): None if getattr(row, column) is None else str(getattr(row, column))
                for row in model.live.values()
            }
            found = table.metadata(f"secondary_index_on_{column}")["key"].to_pylist()
            assert sorted(found) == pairs(values)
        both = [
            "$".join(escaped(None if part is None else str(part)) for part in parts)
            for parts in ((row.name, row.n, model.key(row)) for row in model.live.values())
        ]
        found = table.metadata("secondary_index_composite-on_both")["key"].to_pylist()
        assert sorted(found) == sorted(both)
        for predicate, is_true in ASKED.items():
            expected = sorted(model.key(row) for row in model.live.values() if is_true(row))
            rows = table.to_arrow(predicate, ["_hoodie_record_key"])
            assert sorted(rows["_hoodie_record_key"].to_pylist()) == expected, predicate


class IndexedLogHistories(IndexedHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [IndexedHistories, IndexedLogHistories])
def test_random_histories_leave_the_pairs_of_the_model(machine):
    # cases B13, B14, B15, B16, B22, B23, B60
    run_histories(machine, count=3, steps=8)
