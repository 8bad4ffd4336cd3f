"""Schedules of bucket tables that are resized, written and read at once: nothing is ever lost.

`make simulate SCHEDULES=20000` runs more of them, `LAKEDEX_BUCKET_SEED=4711` replays one and tells
it all.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation import planted
from tests.simulation.bucket_schedule import run_bucket_schedule
from tests.simulation.schedule import Broken
from tests.support.turns import turn

ROOT = Path(__file__).parent.parent.parent
SCHEDULES = int(os.environ.get("LAKEDEX_SCHEDULES", "30"))
PARTS = 2
TURNS = 100
PATIENCE = 150
"""Schedules within which a planted fault has to be found."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # Many writers die here, and each successor would tell of it.
    log = logging.getLogger("lakedex")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_leaves_each_key_in_its_bucket_and_no_write_lost(part):
    # In a process of its own: measuring what is covered would take longer than all schedules do.
    # Other schedules with every commit.
    first = turn(TURNS) * SCHEDULES
    seeds = [str(first + each * SCHEDULES // PARTS) for each in (part, part + 1)]
    command = [sys.executable, "-m", "tests.simulation", "buckets", *seeds]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_says_everything_of_a_bucket_table():
    seeds = range(6)
    first = [run_bucket_schedule(seed).trace for seed in seeds]
    assert [run_bucket_schedule(seed).trace for seed in seeds] == first
    assert len({tuple(trace) for trace in first}) == len(first)


def test_schedules_of_bucket_tables_are_full_of_trouble():
    told = "\n".join(line for seed in range(25) for line in run_bucket_schedule(seed).trace)
    for trouble in (
        "has resized",
        "has rescaled",
        "writes to old and new buckets",
        "is killed",
        "stands still",
        "conflict: ",
        "splits or merges",
        "begins to take_back",
        "begins to compact",
    ):
        assert trouble in told, trouble


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (planted.rows_for_old_buckets_only, "differ|a reader saw"),
        (planted.ring_after_completion, "is no bucket of|not in bucket"),
        (planted.rows_in_any_new_bucket, "not in bucket|a bucket that its hash does not"),
        (planted.old_buckets_that_stay, "in two file groups|is no bucket of"),
    ],
)
def test_planted_faults_of_buckets_are_found(fault, complaint):
    def look() -> None:
        for seed in range(PATIENCE):
            run_bucket_schedule(seed)

    with fault(), pytest.raises(Broken, match=rf"^seed \d+: .*({complaint})"):
        look()


@pytest.mark.skipif("LAKEDEX_BUCKET_SEED" not in os.environ, reason="no seed was given to replay")
def test_replay_of_a_seed_of_a_bucket_table():
    world = run_bucket_schedule(int(os.environ["LAKEDEX_BUCKET_SEED"]))
    print("\n".join(world.trace))
