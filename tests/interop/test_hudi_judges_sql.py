"""Real Hudi on tables that SQL statements of lakedex made, changed, indexed and laid out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakedex
from tests.interop.handing_over import (
    FEW_GROUPS,
    SCHEMA,
    TYPES,
    by_hudi,
    by_lakedex,
    hudi_writes,
    in_table,
    rows,
)
from tests.interop.reading import ask

COLUMNS = [*SCHEMA.names[:-1], "extra", "p"]
FIRST, NEWER = rows(0, 400, 1), rows(380, 420, 2)
GONE = {"k001", "k390"}
SMALL_FILES = {
    "hoodie.parquet.max.file.size": "6500",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "3000",
    **FEW_GROUPS,
}


@pytest.fixture(scope="module")
def lake(spark):
    """A session of its own beside Hudi's, in the same JVM."""
    return lakedex.attach(spark.newSession())


def properties(kind: str) -> str:
    told = {"primaryKey": "id", "orderingFields": "ver", "type": kind, **SMALL_FILES}
    return ", ".join(f"'{name}' = '{value}'" for name, value in told.items())


def view(lake, folder, name: str, table: pa.Table) -> None:
    pq.write_table(table, folder / f"{name}.parquet")
    lake.spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)


def expected(*tables: pa.Table, noted: set[str], without: set[str] = GONE) -> list[tuple]:
    """The rows of tables, later ones in the place of earlier ones, with the added column."""
    latest = {row[0]: row for table in tables for row in in_table(table)}
    return [
        (*latest[key][:-1], "noted" if key in noted else None, latest[key][-1])
        for key in sorted(latest)
        if key not in without
    ]


def assert_pruned(spark, path: str, predicate: str, most: int, columns: list[str]) -> None:
    """Hudi's own file index leaves files out by what lakedex wrote, and loses no row."""
    answer, plain = ask(spark, path, predicate), ask(spark, path, predicate, skipping=False)
    assert answer.ids == plain.ids == [row[0] for row in by_lakedex(path, predicate, columns)]
    assert 0 < answer.files <= most < plain.files, (predicate, answer.files, plain.files)


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_reads_prunes_and_writes_what_statements_made(spark, lake, tmp_path, kind):
    path = str(tmp_path / "t")
    view(lake, tmp_path, "first", FIRST)
    view(lake, tmp_path, "newer", NEWER)
    lake.sql(
        "CREATE TABLE t (id STRING, ver BIGINT, n INT, s STRING, p STRING) USING lakedex "
        f"PARTITIONED BY (p) TBLPROPERTIES ({properties(kind)}) LOCATION '{path}'"
    )
    lake.sql("INSERT INTO t SELECT * FROM first ORDER BY n")
    lake.sql(
        "MERGE INTO t USING newer ON t.id = newer.id AND t.p = newer.p "
        "WHEN MATCHED AND newer.id = 'k390' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    lake.sql("DELETE FROM t WHERE id = 'k001'")
    lake.sql("ALTER TABLE t ADD COLUMNS (extra STRING)")
    lake.sql("UPDATE t SET extra = 'noted', ver = ver + 1 WHERE n BETWEEN 0 AND 20")
    lake.sql("CREATE INDEX record_index ON t (id)")
    lake.sql("DROP INDEX column_stats ON t")
    lake.sql("CREATE INDEX column_stats ON t (n, s)")
    # Hudi's reader refuses a path whose table it finds in the catalog as one of another format.
    lake.sql("DROP TABLE t")
    noted = {f"k{i:03}" for i in range(0, 21, 4)}
    bumped = pa.table(
        {
            name: FIRST[name]
            if name != "ver"
            else pa.array([2 if key in noted else 1 for key in FIRST["id"].to_pylist()], pa.int64())
            for name in SCHEMA.names
        }
    )
    now = expected(bumped, NEWER, noted=noted)
    assert by_lakedex(path, None, COLUMNS) == now
    assert by_hudi(spark, path, None, COLUMNS) == now
    assert by_hudi(spark, path, None, COLUMNS, hoodie_metadata_enable="false") == now
    assert_pruned(spark, path, "id = 'k123'", 1, COLUMNS)
    assert_pruned(spark, path, "n between 2000 and 2030", 3, COLUMNS)

    lake.table(path).cluster(by=["n", "s"], strategy="zorder")
    assert by_hudi(spark, path, None, COLUMNS) == now
    assert_pruned(spark, path, "id = 'k123'", 1, COLUMNS)
    assert_pruned(spark, path, "n between 2000 and 2030", 2, COLUMNS)

    last = rows(100, 110, 5).append_column("extra", pa.nulls(10, pa.string()))
    told = {"hoodie_metadata_index_column_stats_column_list": "n,s"}
    hudi_writes(spark, path, last.select(COLUMNS), tmp_path, **told)
    now = expected(bumped, NEWER, rows(100, 110, 5), noted=noted)
    lake.sql(f"CREATE TABLE t USING lakedex LOCATION '{path}'")
    found = lake.sql(f"SELECT {', '.join(COLUMNS)} FROM t ORDER BY id").collect()
    assert [tuple(row) for row in found] == now
    report = lakedex.open(path).verify()
    assert report.ok, report.problems[:3]
    lake.sql("DROP INDEX record_index ON t")
    lake.sql("UPDATE t SET extra = 'noted', ver = ver + 1 WHERE id = 'k105'")
    lake.sql("DROP TABLE t")
    assert by_hudi(spark, path, "extra = 'noted'", ["id"]) == [
        (key,) for key in sorted(noted | {"k105"})
    ]


def test_hudi_reads_a_table_made_of_a_query(spark, lake, tmp_path):
    path = str(tmp_path / "t")
    view(lake, tmp_path, "first", FIRST)
    lake.sql(
        f"CREATE TABLE t USING lakedex PARTITIONED BY (p) TBLPROPERTIES ({properties('mor')}) "
        f"LOCATION '{path}' AS SELECT * FROM first"
    )
    lake.sql("UPDATE t SET s = 'changed', ver = 9 WHERE id = 'k007'")
    lake.sql("DROP TABLE t")
    changed = by_hudi(spark, path, "s = 'changed'", ["id", "ver", "p"])
    assert changed == [("k007", 9, "p3")]
    assert by_hudi(spark, path, None, ["id"]) == [(key,) for key in FIRST["id"].to_pylist()]
    assert by_hudi(spark, path) == by_lakedex(path)
