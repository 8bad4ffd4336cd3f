"""The number of file groups of a record index that is made for rows that are there already."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.index import size_estimate
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.own_properties import OWN_COPY_PATH, OWN_PROPERTIES_PATH
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SCHEMA = pa.schema([("id", pa.string()), ("ver", pa.int64()), ("p", pa.string())])
RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
}


def rows(count: int, ver: int) -> ArrowRowSource:
    keys = range(count)
    columns = [[f"k{i}" for i in keys], [ver] * count, [f"p{i % 2}" for i in keys]]
    return ArrowRowSource(pa.table(columns, schema=SCHEMA))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_small_write_makes_an_index_that_has_room_for_the_whole_table(
    tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(size_estimate, "_ENTRIES_A_SHARD", 1000)
    path = str(tmp_path / "t")
    address = StorageAddress.of(path)
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ver", "p", kind))
    plain = {"hoodie.metadata.enable": "false"}
    TableWriter(address, LocalEngine(2), plain).insert(rows(2000, 1))
    # As a table of Hudi, which keeps no write index, so that the next writer may choose it.
    for name in (OWN_PROPERTIES_PATH, OWN_COPY_PATH):
        (tmp_path / "t" / name).unlink()
    TableWriter(address, LocalEngine(2), RECORD_INDEX).upsert(rows(1, 2))
    table = lakedex.open(path)
    groups = table.snapshot.metadata.groups("record_index")
    assert 7 <= len(groups) <= 10
    assert table.to_arrow().num_rows == 2000
    assert table.verify().ok
