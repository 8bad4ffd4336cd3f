"""Tables that lakedex wrote on a Spark 3.5 whose executors die and hang, counted by real Hudi.

Without its metadata table Hudi lists folders: a file that should not be there is counted.
"""

from __future__ import annotations

import pytest

import lakedex
from tests.spark.faults_run import WRITE, Run, run_with_trouble
from tests.support.executor_python import executor_python_path
from tests.support.plain_listing import strays

ROWS = 9_000
SMALL_ROWS = 30_000
STEPS = ("load", "upsert", "slow", "zombie")
COUNTS = {"load": ROWS, "mor": SMALL_ROWS + 1000, "cow": SMALL_ROWS + 1000}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return run_with_trouble(tmp_path_factory.mktemp("faults"), executor_python_path(), ROWS, *STEPS)


def test_things_went_wrong(run):
    for step in ("load", "upsert"):
        assert "ExecutorLostFailure" in run.reasons(step, WRITE)
        assert run.was_in_the_middle(step)
    assert "Success" in run.speculated("slow", "read the rows")
    assert "Success" in run.speculated("zombie", WRITE)
    assert run.told["zombie"]["was_stopped"]
    assert run.told["zombie"]["came"] == []


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("metadata", ["false", "true"])
def test_hudi_counts_every_row_once(spark, run, name, metadata):
    root = run.folder / name
    frame = spark.read.format("hudi").option("hoodie.metadata.enable", metadata).load(str(root))
    assert frame.count() == COUNTS[name]
    assert frame.select("id").distinct().count() == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_nothing_is_left_over(run, name):
    assert strays(run.folder / name) == []
    report = lakedex.open(run.folder / name).verify()
    assert report.ok, report.problems[:3]
