"""Real Hudi beside our cleaning, archiving and restores: each runs what the other planned."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.config.service_options import CleaningOptions
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.timeline import Action
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table, schedule_clean
from lakedex.upkeep.savepoints import create_savepoint
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

FIRST = rows(0, 80, 1)
CHANGES = [rows(10 * n, 10 * n + 16, n + 2) for n in range(6)]
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
FEW = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "2",
}

HUDI_FEW = {"keep_min_commits": "2", "keep_max_commits": "3", "clean_commits_retained": "1"}


def written(path: str, kind: str) -> list[str]:
    """A table of some commits; answers their instants."""
    make_table(path, kind)
    writer = writer_of(path, OPTIONS)
    results = [writer.bulk_insert(source(FIRST))]
    results += [writer.upsert(source(change)) for change in CHANGES]
    return [str(result.instant) for result in results]


def named(spark, name: str, path: str) -> str:
    """The table under a name of the session's catalog, as procedures of Hudi want it."""
    spark.sql(f"create table {name} using hudi location '{path}'")
    return name


def test_each_runs_the_clean_that_the_other_planned(spark, tmp_path):
    path, expected = str(tmp_path / "t"), merged(FIRST, *CHANGES)
    written(path, "cow")
    address = StorageAddress.of(path)
    ours = schedule_clean(address, CleaningOptions(commits=4), TransactionOptions())
    before = len(list(Path(path).glob("p=*/*.parquet")))
    name = named(spark, "upkeep_cleaned", path)
    spark.sql(f"call run_clean(table => '{name}', retain_commits => 4)").collect()
    timeline = lakedex.open(path).timeline
    assert timeline.is_completed(ours)
    assert len(list(Path(path).glob("p=*/*.parquet"))) < before
    assert_holds(spark, path, expected)
    # Hudi looks for something to clean only after another commit.
    later = rows(0, 16, 20)
    writer_of(path, OPTIONS).upsert(source(later))
    expected = merged(FIRST, *CHANGES, later)
    # A plan of Hudi, in the table as it was before Hudi carried it out.
    shutil.copytree(path, tmp_path / "before" / "t")
    done = spark.sql(f"call run_clean(table => '{name}', retain_commits => 1)").collect()
    theirs = done[0]["start_clean_time"]
    plan = f".hoodie/timeline/{theirs}.clean.requested"
    copy = str(tmp_path / "before" / "t")
    shutil.copy(Path(path) / plan, Path(copy) / plan)
    result = clean_table(StorageAddress.of(copy), {"hoodie.clean.commits.retained": "50"})
    assert result.instants == (theirs,)
    assert result.files == done[0]["total_files_deleted"]
    names = sorted(file.name for file in Path(path).glob("p=*/*.parquet"))
    assert sorted(file.name for file in Path(copy).glob("p=*/*.parquet")) == names
    assert_holds(spark, copy, expected)


def test_hudi_reads_and_writes_on_after_our_archive_and_restore(spark, tmp_path):
    path = str(tmp_path / "t")
    times = written(path, "mor")
    address = StorageAddress.of(path)
    create_savepoint(address, times[4])
    clean_table(address, FEW)
    assert archive_table(address, FEW).instants > 0
    expected = merged(FIRST, *CHANGES)
    assert_holds(spark, path, expected)
    as_of = {"as_of_instant": times[5]}
    assert by_hudi(spark, path, **as_of) == merged(FIRST, *CHANGES[:5])
    rollback_instant(address, times[6])
    assert_holds(spark, path, merged(FIRST, *CHANGES[:5]))
    restore_table(address, times[4])
    assert_holds(spark, path, merged(FIRST, *CHANGES[:4]))
    # Hudi goes on with the same history.
    news = rows(70, 90, 50)
    few = {f"hoodie_{name}": value for name, value in HUDI_FEW.items()}
    hudi_writes(spark, path, news, tmp_path, **few)
    timeline = lakedex.open(path).timeline
    found = [each.requested_time for each in timeline.between(None)]
    assert found[:5] == times[:5]
    assert len(found) == 6
    assert_holds(spark, path, merged(FIRST, *CHANGES[:4], news))
    writer_of(path, OPTIONS).upsert(source(rows(0, 5, 60)))
    assert_holds(spark, path, merged(FIRST, *CHANGES[:4], news, rows(0, 5, 60)))


@pytest.mark.parametrize(
    ("kind", "most", "retained"), [("cow", 5, 1), ("mor", 5, 1), ("cow", 6, 3)]
)
def test_as_many_commits_and_cleans_stay_active_as_in_hudi(spark, tmp_path, kind, most, retained):
    options = {
        "hoodie.clean.commits.retained": str(retained),
        "hoodie.keep.min.commits": str(most - 1),
        "hoodie.keep.max.commits": str(most),
    }
    schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("ts", pa.int64())])
    mine, theirs, name = str(tmp_path / "mine"), str(tmp_path / "theirs"), f"kept_{kind}_{most}"
    create_table(
        StorageAddress.of(mine).open(), TableSpec("t", schema, "id", "ts", (), kind, options)
    )
    shown = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    spark.sql(
        f"create table {name} (id int, name string, ts bigint) using hudi location '{theirs}' "
        f"tblproperties (primaryKey='id', orderingFields='ts', type='{kind}', {shown})"
    )
    for number in range(most + 3):
        row = pa.table({"id": [number], "name": ["a"], "ts": [number]}, schema=schema)
        writer_of(mine).insert(source(row))
        spark.sql(f"insert into {name} select {number}, 'a', {number}")
        assert active(mine) == active(theirs), number
    # Hudi writes on in our table, and we in that of Hudi.
    row = pa.table({"id": [99], "name": ["a"], "ts": [99]}, schema=schema)
    writer_of(theirs, options).insert(source(row))
    spark.sql(f"create table {name}_2 using hudi location '{mine}' tblproperties ({shown})")
    spark.sql(f"insert into {name}_2 select 99, 'a', 99")
    for path in (mine, theirs):
        assert lakedex.open(path).to_arrow().num_rows == most + 4
        assert spark.read.format("hudi").load(path).count() == most + 4
        assert lakedex.open(path).verify().ok


def active(path: str) -> tuple[int, int]:
    """How many commits and cleans the active timeline has."""
    completed = lakedex.open(path).timeline.completed()
    cleans = sum(each.action is Action.CLEAN for each in completed)
    return sum(each.action.is_write for each in completed), cleans


def test_hudi_restores_our_savepoint(spark, tmp_path):
    # Hudi restores to commits after the oldest base file of the metadata table only.
    path = str(tmp_path / "t")
    times = written(path, "cow")
    create_savepoint(StorageAddress.of(path), times[4], user="me", comments="kept")
    name = named(spark, "upkeep_restored", path)
    shown = spark.sql(f"call show_savepoints(table => '{name}')").collect()
    assert [row["savepoint_time"] for row in shown] == [times[4]]
    spark.sql(f"call rollback_to_savepoint(table => '{name}', instant_time => '{times[4]}')")
    expected = merged(FIRST, *CHANGES[:4])
    assert by_hudi(spark, path, hoodie_metadata_enable="false") == expected
    assert by_lakedex(path) == expected
    timeline = lakedex.open(path).timeline
    assert [each.action for each in timeline.completed()].count(Action.RESTORE) == 1
    assert lakedex.open(path).verify().ok
