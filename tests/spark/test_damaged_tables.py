"""Tables that lost a part of `.hoodie`, read and written in Spark: right rows, or a named error."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.secondary import RECORD_INDEX, Trips

TYPE = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
READS: tuple[dict[str, str], ...] = (
    {},
    {"hoodie.metadata.enable": "false"},
    {"as.of.instant": "2199-01-01"},
    {TYPE: "read_optimized"},
    {TYPE: "incremental", BEGIN: "2020-01-01"},
    {TYPE: "incremental", BEGIN: "2198-01-01"},
)
QUERIES = (
    "SELECT * FROM {name} ORDER BY uuid",
    "SELECT * FROM {name} WHERE uuid = 'k1'",
    "SELECT * FROM {name} WHERE rider = 'r3' ORDER BY uuid",
    "SELECT count(*), min(ts), max(ts) FROM {name}",
    "SELECT DISTINCT city FROM {name}",
    "SELECT * FROM {name} TIMESTAMP AS OF '2199-01-01' ORDER BY uuid",
    "SHOW PARTITIONS {name}",
    "SELECT uuid, rider FROM hudi_query('{path}', 'read_optimized') ORDER BY uuid",
    "SELECT uuid, rider FROM hudi_table_changes('{path}', 'latest_state', 'earliest') ORDER BY 1",
    "SELECT op FROM hudi_table_changes('{path}', 'cdc', 'earliest') ORDER BY op",
    "SELECT File_ID FROM hudi_filesystem_view('{path}')",
)
FEW = 8
OF_TIMELINE = (
    "SELECT * FROM hudi_query_timeline('{path}')",
    "CALL show_commits('{name}')",
    "CALL show_commits_metadata('{name}')",
    "CALL show_commit_extra_metadata(table => '{name}', metadata_key => 'schema')",
    "CALL show_archived_commits('{name}')",
    "CALL stats_wa('{name}')",
    "CALL show_savepoints('{name}')",
    "CALL show_rollbacks('{name}')",
    "CALL show_cleans('{name}')",
    "CALL show_clean_plans('{name}')",
    "CALL show_compaction('{name}')",
    "CALL show_clustering('{name}')",
    "CALL show_timeline(table => '{name}')",
    "CALL show_fsview_all(table => '{name}', path_regex => '*/')",
    "CALL show_fsview_latest(table => '{name}', partition_path => 'city=oslo')",
    "CALL show_metadata_table_partitions('{name}')",
    "CALL show_file_status(table => '{name}', partition => 'city=oslo', file => 'x')",
    "CALL show_invalid_parquet('{path}')",
    "CALL commits_compare(table => '{name}', path => '{path}')",
    "CALL init_metadata_table('{name}')",
)
WRITES = (
    "INSERT INTO {name} VALUES ('k1', 99, 'x', 'oslo')",
    "UPDATE {name} SET rider = 'u' WHERE uuid = 'k1'",
    "DELETE FROM {name} WHERE uuid = 'k1'",
    "INSERT OVERWRITE {name} VALUES ('k1', 99, 'x', 'oslo')",
    "ALTER TABLE {name} ADD COLUMNS (more INT)",
    "CREATE INDEX idx_ts ON {name} (ts)",
    "CALL run_clustering(table => '{name}')",
    "CALL run_clean('{name}')",
)
OF_METADATA = (
    "SELECT * FROM hudi_metadata('{path}')",
    "CALL show_metadata_table_stats('{name}')",
    "CALL show_metadata_table_column_stats('{name}')",
    "CALL validate_metadata_table_files('{name}')",
    "CALL init_metadata_table('{name}')",
)


def make(place: Path, kind: str) -> Trips:
    trips = Trips(place, kind, properties=RECORD_INDEX)
    for number in range(2):
        rows = [(f"k{each}", number, f"r{number}", "oslo") for each in (number, number + 1)]
        trips.writer.upsert(trips.rows(*rows))
    trips.index("rider")
    trips.writer.upsert(trips.rows(("k1", 9, "r3", "oslo"), ("k8", 9, "r3", "rome")))
    return trips


class Door:
    """A copy of a table under a name of the catalog."""

    def __init__(self, spark: Any, table: Trips, name: str) -> None:
        self.spark, self.path, self.name = spark, table.path, name
        spark.sql(f"CREATE TABLE {self.name} USING hudi LOCATION '{self.path}'")

    def sql(self, text: str) -> list[Any]:
        return self.spark.sql(text.format(name=self.name, path=self.path)).collect()

    def read(self, options: dict[str, str]) -> list[Any]:
        loaded = self.spark.read.format("hudi").options(**options).load(self.path)
        return loaded.select("uuid", "ts", "rider").orderBy("uuid").collect()


@pytest.fixture
def door_to(spark, lake) -> Iterator[Callable[[Trips], Door]]:
    made: list[Door] = []

    def name(table: Trips) -> Door:
        made.append(Door(spark, table, f"lost_{len(made)}"))
        return made[-1]

    yield name
    for each in made:
        spark.sql(f"DROP TABLE IF EXISTS {each.name}")


def newest(path: str) -> str:
    files = Path(path, ".hoodie/timeline").glob("[0-9]*")
    return max(file.name.split(".")[0].split("_")[0] for file in files)


# case B80: lost timeline or newest instant
def test_every_way_to_a_lost_instant_or_timeline_names_it(door_to, tmp_path):
    door = door_to(make(tmp_path / "t", "mor"))
    folder = Path(door.path, ".hoodie/timeline")
    lost = newest(door.path)
    stream = door.spark.readStream.format("hudi").load(door.path)

    def run(checkpoint: str) -> list[Any]:
        seen: list[Any] = []
        writer = stream.writeStream.foreachBatch(lambda rows, _: seen.extend(rows.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return seen

    assert len(run("old")) == 4
    for name in (lost, ".hoodie/timeline"):
        if name == lost:
            for file in folder.glob(f"{lost}[._]*"):
                file.unlink()
        else:
            shutil.rmtree(folder)
        for options in READS:
            with pytest.raises(Exception, match=name):
                door.read(options)
        for text in (*QUERIES, *OF_TIMELINE, *WRITES):
            with pytest.raises(Exception, match=name):
                door.sql(text)
        for checkpoint in ("old", f"new{len(name)}"):
            with pytest.raises(Exception, match=name):
                run(checkpoint)
        (plan,) = {row[0] for row in door.sql("EXPLAIN SELECT * FROM {name}")[-1:]}
        assert name in plan
    assert door.sql("CALL show_table_properties('{name}')")


def test_rows_stay_the_same_without_the_metadata_table_or_the_properties(door_to, tmp_path):
    whole = make(tmp_path / "whole", "cow")
    healthy = door_to(whole)
    right = [healthy.read(options) for options in READS]
    told = [healthy.sql(text) for text in QUERIES[:FEW]]
    for lost in ("metadata", "metadata/.hoodie/timeline", "hoodie.properties"):
        door = door_to(whole.copied(tmp_path / lost.replace("/", "_")))
        path = Path(door.path, ".hoodie", lost)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert [door.read(options) for options in READS] == right, lost
        assert [door.sql(text) for text in QUERIES[:FEW]] == told, lost
        for text in (*OF_METADATA, *WRITES[:-1]) if path.suffix == "" else ():
            with pytest.raises(Exception, match=r"\.hoodie/metadata"):
                door.sql(text)
