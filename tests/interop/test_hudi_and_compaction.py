"""Real Hudi on tables that lakedex compacted; each engine runs the plans of the other."""

from __future__ import annotations

import lakedex
from lakedex.services.clustering import run_clustering
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.timeline import Action, State
from tests.interop.handing_over import (
    assert_holds,
    by_hudi,
    by_lakedex,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)

FIRST, SECOND, THIRD = rows(0, 120, 1), rows(20, 60, 2), rows(50, 90, 3)
# Hudi plans a compaction only when so many deltacommits came.
SOON = "options => 'hoodie.compact.inline.max.delta.commits=1'"
# What a writer of Hudi must name, or it drops the index.
KEPT = ("hoodie.metadata.record.index.enable", "hoodie.metadata.index.column.stats.enable")
LOG_COMPACTION = {
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "2",
}


def written(path: str) -> None:
    """A table with log files."""
    make_table(path, "mor").bulk_insert(source(FIRST))
    writer_of(path).upsert(source(SECOND))


def is_done(path: str, instant: str) -> bool:
    return lakedex.open(path).timeline.is_completed(instant)


def test_hudi_reads_and_writes_what_was_compacted(spark, tmp_path):
    path = str(tmp_path / "t")
    written(path)
    # The metadata table is compacted between the plan and the run.
    writer = writer_of(path, {"hoodie.metadata.compact.max.delta.commits": "2"})
    instant = schedule_compaction(writer)
    for ver in (2, 3):
        writer.upsert(source(rows(100, 110, ver)))
    before = FIRST, SECOND, rows(100, 110, 3)
    hudi_writes(spark, path, THIRD, tmp_path)
    assert lakedex.open(path).timeline.is_pending(instant), "Hudi leaves the plan where it is"
    assert_holds(spark, path, merged(*before, THIRD))
    run_compaction(writer, instant)
    expected = merged(*before, THIRD)
    assert_holds(spark, path, expected)
    last = rows(80, 130, 4)
    hudi_writes(spark, path, last, tmp_path)
    assert_holds(spark, path, merged(*before, THIRD, last))
    compact_table(writer)
    assert not any(current.logs for current in lakedex.open(path).files())
    assert_holds(spark, path, merged(*before, THIRD, last))
    hudi_writes(spark, path, rows(0, 10, 5), tmp_path, "delete")
    gone = {f"k{number:03}" for number in range(10)}
    assert_holds(spark, path, merged(*before, THIRD, last, without=gone))


def test_hudi_runs_a_plan_of_lakedex(spark, tmp_path):
    path = str(tmp_path / "t")
    written(path)
    instant = schedule_compaction(writer_of(path))
    writer_of(path).upsert(source(THIRD))
    (shown,) = spark.sql(f"call run_compaction(op => 'execute', path => '{path}')").collect()
    assert (shown["timestamp"], shown["state"]) == (instant, "COMPLETED")
    assert is_done(path, instant)
    assert_holds(spark, path, merged(FIRST, SECOND, THIRD))
    last = rows(80, 130, 4)
    writer_of(path).upsert(source(last))
    assert_holds(spark, path, merged(FIRST, SECOND, THIRD, last))


def test_lakedex_runs_plans_of_hudi(spark, tmp_path):
    path = str(tmp_path / "t")
    written(path)
    call = f"call run_compaction(op => 'schedule', path => '{path}', {SOON})"
    (shown,) = spark.sql(call).collect()
    instant = shown["timestamp"]
    assert lakedex.open(path).timeline.find(instant).state is State.REQUESTED
    hudi_writes(spark, path, THIRD, tmp_path)
    run_compaction(writer_of(path), instant)
    expected = merged(FIRST, SECOND, THIRD)
    assert_holds(spark, path, expected)
    spark.sql(f"call run_clustering(path => '{path}', order => 'n', op => 'schedule')").collect()
    (pending,) = lakedex.open(path).timeline.pending_of(Action.CLUSTERING)
    run_clustering(writer_of(path), pending.requested_time)
    assert is_done(path, pending.requested_time)
    assert_holds(spark, path, expected)
    last = rows(80, 130, 4)
    hudi_writes(spark, path, last, tmp_path)
    assert_holds(spark, path, merged(FIRST, SECOND, THIRD, last))


def test_partial_updates_of_hudi_are_merged_into_base_files(spark, tmp_path):
    path = str(tmp_path / "t")
    written(path)
    spark.sql(f"create table if not exists partial_t using hudi location '{path}'")
    for name in KEPT:
        spark.conf.set(name, "true")
    try:
        spark.sql(
            "merge into partial_t t using (select 'k030' id, 9L ver, 'p2' p, 'part' s) u "
            "on t.id = u.id when matched then update set t.s = u.s, t.ver = u.ver"
        )
        expected = by_hudi(spark, path)
        assert [row for row in expected if row[3] == "part"] == [("k030", 9, 2030, "part", "p2")]
        assert by_lakedex(path) == expected
        compact_table(writer_of(path))
        spark.sql("refresh table partial_t")
        assert_holds(spark, path, expected)
    finally:
        spark.sql("drop table if exists partial_t")
        for name in KEPT:
            spark.conf.unset(name)


def test_hudi_reads_log_blocks_that_were_put_together(spark, tmp_path):
    path = str(tmp_path / "t")
    written(path)
    writer = writer_of(path, LOG_COMPACTION)
    tables = [FIRST, SECOND]
    for ver in range(3, 7):
        tables.append(rows(ver * 10, 130 + ver, ver))
        writer.upsert(source(tables[-1]))
    folder = tmp_path / "t/.hoodie/metadata/.hoodie/timeline"
    assert len(list(folder.glob("*.logcompaction.requested"))) >= 2
    expected = merged(*tables)
    for scan in ("false", "true"):
        chosen = {"hoodie_metadata_optimized_log_blocks_scan_enable": scan}
        assert by_hudi(spark, path, **chosen) == expected
        one = by_hudi(spark, path, "id = 'k133'", **chosen)
        assert one == by_lakedex(path, "id = 'k133'") != []
    hudi_writes(spark, path, rows(0, 5, 9), tmp_path)
    assert_holds(spark, path, merged(*tables, rows(0, 5, 9)))
