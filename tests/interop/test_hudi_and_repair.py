"""Real Hudi beside damaged files: it reads what lakedex repaired, and the backup that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.services.repairing import repair_table
from lakedex.timeline.properties_file import BACKUP_PATH, PROPERTIES_PATH
from tests.interop.handing_over import (
    TYPES,
    assert_holds,
    by_hudi,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)

FORGETFUL = {
    "hoodie_index_type": "GLOBAL_SIMPLE",
    "hoodie_metadata_record_index_enable": "false",
    "hoodie_metadata_global_record_level_index_enable": "false",
}
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


def test_hudi_reads_the_backup_of_missing_properties_and_takes_it_away(spark, tmp_path):
    path = str(tmp_path / "t")
    make_table(path, "cow").upsert(source(PARTS[0]))
    properties = Path(path, PROPERTIES_PATH)
    whole = properties.read_bytes()
    properties.unlink()
    assert by_hudi(spark, path) == merged(PARTS[0])
    assert repair_table(writer_of(path)).ok
    assert properties.read_bytes() == whole
    hudi_writes(spark, path, PARTS[1], tmp_path, **FORGETFUL)  # which drops the record index
    assert not Path(path, BACKUP_PATH).exists()
    opened = lakedex.open(path)
    assert "record_index" not in opened.snapshot.config.metadata_partitions
    assert opened.verify().ok
    assert_holds(spark, path, merged(*PARTS[:2]))
