"""Another number of file groups for the record index of a table that has been written for long."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.inline import writer_with_services
from lakedex.services.resharding import reshard_index
from lakedex.storage.address import StorageAddress
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
    """The instants that built the index are in the archive, so a new one has a later time."""
    shape = Shape("cow", index, "simple")
    address = create(shape, tmp_path / "table")
    history = History(shape, rows=9)
    _write(history, address, "insert", history.new_rows(9))
    for _ in range(20):
        if not _first_times(tmp_path / "table"):
            break
        _write(history, address, "upsert", [history.changed(row) for row in history.sample(3)])
    assert not _first_times(tmp_path / "table")
    for count in (5, 2):
        reshard_index(address, LocalEngine(1), "record_index", count)
        assert_holds(address.url, history.model)
        groups = lakedex.open(address.url).snapshot.metadata.groups("record_index")
        assert len(groups) == count * (1 if shape.is_global else len(shape.places))
    rows = [*(history.changed(row) for row in history.sample(4)), *history.new_rows(3)]
    _write(history, address, "upsert", rows)
    assert_holds(address.url, history.model)


def _write(history: History, address: StorageAddress, verb: str, rows) -> None:
    writer = writer_with_services(address, LocalEngine(1), SHORT_TIMELINES)
    getattr(writer, verb)(ArrowRowSource(arrow_rows(history.shape, rows)))
    getattr(history.model, verb)(rows)


def _first_times(table: Path) -> list[str]:
    return [file.name for file in (table / METADATA_TIMELINE).glob("00000000*")]
