"""Real Hudi reads, and goes on writing, what lakedex repaired."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakedex.services.repairing import repair_table
from tests.interop.handing_over import (
    TYPES,
    assert_holds,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
)

PARTS = [rows(0, 20, 1), rows(4, 8, 2), rows(18, 24, 3)]


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_reads_and_goes_on_after_a_damaged_commit_was_repaired(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    writer = make_table(path, kind)
    for part in PARTS:
        writer.upsert(source(part))
    for file in sorted(Path(path, ".hoodie/timeline").glob("*commit"))[1:]:
        file.write_bytes(file.read_bytes()[:50])
        assert repair_table(writer).ok
    expected = merged(*PARTS)
    assert_holds(spark, path, expected)
    hudi_writes(spark, path, rows(6, 10, 4), tmp_path)
    assert_holds(spark, path, merged(*PARTS, rows(6, 10, 4)))
