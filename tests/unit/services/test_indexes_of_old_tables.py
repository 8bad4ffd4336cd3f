"""Record indexes that are made, or made anew, when the first instants are in the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.inline import writer_with_services
from lakedex.services.resharding import reshard_index
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from tests.support.history import History, create
from tests.support.row_model import arrow_rows, assert_holds
from tests.support.write_shapes import Shape

METADATA_TIMELINE = ".hoodie/metadata/.hoodie/timeline"
SHORT_TIMELINES = {
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@pytest.mark.parametrize("index", ["GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"])
def test_writes_go_on_after_resharding_an_old_table(tmp_path, index):
    shape = Shape("cow", index, "simple")
    address, history = _old_table(shape, tmp_path / "table")
    for count in (5, 2):
        reshard_index(address, LocalEngine(1), "record_index", count)
        assert_holds(address.url, history.model)
        groups = lakedex.open(address.url).snapshot.metadata.groups("record_index")
        assert len(groups) == count * (1 if shape.is_global else len(shape.places))
    rows = [*(history.changed(row) for row in history.sample(4)), *history.new_rows(3)]
    _write(history, address, "upsert", rows)
    assert_holds(address.url, history.model)


def test_an_index_that_an_old_table_gets_is_counted_right(tmp_path, caplog):
    address, history = _old_table(Shape("mor", "SIMPLE", "simple"), tmp_path / "table")
    wanted = {"hoodie.metadata.global.record.level.index.enable": "true"}
    _write(history, address, "upsert", history.new_rows(2), wanted)
    assert "more than once" not in caplog.text
    metadata = lakedex.open(address.url).snapshot.metadata
    assert metadata.scan("record_index").num_rows == len(history.model.live) == 11


def _old_table(shape: Shape, path: Path) -> tuple[StorageAddress, History]:
    """A table whose metadata table was made by instants that are in the archive."""
    address = create(shape, path)
    history = History(shape, rows=9)
    _write(history, address, "insert", history.new_rows(9))
    for _ in range(20):
        if not list((path / METADATA_TIMELINE).glob("00000000*")):
            return address, history
        _write(history, address, "upsert", [history.changed(row) for row in history.sample(3)])
    raise AssertionError("nothing was archived")


def _write(history: History, address: StorageAddress, verb: str, rows, options=None) -> None:
    writer = writer_with_services(address, LocalEngine(1), SHORT_TIMELINES | (options or {}))
    getattr(writer, verb)(ArrowRowSource(arrow_rows(history.shape, rows)))
    getattr(history.model, verb)(rows)
