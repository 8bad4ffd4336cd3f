"""One query, one snapshot: whatever another process commits or a service deletes meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.services.index_dropping import drop_index
from lakedex.spark import pins
from lakedex.spark.read_spec import ReadSpec
from tests.spark.conftest import ROOT, newest_only
from tests.support.aging import clean
from tests.support.secondary import Trips

PARTS = 4
ROWS = 40
COMMITS = 20
COLUMNS = "id string, part string, ver long"

# Every commit gives all rows a new version, so any snapshot has one version only.
PROGRAM = """
import sys
import pyarrow as pa
from lakedex.engine import LocalEngine
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

path, kind, rows, parts, commits = *sys.argv[1:3], *map(int, sys.argv[3:])
# Ten commits take less time than a query on a busy machine: nothing is cleaned.
options = {"hoodie.clean.automatic": "false"}
writer = TableWriter(StorageAddress.of(path), LocalEngine(1), options)
for version in range(2, commits + 2):
    table = pa.table({
        "id": [f"k{n}" for n in range(rows)],
        "part": [f"p{n % parts}" for n in range(rows)],
        "ver": pa.array([version] * rows, pa.int64()),
    })
    writer.upsert(ArrowRowSource(table))
    if version == commits // 2:
        cluster_table(writer, ["id"], "linear")
    if version in (commits // 4, commits) and kind == "mor":
        compact_table(writer)
    print(version, flush=True)
"""


def rows(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "part": [f"p{number % PARTS}" for number in numbers],
            "ver": pa.array([version] * len(numbers), pa.int64()),
        }
    )


def make(lake: Any, path: Path, kind: str) -> Any:
    made = lake.create_table(
        "watched",
        COLUMNS,
        path=path / "watched",
        record_key="id",
        ordering="ver",
        partition_by="part",
        table_type=kind,
    )
    made.bulk_insert(rows(range(ROWS), 1))
    return made


@newest_only
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_self_join_agrees_while_another_process_commits(lake, spark, tmp_path, kind):
    table = make(lake, tmp_path, kind)
    query = (
        "SELECT count(*) AS n, min(a.ver) AS low, max(b.ver) AS high, "
        "(SELECT max(ver) FROM watched) AS newest FROM watched a JOIN watched b USING (id)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [table.path, kind, str(ROWS), str(PARTS), str(COMMITS)]
    seen = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], env=environment, stdout=subprocess.PIPE
    ) as writer:
        while not seen or writer.poll() is None:
            row = spark.sql(query).first()
            assert (row["n"], row["low"]) == (ROWS, row["high"])
            assert row["newest"] == row["high"]
            seen.append(row["newest"])
    assert writer.returncode == 0
    assert spark.sql(query).first()["newest"] == COMMITS + 1
    assert seen == sorted(seen)
    actions = [each.action.value for each in lakedex.open(table.path).timeline.write_instants()]
    compactions = actions.count("commit") if kind == "mor" else 0
    assert (len(actions) - compactions, actions.count("replacecommit")) == (COMMITS + 2, 1)
    assert compactions == (2 if kind == "mor" else 0)


@pytest.fixture
def _old_pins(monkeypatch) -> None:
    """Let every pin count as one of long ago."""
    monkeypatch.setattr(pins, "FRESH_S", 0.0)


@pytest.mark.usefixtures("_old_pins")
def test_a_plan_whose_files_were_cleaned_says_so(lake, spark, tmp_path):
    table = make(lake, tmp_path, "cow")
    whole, part = table.to_df(), table.to_df().filter("part = 'p3'")
    assert (len(whole.collect()), len(part.collect())) == (ROWS, ROWS // PARTS)
    table.upsert(rows(range(3), 2))
    assert {row["ver"] for row in whole.collect()} == {1}
    clean(table.path)
    message = r"table watched at .* was cleaned since .* DataFrame again"
    with pytest.raises(Exception, match=message):
        whole.collect()
    # What it needs is all there.
    assert {row["ver"] for row in part.collect()} == {1}
    assert sorted({row["ver"] for row in table.to_df().collect()}) == [1, 2]


def test_merged_rows_whose_files_were_cleaned_say_so(lake, spark, tmp_path):
    table = make(lake, tmp_path, "mor")
    table.upsert(rows(range(ROWS), 2))
    frame = table.to_df()
    frame._jdf.queryExecution().executedPlan()
    table.cluster("id")
    clean(table.path)
    with pytest.raises(Exception, match=r"table watched at .*cleaned since"):
        frame.collect()
    assert {row["ver"] for row in table.to_df().collect()} == {2}


def test_missing_files_are_never_left_out(lake, spark, tmp_path, setting):
    """A session may ignore missing files of plain folders; rows of a table must not vanish."""
    setting("spark.sql.files.ignoreMissingFiles", "true")
    table = make(lake, tmp_path, "cow")
    frame = table.to_df()
    frame._jdf.queryExecution().executedPlan()
    table.upsert(rows(range(ROWS), 2))
    clean(table.path)
    with pytest.raises(Exception, match=r"(?i)not.?exist|not.?found"):
        frame.collect()


@newest_only
def test_only_what_is_small_is_broadcast(lake, spark, tmp_path, setting):
    table = make(lake, tmp_path, "cow")
    # Old versions of files do not count.
    table.upsert(rows(range(ROWS), 2))
    live = sum(each.size_bytes for each in lakedex.open(table.path).files())
    setting("spark.sql.adaptive.enabled", "false")
    plans = []
    for threshold in (live - 1, live):
        setting("spark.sql.autoBroadcastJoinThreshold", str(threshold))
        both = table.to_df().join(table.to_df(), "_hoodie_record_key")
        plans.append(both._jdf.queryExecution().executedPlan().toString())
    assert ["BroadcastHashJoin" in plan for plan in plans] == [False, True]


def test_a_dropped_index_is_not_in_the_next_snapshot(tmp_path):
    trips = Trips(tmp_path / "t", "mor")
    trips.writer.insert(trips.rows(("k1", 1, "r1", "oslo")))
    trips.index("rider")
    held, spec = pins.Pins(), ReadSpec(str(trips.path))
    pin = held.newest(spec, trips.address)
    assert held.newest(spec, trips.address) is pin
    drop_index(trips.address, "idx_rider", trips.writer.target().patience)
    found = held.newest(spec, trips.address).snapshot.config.metadata_partitions
    assert "record_index" in found
    assert "secondary_index_idx_rider" not in found


def test_a_snapshot_that_was_given_up_is_not_another_one_when_it_comes_back(tmp_path):
    trips = Trips(tmp_path / "t", "mor")
    for number in range(3):
        trips.writer.insert(trips.rows((f"k{number}", 1, "r1", "oslo")))
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    slow, quick = lakedex.open(trips.path).timeline.write_instants()[1:]
    (ended,) = timeline.glob(f"{slow.requested_time}_*")
    # A write that began first and is not at its end when a query is planned.
    waiting = ended.rename(tmp_path / ended.name)
    spec = ReadSpec(str(trips.path))
    name = pins.Pins().newest(spec, trips.address).name
    again = pins.Pins().find(name, lambda _: trips.address)
    assert again.snapshot.timeline.last_completed == quick
    later = str(int(quick.completion_time) + 1)
    waiting.rename(timeline / ended.name.replace(slow.completion_time, later))
    with pytest.raises(InvalidInput, match=f"{slow.requested_time} was completed since"):
        pins.Pins().find(name, lambda _: trips.address)
    # What came after the snapshot altogether does not show in it.
    newest = pins.Pins().newest(spec, trips.address).name
    trips.writer.insert(trips.rows(("k9", 1, "r1", "oslo")))
    assert pins.Pins().find(newest, lambda _: trips.address).snapshot.timeline.last_completed
