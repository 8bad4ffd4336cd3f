"""Real Hudi goes on with what lakedex left: built, upgraded and resharded indexes, dead writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.resharding import reshard_index
from lakedex.services.upgrading import upgrade_table
from lakedex.storage.open import StorageAddress
from tests.interop.handing_over import (
    INDEXES,
    PARTITIONS,
    TYPES,
    assert_holds,
    by_hudi,
    by_lakedex,
    hudi_writes,
    in_table,
    make_table,
    merged,
    rows,
    source,
    upsert_job,
    writer_of,
)
from tests.interop.reading import ask
from tests.support.killing import DieAt, changes_of, finish, start

BEFORE = {
    "no metadata table": {"hoodie.metadata.enable": "false"},
    "files only": {"hoodie.metadata.index.column.stats.enable": "false"},
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("kind", TYPES)
def test_indexes_that_lakedex_builds_for_a_table_of_hudi(spark, tmp_path, kind, before):
    path = str(tmp_path / "t")
    first, second, third = rows(0, 40, 1), rows(3, 4, 2), rows(30, 45, 3)
    options = {
        "hoodie.datasource.write.table.type": TYPES[kind],
        "hoodie.index.type": "SIMPLE",
        "hoodie.metadata.record.index.enable": "false",
    } | BEFORE[before]
    hudi_writes(spark, path, first, tmp_path, **options)
    writer_of(path, INDEXES).upsert(source(second))
    live = lakedex.open(path).snapshot.config.metadata_partitions
    assert {"files", "column_stats", "partition_stats", "record_index"} == set(live)
    assert_holds(spark, path, merged(first, second))
    assert_one_file_is_read(spark, path)
    hudi_writes(spark, path, third, tmp_path)
    assert_holds(spark, path, merged(first, second, third))
    assert_one_file_is_read(spark, path)


def assert_one_file_is_read(spark, path: str) -> None:
    """The record index and the column ranges name one of at least four files each."""
    for predicate in ("id = 'k002'", "n between 2000 and 2010"):
        answer, plain = ask(spark, path, predicate), ask(spark, path, predicate, skipping=False)
        assert answer.ids == plain.ids, predicate
        assert answer.files == 1, predicate
        assert plain.files >= PARTITIONS, predicate


GOLDEN_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path", "rider", "fare", "ts")


@pytest.mark.parametrize("name", ["v6_cow", "v6_mor", "v8_cow", "v8_mor"])
def test_hudi_goes_on_with_a_table_that_lakedex_upgraded(spark, golden, tmp_path, name):
    path = str(tmp_path / name)
    shutil.copytree(golden(name).path, path)
    before = by_hudi(spark, path, columns=GOLDEN_COLUMNS)
    assert len(before) == golden(name).expected["row_count"]
    upgrade_table(StorageAddress.of(path), drop_indexes=True)
    assert lakedex.open(path).snapshot.config.version == 9
    plain = {"hoodie.metadata.enable": "false"}
    assert by_hudi(spark, path, columns=GOLDEN_COLUMNS) == before
    assert by_hudi(spark, path, columns=GOLDEN_COLUMNS, **plain) == before
    key, *_, ts = before[5]
    spark.sql(f"create table upgraded_{name} using hudi location '{path}'")
    try:
        column = lakedex.open(path).snapshot.config.record_key_fields[0]
        where = f"{column} = '{key}'"
        spark.sql(f"update upgraded_{name} set rider = 'by hudi', ts = ts + 1 where {where}")
    finally:
        spark.sql(f"drop table upgraded_{name}")
    after = by_hudi(spark, path, columns=GOLDEN_COLUMNS)
    assert [row for row in after if row not in before] == [
        (*before[5][:2], "by hudi", before[5][3], ts + 1)
    ]
    assert len(after) == len(before)
    assert by_lakedex(path, columns=GOLDEN_COLUMNS) == after
    assert by_hudi(spark, path, columns=GOLDEN_COLUMNS, **plain) == after
    assert by_hudi(spark, path, where, columns=GOLDEN_COLUMNS)[0][2] == "by hudi"


@pytest.mark.parametrize(("kind", "groups"), [("cow", 7), ("mor", 5), ("cow", 1), ("mor", 1)])
def test_hudi_goes_on_with_a_resharded_record_index(spark, tmp_path, kind, groups):
    path = str(tmp_path / "t")
    make_table(path, kind).upsert(source(rows(0, 40, 1)))
    reshard_index(StorageAddress.of(path), LocalEngine(2), "record_index", groups)
    assert_holds(spark, path, in_table(rows(0, 40, 1)))
    assert_one_file_is_read(spark, path)
    hudi_writes(spark, path, rows(30, 50, 2), tmp_path)
    expected = merged(rows(0, 40, 1), rows(30, 50, 2))
    assert_holds(spark, path, expected)
    assert_one_file_is_read(spark, path)
    hudi_indexes(spark, path, "s")
    answer = ask(spark, path, "s = 's35-2'")
    assert (answer.ids, answer.files) == (["k035"], 1)
    assert by_lakedex(path, "s = 's35-2'") == [row for row in expected if row[0] == "k035"]
    assert by_hudi(spark, path) == expected


def hudi_indexes(spark, path: str, column: str) -> None:
    """Let Hudi make a secondary index `on_<column>`, for which it wants a lock to be chosen."""
    lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    spark.sql(f"create table to_be_indexed using hudi location '{path}'")
    spark.sql(f"set hoodie.write.lock.provider={lock}")
    try:
        spark.sql(f"create index on_{column} on to_be_indexed ({column})")
    finally:
        spark.sql("reset hoodie.write.lock.provider")
        spark.sql("drop table to_be_indexed")


# Where a write dies: a text in the path of the last file that it makes.
DEATHS = {
    "after its data files": "create p=p",
    "after its metadata deltacommit": "create .hoodie/metadata/.hoodie/timeline/",
}


@pytest.mark.parametrize(
    ("kind", "death", "next_writer"),
    [
        *((kind, death, "hudi") for kind in TYPES for death in DEATHS),
        ("cow", "after its data files", "lakedex"),
        ("mor", "after its metadata deltacommit", "lakedex"),
    ],
)
def test_a_dead_write_of_lakedex_leaves_no_rows(spark, tmp_path, kind, death, next_writer):
    path = str(tmp_path / "t")
    make_table(path, kind).upsert(source(rows(0, 40, 1)))
    kill_upsert(path, tmp_path, death)
    assert [each.action.value for each in lakedex.open(path).timeline.pending()]
    before = in_table(rows(0, 40, 1))
    assert by_hudi(spark, path) == before
    if next_writer == "hudi":
        hudi_writes(spark, path, rows(38, 42, 3), tmp_path)
    else:
        upsert_job(path, 38, 42, 3)
    assert not lakedex.open(path).timeline.pending()
    assert_holds(spark, path, merged(rows(0, 40, 1), rows(38, 42, 3)))
    upsert_job(path, 20, 44, 4)
    hudi_writes(spark, path, rows(43, 46, 5), tmp_path)
    last = merged(rows(0, 40, 1), rows(38, 42, 3), rows(20, 44, 4), rows(43, 46, 5))
    assert_holds(spark, path, last)


def kill_upsert(path: str, folder: Path, death: str) -> None:
    """An upsert in a process that dies; where, it tries on a copy of the table."""
    copy = folder / "copy"
    shutil.copytree(path, copy)
    changes = changes_of(upsert_job, str(copy), 30, 60, 2, result=folder / "changes")
    made = [change for change in changes if change.startswith(DEATHS[death])]
    watch = DieAt(text=DEATHS[death], skip=len(made) - 1, is_after=True)
    assert finish(start(upsert_job, path, 30, 60, 2, watch=watch)) == -9
