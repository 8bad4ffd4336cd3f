"""`df.write.format("hudi")` with Hudi's options and modes."""

from __future__ import annotations

from typing import Any

import pytest

import lakedex

OPTIONS = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.upsert.shuffle.parallelism": "2",
}


def rides(spark: Any, count: int, version: int) -> Any:
    return spark.range(count).selectExpr(
        "concat('k', id) AS id", "concat('p', id % 3) AS part", f"{version}L AS ver"
    )


def write(frame: Any, path: str, mode: str, **options: str) -> None:
    spelled = {name.replace("__", "."): value for name, value in options.items()}
    frame.write.format("hudi").options(**{**OPTIONS, **spelled}).mode(mode).save(path)


def versions(lake: Any, path: str) -> dict[str, int]:
    rows = lake.spark.read.format("hudi").load(path).collect()
    return {row["id"]: row["ver"] for row in rows}


def test_append_makes_the_table_and_upserts(lake, tmp_path):
    path = str(tmp_path / "rides")
    write(rides(lake.spark, 9, 1), path, "append")
    write(rides(lake.spark, 4, 2), path, "append")
    assert versions(lake, path) == {f"k{n}": 2 if n < 4 else 1 for n in range(9)}
    table = lakedex.open(path)
    assert {each.partition for each in table.files()} == {"p0", "p1", "p2"}
    assert table.verify().ok


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_operations_that_add(lake, tmp_path, operation):
    path = str(tmp_path / "rides")
    write(rides(lake.spark, 3, 1), path, "append")
    write(rides(lake.spark, 3, 2), path, "append", hoodie__datasource__write__operation=operation)
    assert lake.spark.read.format("hudi").load(path).count() == 6


def test_delete(lake, tmp_path):
    path = str(tmp_path / "rides")
    write(rides(lake.spark, 5, 1), path, "append")
    write(rides(lake.spark, 2, 1), path, "append", hoodie__datasource__write__operation="delete")
    assert set(versions(lake, path)) == {"k2", "k3", "k4"}


def test_partitions_are_deleted_by_name_pattern_or_rows(lake, tmp_path):
    path = str(tmp_path / "rides")
    write(rides(lake.spark, 6, 1), path, "append")
    delete = {"hoodie__datasource__write__operation": "delete_partition"}
    write(rides(lake.spark, 1, 1), path, "append", **delete)
    assert set(versions(lake, path)) == {"k1", "k2", "k4", "k5"}
    named = {"hoodie__datasource__write__partitions__to__delete": "p1*"}
    write(rides(lake.spark, 1, 1), path, "append", **delete, **named)
    assert set(versions(lake, path)) == {"k2", "k5"}


def test_modes(lake, tmp_path):
    path = str(tmp_path / "rides")
    write(rides(lake.spark, 5, 1), path, "overwrite")
    write(rides(lake.spark, 1, 9), path, "ignore")
    with pytest.raises(Exception, match="append"):
        write(rides(lake.spark, 1, 9), path, "errorifexists")
    assert versions(lake, path) == dict.fromkeys(["k0", "k1", "k2", "k3", "k4"], 1)
    # The rows come from the table that they replace.
    write(lake.spark.read.format("hudi").load(path).filter("id = 'k3'"), path, "overwrite")
    assert versions(lake, path) == {"k3": 1}
    with pytest.raises(Exception, match="to make another one in its place"):
        write(rides(lake.spark, 1, 9).selectExpr("id", "part", "'a' AS ver"), path, "overwrite")
    assert versions(lake, path) == {"k3": 1}


def test_partition_by_of_the_writer(lake, tmp_path):
    path = str(tmp_path / "rides")
    # Key, ordering and type by the names that SQL has for them, and earlier releases had.
    options = {"primaryKey": "id", "preCombineField": "ver"}
    options["hoodie.datasource.write.table.name"] = "other"
    older = {"hoodie.datasource.write.storage.type": "MERGE_ON_READ"}
    for version, more in enumerate(({"type": "mor"}, older), 1):
        writer = rides(lake.spark, 6, version).write.format("hudi").options(**options, **more)
        writer.partitionBy("part").mode("append").save(path)
    assert lake.table(path).name == "other"
    assert {each.partition for each in lakedex.open(path).files()} == {"p0", "p1", "p2"}
    assert set(versions(lake, path).values()) == {2}
    assert lake.table(path).properties["hoodie.table.type"] == "MERGE_ON_READ"
    with pytest.raises(Exception, match=r"partitionBy\(ver\) contradicts table other"):
        rides(lake.spark, 6, 3).write.format("hudi").partitionBy("ver").mode("append").save(path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"hoodie.datasource.write.operation": "merge"}, "merge"),
        ({"hoodie.no.such.option": "1"}, "hoodie.no.such.option"),
        ({"hoodie.datasource.write.recordkey.field": "part"}, "part"),
    ],
)
def test_wrong_options_leave_the_table_as_it_was(lake, tmp_path, options, match):
    path = str(tmp_path / "rides")
    write(rides(lake.spark, 3, 1), path, "append")
    before = lakedex.open(path).timeline.completed()
    with pytest.raises(Exception, match=match):
        rides(lake.spark, 3, 2).write.format("hudi").options(**{**OPTIONS, **options}).mode(
            "append"
        ).save(path)
    assert lakedex.open(path).timeline.completed() == before


def test_a_new_table_without_a_key_gets_keys_of_its_own(lake, tmp_path):
    path = str(tmp_path / "t")
    for _ in range(2):
        rides(lake.spark, 3, 1).write.format("hudi").mode("append").save(path)
    keys = lakedex.open(path).to_arrow(columns=["_hoodie_record_key"])[0].to_pylist()
    assert len(keys) == len(set(keys)) == 6
