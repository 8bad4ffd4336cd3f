"""Thousands of schedules of writers on one store, each from a seed: nothing is ever lost.

`make simulate SCHEDULES=100000` runs more of them, `LAKEDEX_SEED=4711` replays one and tells it
all.
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
from tests.simulation.schedule import Broken, run_schedule
from tests.support.turns import turn

ROOT = Path(__file__).parent.parent.parent
SCHEDULES = int(os.environ.get("LAKEDEX_SCHEDULES", "500"))
PARTS = 5
TURNS = 100
PATIENCE = 400
"""Schedules within which a planted bug has to be found."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # Thousands of writers die here, and each successor would tell of it.
    log = logging.getLogger("lakedex")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_leaves_the_completed_writes_and_nothing_else(part):
    # In a process of its own: measuring what is covered would take longer than all schedules do.
    # Other schedules with every commit.
    first = turn(TURNS) * SCHEDULES
    seeds = [str(first + each * SCHEDULES // PARTS) for each in (part, part + 1)]
    command = [sys.executable, "-m", "tests.simulation", *seeds]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_says_everything():
    seeds = range(20)
    first = [run_schedule(seed).trace for seed in seeds]
    assert [run_schedule(seed).trace for seed in seeds] == first
    assert len({tuple(trace) for trace in first}) == len(first)


def test_schedules_are_full_of_trouble():
    told = "\n".join(line for seed in range(60) for line in run_schedule(seed).trace)
    for trouble in (
        "is killed before",
        "is killed after",
        "the request is lost",
        "the answer is lost",
        "is sent twice",
        "stands still",
        "conflict: ",
        "a late attempt ends",
    ):
        assert trouble in told


@pytest.mark.parametrize(
    "bug",
    [
        planted.lost_marker,
        planted.unfenced_lock,
        planted.completion_before_the_metadata_commit,
    ],
)
def test_planted_bugs_are_found(bug):
    def look() -> None:
        for seed in range(PATIENCE):
            run_schedule(seed)

    with bug(), pytest.raises(Broken, match=r"^seed \d+: "):
        look()


@pytest.mark.skipif("LAKEDEX_SEED" not in os.environ, reason="no seed was given to replay")
def test_replay_of_a_seed():
    world = run_schedule(int(os.environ["LAKEDEX_SEED"]))
    print("\n".join(world.trace))
