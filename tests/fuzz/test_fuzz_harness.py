"""The harness itself: what it must notice, and that a case can be made again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.cases import Cases
from tests.fuzz.harness import fuzz
from tests.fuzz.mutators import mutate, varint, zigzag
from tests.fuzz.targets.registry import ROOMS, find_target, share_of, targets_of

BAD_CASE = 4


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("hang", "time:"),
        ("deaf-hang", "silent:"),
        ("memory", "memory:"),
        ("hidden-memory", "memory:"),
        ("wrong-error", "error: IndexError: planted"),
        ("crash", "crash: SIGSEGV"),
        ("outside", "outside: ['/etc/passwd'"),
        ("outside-by-arrow", "outside: ['bait']"),
        ("nameless", "place:"),
    ],
)
def test_a_planted_fault_is_found_and_told_by_its_exact_input(planted, found):
    outcome = fuzz(f"planted-{planted}", seed=1, mutated=6, limit_s=1.0)
    assert outcome.cases == 11
    assert [failure.number for failure in outcome.failures] == [BAD_CASE]
    assert outcome.failures[0].what.startswith(found)
    saved = Path(outcome.failures[0].saved)
    assert saved.read_bytes() == b"!bad"
    saved.unlink()


@pytest.mark.fuzz
def test_a_target_that_refuses_in_the_right_way_has_no_failure():
    assert fuzz("planted-good", seed=1, mutated=6).failures == ()


@pytest.mark.fuzz
@pytest.mark.parametrize("name", ["hfile", "sql"])
def test_the_same_numbers_make_the_same_cases(name):
    one, two = (Cases(find_target(name), 7, 50) for _ in range(2))
    assert [one.input(at) for at in range(len(one) - 50, len(one))] == [
        two.input(at) for at in range(len(two) - 50, len(two))
    ]


def test_every_mutator_takes_empty_bytes():
    for seed in range(300):
        mutate(Random(seed), b"", [b""])


@pytest.mark.parametrize(("number", "encoded"), [(0, b"\0"), (-1, b"\1"), (64, b"\x80\x01")])
def test_numbers_are_written_as_avro_writes_them(number, encoded):
    assert zigzag(number) == encoded
    assert varint(2**63) == b"\x80" * 9 + b"\x01"


@pytest.mark.parametrize("room", ROOMS)
def test_every_target_of_a_room_is_run(room):
    targets = targets_of(room)
    assert tuple(target.name for target in targets) == ROOMS[room]
    assert all(target.share == share_of(target.name) for target in targets)
