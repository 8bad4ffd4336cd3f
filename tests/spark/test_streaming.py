"""Streams from tables and into them: no row lost, none twice, also after a restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import udf

import lakedex
from lakedex.errors import InvalidInput
from tests.spark.conftest import newest_only
from tests.support.aging import clean

COLUMNS = "id string, part string, ver long"
KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.table.name": "copy",
}
Rows = list[tuple[str, int]]


def rows_of(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "part": [f"p{number % 2}" for number in numbers],
            "ver": pa.array([version] * len(numbers), pa.int64()),
        }
    )


@pytest.fixture(params=["cow", "mor"])
def table(lake, request, tmp_path) -> Any:
    """Three commits; in the merge-on-read one some slices have log files and some have not."""
    made = lake.create_table(
        f"source_{request.param}",
        COLUMNS,
        path=tmp_path / "source",
        record_key="id",
        ordering="ver",
        partition_by="part",
        table_type=request.param,
    )
    made.bulk_insert(rows_of(range(6), 1))
    made.upsert(rows_of(range(0, 4, 2), 2))
    made.upsert(rows_of(range(6, 8), 3))
    return made


@pytest.fixture
def cow(lake, tmp_path) -> Any:
    made = lake.create_table(
        "source_of_sinks", COLUMNS, path=tmp_path / "source", record_key="id", ordering="ver"
    )
    made.bulk_insert(rows_of(range(4), 1))
    return made


def run(frame: Any, folder: Path) -> list[Rows]:
    """The rows of the batches that there are now, of a query with a checkpoint."""
    seen: list[Rows] = []

    def take(rows: Any, number: int) -> None:
        found = sorted((row["id"], row["ver"]) for row in rows.select("id", "ver").collect())
        seen.append(found)

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination()
    return seen


def started(writer: Any, folder: Path) -> None:
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()


FIRST = [("k0", 1), ("k1", 1), ("k2", 1), ("k3", 1), ("k4", 1), ("k5", 1)]
ALL = [("k0", 2), ("k1", 1), ("k2", 2), ("k3", 1), ("k4", 1), ("k5", 1), ("k6", 3), ("k7", 3)]


def test_every_commit_is_in_one_batch_across_restarts(spark, table, tmp_path):
    reader = spark.readStream.format("hudi").option("maxCommitsPerTrigger", "1")
    stream = reader.load(table.path)
    assert run(stream, tmp_path / "a") == [FIRST, [("k0", 2), ("k2", 2)], [("k6", 3), ("k7", 3)]]
    assert run(stream, tmp_path / "a") == []
    table.upsert(rows_of(range(1, 3), 4))
    table.delete("id = 'k5'")
    found = run(spark.readStream.table(table.name), tmp_path / "b")
    left = dict(ALL) | {"k1": 4, "k2": 4}
    del left["k5"]
    assert found == [sorted(left.items())]
    # Rows that are gone leave no trace; a commit without rows is an empty batch.
    assert run(reader.load(table.path), tmp_path / "a") == [[("k1", 4), ("k2", 4)], []]


def test_a_batch_whose_end_was_not_noted_is_read_again(table, tmp_path):
    assert run(table.to_stream({"maxCommitsPerTrigger": "1"}), tmp_path / "a")[0] == FIRST
    (tmp_path / "a" / "commits" / "2").unlink()
    (tmp_path / "a" / "commits" / ".2.crc").unlink(missing_ok=True)
    table.upsert(rows_of(range(6, 7), 4))
    assert run(table.to_stream(), tmp_path / "a") == [[("k6", 3), ("k7", 3)], [("k6", 4)]]


@newest_only
def test_filters_and_joins_with_the_table_itself(spark, table, tmp_path):
    now = spark.read.format("hudi").load(table.path).select("id", "part")
    stream = table.to_stream().filter("part = 'p0'").drop("part").join(now, "id")
    assert run(stream, tmp_path / "a") == [[row for row in ALL if int(row[0][1:]) % 2 == 0]]


@newest_only
def test_latest_and_instants_as_start(spark, cow, tmp_path):
    latest = cow.to_stream({"hoodie.datasource.streaming.startOffset": "latest"})
    assert run(latest, tmp_path / "a") == [[]]
    cow.insert(rows_of(range(4, 5), 2))
    assert run(latest, tmp_path / "a") == [[("k4", 2)]]
    first = lakedex.open(cow.path).timeline.write_instants()[0].completion_time
    reader = spark.readStream.format("lakedex")
    reader = reader.option("hoodie.datasource.read.begin.instanttime", first)
    assert run(reader.load(cow.path), tmp_path / "b") == [[("k4", 2)]]


def test_a_start_that_was_cleaned_away_fails_clearly(spark, cow, tmp_path):
    run(cow.to_stream(), tmp_path / "a")
    for version in (2, 3):
        cow.upsert(rows_of(range(2), version))
    clean(cow.path)
    with pytest.raises(Exception, match=r"table source_of_sinks at .*were cleaned"):
        run(cow.to_stream(), tmp_path / "a")
    fallback = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    assert run(cow.to_stream(fallback), tmp_path / "a") == [[("k0", 3), ("k1", 3)]]


def test_a_sink_makes_the_table_and_writes_batches_once(lake, spark, cow, tmp_path):
    target = str(tmp_path / "copy")
    insert = {**KEYS, "hoodie.datasource.write.operation": "insert"}
    del insert["hoodie.datasource.write.partitionpath.field"]

    def go() -> None:
        stream = cow.to_stream({"maxCommitsPerTrigger": "1"})
        writer = stream.writeStream.format("hudi").partitionBy("part")
        started(writer.options(path=target, **insert), tmp_path / "a")

    cow.insert(rows_of(range(4, 6), 2))
    go()
    expected = [("k0", 1), ("k1", 1), ("k2", 1), ("k3", 1), ("k4", 2), ("k5", 2)]
    assert held(target) == expected
    assert lakedex.open(target).snapshot.config.partition_fields == ("part",)
    # The table has the batch, the checkpoint does not know.
    for name in ("1", ".1.crc"):
        (tmp_path / "a" / "commits" / name).unlink(missing_ok=True)
    cow.insert(rows_of(range(6, 7), 2))
    go()
    assert held(target) == [*expected, ("k6", 2)]
    assert lakedex.open(target).verify().ok


def held(path: str) -> Rows:
    """With duplicates, if there are any."""
    table = lakedex.open(path).to_arrow(columns=["id", "ver"])
    return sorted((row["id"], row["ver"]) for row in table.to_pylist())


def test_foreach_batch_upserts_once(lake, cow, tmp_path):
    target = lake.create_table(
        "target", COLUMNS, path=tmp_path / "target", record_key="id", ordering="ver"
    )
    writer = cow.to_stream().writeStream.foreachBatch(target.upsert_batch)
    started(writer, tmp_path / "a")
    before = lakedex.open(target.path).timeline.instants
    for name in ("0", ".0.crc"):
        (tmp_path / "a" / "commits" / name).unlink(missing_ok=True)
    started(writer, tmp_path / "a")
    assert lakedex.open(target.path).timeline.instants == before
    cow.upsert(rows_of(range(3, 5), 2))
    started(writer, tmp_path / "a")
    assert held(target.path) == [("k0", 1), ("k1", 1), ("k2", 1), ("k3", 2), ("k4", 2)]
    with pytest.raises(InvalidInput, match="foreachBatch"):
        target.upsert_batch(cow.to_df(), 0)


def test_a_sink_by_its_name(lake, cow, tmp_path):
    target = lake.create_table(
        "named_sink", COLUMNS, path=tmp_path / "target", record_key="id", ordering="ver"
    )
    writer = cow.to_stream().writeStream.format("hudi").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "a"))
    writer.toTable("named_sink").awaitTermination()
    assert held(target.path) == held(cow.path)


@newest_only
def test_a_complete_answer_replaces_the_one_before(cow, tmp_path):
    target = str(tmp_path / "counts")
    options = {"hoodie.datasource.write.recordkey.field": "part"}
    counts = cow.to_stream().groupBy("part").count()
    writer = counts.writeStream.format("lakedex").outputMode("complete")
    writer = writer.options(path=target, **options)
    started(writer, tmp_path / "a")
    cow.insert(rows_of(range(4, 7), 2))
    started(writer, tmp_path / "a")
    found = lakedex.open(target).to_arrow(columns=["part", "count"]).to_pylist()
    assert sorted((row["part"], row["count"]) for row in found) == [("p0", 4), ("p1", 3)]


@newest_only
def test_wrong_options_are_named(cow, tmp_path):
    with pytest.raises(Exception, match="maxCommitsPerTrigger is a whole number"):
        run(cow.to_stream({"maxCommitsPerTrigger": "none"}), tmp_path / "a")
    changes = {"hoodie.datasource.query.type": "incremental"}
    assert run(cow.to_stream(changes), tmp_path / "b"), "a stream is incremental anyway"
    changes["hoodie.datasource.query.incremental.format"] = "cdc"
    with pytest.raises(Exception, match="cdc=True"):
        run(cow.to_stream(changes), tmp_path / "c")


@pytest.mark.parametrize("way", ["sink", "foreach_batch"])
def test_a_stream_stopped_in_mid_batch_ends_without_an_error(lake, spark, cow, tmp_path, way):
    @udf("bigint", useArrow=False)
    def slowly(number: int) -> int:
        time.sleep(60)
        return number

    rows = cow.to_stream().withColumn("ver", slowly("ver"))
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "marks"))
    if way == "sink":
        query = writer.format("hudi").options(**KEYS).start(str(tmp_path / "copy"))
    else:
        query = writer.foreachBatch(cow.upsert_batch).start()
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 60
    while not tracker.getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.1)
    query.stop()
    assert query.exception() is None
    assert cow.to_df().count() == 4
    assert not cow.snapshot.timeline.pending()
