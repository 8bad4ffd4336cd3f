"""Tables with one damaged file, folder or instant below `.hoodie`: right rows, or a named error.

`LAKEDEX_FUZZ_DAMAGES` asks for more cases than those of a normal run, over more tables, and
`LAKEDEX_FUZZ_SEED` for others. A case that fails prints what it damaged, with its seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.table_damage import (
    GOLDEN,
    TABLES,
    Case,
    Subject,
    golden_tables,
    judge,
    make_tables,
    sample,
)

FEW = 30
CASES = int(os.environ.get("LAKEDEX_FUZZ_DAMAGES", FEW))
SEED = int(os.environ.get("LAKEDEX_FUZZ_SEED", "1"))
OWN = ("cow_replaced", "mor_archived")
"""The tables of a normal run."""


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    root = tmp_path_factory.mktemp("tables")
    is_long = CASES > FEW
    own = make_tables(root, tuple(TABLES) if is_long else OWN)
    return own + golden_tables(root, GOLDEN if is_long else GOLDEN[1:2])


# case B80: lost timeline or newest instant
@pytest.mark.fuzz
def test_a_damaged_table_gives_the_right_rows_or_a_named_error(subjects, tmp_path: Path) -> None:
    faults = []
    for subject, case in sample(subjects, CASES, SEED):
        faults += judge(subject, case, tmp_path)
    print(f"{CASES} cases, {len(faults)} faults")
    assert not faults, "\n".join(faults)


def test_the_judge_sees_fewer_rows(subjects, tmp_path: Path) -> None:
    """What is excused is just what this judge would call wrong."""
    subject = subjects[0]
    timeline = subject.path / ".hoodie/timeline"
    newest = max(timeline.glob("*.commit"))
    case = Case(subject.name, "remove", f".hoodie/timeline/{newest.name}", 3)
    faults = [f for seed in range(4) for f in judge(subject, Case(*_parts(case), seed), tmp_path)]
    assert any("right ones" in fault for fault in faults)


def _parts(case: Case) -> tuple[str, str, str]:
    return case.table, case.damage, case.target
