"""Real Hudi drops an index that a writer does not name; lakedex names the write (case B62)."""

from __future__ import annotations

import lakedex
from lakedex.services.index_creating import create_index, refresh_index
from tests.interop.handing_over import (
    assert_holds,
    by_lakedex,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
)

BY_SCAN = {"hoodie.index.type": "GLOBAL_SIMPLE"}
FORGETFUL = {
    "hoodie_index_type": "GLOBAL_SIMPLE",
    "hoodie_metadata_record_index_enable": "false",
    "hoodie_metadata_global_record_level_index_enable": "false",
}


def test_the_write_of_hudi_that_dropped_an_index_is_named_and_the_index_built_again(
    spark, tmp_path
):
    path = str(tmp_path / "t")
    writer = make_table(path, "mor", options=BY_SCAN)
    first, second, theirs = rows(0, 40, 1), rows(40, 44, 1), rows(44, 50, 2)
    writer.upsert(source(first))
    create_index(writer, "on_s", "s")
    writer.upsert(source(second))
    hudi_writes(spark, path, theirs, tmp_path, **FORGETFUL)
    table = lakedex.open(path)
    instant = table.timeline.last_completed.requested_time
    gone = {each.name: each.problem for each in table.indexes() if each.state == "dropped"}
    assert f"another engine dropped it with the write {instant}" in gone["record_index"]
    assert instant in str(table.explain("id = 'k045'"))
    assert [row[0] for row in by_lakedex(path, "id = 'k045'")] == ["k045"]
    refresh_index(writer, "record_index")
    refresh_index(writer, "on_s")
    found = lakedex.open(path)
    assert {"record_index", "secondary_index_on_s"} <= set(
        found.snapshot.config.metadata_partitions
    )
    assert not [each for each in found.indexes() if each.state == "dropped"]
    assert found.verify().ok
    assert_holds(spark, path, merged(first, second, theirs))
