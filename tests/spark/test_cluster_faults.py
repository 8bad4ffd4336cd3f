"""Writes on two executors that die, hang and come back, and under a driver that is small."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakedex
from lakedex.storage import open_storage
from lakedex.storage.paths import TEMP_PREFIX
from lakedex.timeline import Timeline, load_table_config
from tests.spark.conftest import FOLDER, ROOT

PARTITION_FILE = ".hoodie_partition_metadata"
BASE_FILE = re.compile(r"(.+)_[^_]+_([0-9]+)\.parquet")
KINDS = ("cow", "mor")
PATIENCE_S = 600
"""Far more than the programs take on a machine that has nothing else to do."""


def run(program: str, folder: Path, executor_python: str, *, seconds: float) -> dict:
    """Run a program of this folder to its end; what it told. Nothing of it outlives this."""
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / program), str(folder), executor_python],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, errors[-4000:]
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def faults(tmp_path_factory, executor_python) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("faults")
    return folder, run("fault_program.py", folder, executor_python, seconds=PATIENCE_S)


def test_a_write_survives_the_death_of_an_executor(faults):
    told = faults[1]["cow"]["killed"]
    assert told["attempts"] >= 2
    assert (told["goes on"], told["end"], told["left"]) == (False, None, [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_speculative_attempt_takes_over(faults, kind):
    told = faults[1][kind]["speculated"]
    assert told["attempts"] >= 2
    # Spark kills the loser, but not at once.
    assert told["end"] in {None, "CommitConflict"}
    assert told["left"] == []


def test_an_attempt_that_goes_on_after_the_commit_leaves_nothing(faults):
    told = faults[1]["mor"]["zombie"]
    assert told["attempts"] >= 2
    assert (told["goes on"], told["end"], told["left"]) == (True, "CommitConflict", [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_tasks_that_run_again_after_the_end_leave_the_table_alone(faults, kind, end):
    told = faults[1][kind]
    assert told["refused"] == "refused by the test"
    assert told[f"again after the {end}"] == {
        "ends": ["CommitConflict"],
        "is as before": True,
        "left": [],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_indexes_are_right_after_all_of_it(faults, kind):
    folder, told = faults
    # The writes of the program, in their order.
    expected = dict.fromkeys(range(2400), 1)
    expected |= dict.fromkeys(range(1200, 3600), 2)
    expected |= dict.fromkeys(range(300), 7)
    assert told[kind]["rows"] == len(expected)
    assert told[kind]["problems"] == []
    rows = lakedex.open(folder / kind).to_arrow(columns=["id", "city", "v"]).to_pylist()
    found = {int(row["id"]): row["v"] for row in rows}
    assert (len(rows), found) == (len(expected), expected)
    assert all(row["city"] == f"c{int(row['id']) % 12}" for row in rows)


@pytest.mark.parametrize("inside", ["", ".hoodie/metadata"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_file_belongs_to_a_completed_commit(faults, kind, inside):
    path = faults[0] / kind / inside
    storage = open_storage(str(path), {})
    timeline = Timeline.load(storage, load_table_config(storage))
    assert timeline.pending() == ()
    named = {
        str(Path(stat.path).parent / name)
        for instant in timeline.write_instants()
        for stat in timeline.commit_metadata(instant).stats()
        for name in (Path(stat.path).name, *(stat.log_files or ()))
    }
    found = {
        str(file.relative_to(path))
        for file in path.rglob("*")
        if file.is_file() and ".hoodie" not in file.relative_to(path).parts
    }
    data = {name for name in found if Path(name).name != PARTITION_FILE}
    assert data == named
    assert not list(path.rglob(f"{TEMP_PREFIX}*"))


def test_a_plain_listing_counts_the_rows(faults):
    """What Hudi does without a metadata table: names of files, and instants that completed."""
    path = faults[0] / "cow"
    completed = {
        file.name.partition("_")[0]
        for file in (path / ".hoodie" / "timeline").glob("*.commit")
        if "_" in file.name
    }
    newest: dict[str, tuple[str, Path]] = {}
    for file in path.glob("*/*.parquet"):
        group, instant = BASE_FILE.fullmatch(file.name).groups()
        if instant in completed:
            newest[group] = max(newest.get(group, ("", file)), (instant, file))
    assert sum(pq.read_metadata(file).num_rows for _, file in newest.values()) == 3600


def test_the_driver_may_be_smaller_than_the_data(tmp_path, executor_python):
    told = run("heap_program.py", tmp_path, executor_python, seconds=PATIENCE_S)
    assert told["bytes"] > 600 << 20
    assert told["heap"] < told["bytes"] / 2
    assert told["grown"] < told["bytes"] / 10
    assert told["found"] == told["expected"]
