"""A predicate on one column of a wide table reads that column's statistics, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakedex
from lakedex.index.metadata_table import MetadataTable
from lakedex.index.metadata_table.hashing import name_id
from tests.support.table_builder import TableBuilder

COLUMNS, FILES, FILES_PER_PARTITION = 20, 300, 30


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """A table whose files exist in its metadata table only; `c0` grows from file to file."""
    path = tmp_path_factory.mktemp("wide") / "wide"
    names = [f"c{number}" for number in range(COLUMNS)]
    fields = [("id", pa.string()), ("day", pa.string()), *((name, pa.int64()) for name in names)]
    builder = TableBuilder(
        path,
        pa.schema(fields),
        record_key="id",
        partition_by="day",
        metadata="base",
        indexes=["column_stats", "partition_stats"],
    )
    numbers = np.arange(FILES)
    mixed = dict.fromkeys(names[1:], numbers * 7919 % 1009)
    rows = pa.table({"id": numbers.astype(str), "c0": numbers, **mixed})
    pieces = [(f"d{n // FILES_PER_PARTITION:02}", rows.slice(n, 1)) for n in range(FILES)]
    builder.commit(pieces, phantom_files=True)
    builder.finish()
    return path


@pytest.mark.parametrize(
    ("predicate", "column", "most_entries"),
    [
        ("c0 = 150", "c0", FILES // FILES_PER_PARTITION + FILES),
        ("c7 between 10 and 40", "c7", FILES // FILES_PER_PARTITION + FILES),
    ],
)
def test_only_the_entries_of_its_column_are_read(
    wide, monkeypatch, predicate, column, most_entries
):
    seen: list[str] = []
    for name in ("scan_prefixes", "lookup"):
        read = getattr(MetadataTable, name)

        def watched(self, partition, wanted, read=read):
            records = read(self, partition, wanted)
            seen.extend(records["key"].to_pylist())
            return records

        monkeypatch.setattr(MetadataTable, name, watched)
    table = lakedex.open(wide)
    table.files()
    left = table.files(predicate)
    assert 0 < len(left) < FILES // 10
    assert {key[: len(name_id(column))] for key in seen} == {name_id(column)}
    assert len(seen) <= most_entries
