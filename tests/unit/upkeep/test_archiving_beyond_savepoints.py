"""Archiving that goes past savepoints: what they keep is left behind, readable and safe."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.services.rollback import restore_table
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint
from tests.support.upkeep_lab import Past, make_past, read_by_hudi_rs

FEW = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
}
BEYOND = FEW | {"hoodie.archive.beyond.savepoint": "true"}


def active(path: str) -> list[str]:
    return [each.requested_time for each in lakedex.open(path).timeline.write_instants()]


@pytest.fixture(scope="module", params=["cow", "mor"])
def made(request, tmp_path_factory):
    past = make_past(tmp_path_factory.mktemp(request.param), request.param)
    kept = past.times[2]
    create_savepoint(past.lab.address, kept)
    return past


@pytest.fixture
def past(made: Past, tmp_path) -> Past:
    return made.copied(tmp_path / "copy")


def archived(past: Past, options: dict[str, str] = BEYOND) -> str:
    """The savepoint, after cleaning and archiving."""
    clean_table(past.lab.address, {"hoodie.clean.commits.retained": "1"})
    archive_table(past.lab.address, options)
    return past.times[2]


def test_without_the_option_a_savepoint_stops_archiving(past):
    kept = archived(past, FEW)
    assert active(past.path)[0] == kept
    assert active(past.path) == past.times[2:]


def test_commits_after_a_savepoint_go_and_what_it_keeps_stays(past):
    kept = archived(past)
    left = active(past.path)
    assert left[0] == kept
    assert 0 < len(left) < len(past.times) - 2
    assert left[1:] == past.times[-len(left) + 1 :]
    assert past.as_of(kept) == past.states[kept]
    past.holds()
    assert read_by_hudi_rs(past.path) == past.states[past.times[-1]]
    timeline = lakedex.open(past.path).timeline
    assert [each.requested_time for each in timeline.between(None)] == past.times
    past.upsert([1, 2, 30], 77)
    past.holds()
    assert past.as_of(kept) == past.states[kept]


def test_a_restore_past_archived_commits_is_refused(past):
    kept = archived(past)
    with pytest.raises(InvalidInput, match=r"is archived .*cannot be undone"):
        restore_table(past.lab.address, kept)
    past.holds()


def test_deleting_the_savepoint_leaves_no_commit_that_seems_uncommitted(past):
    kept = archived(past)
    delete_savepoint(past.lab.address, kept)
    assert kept not in active(past.path)
    past.holds()
    assert read_by_hudi_rs(past.path) == past.states[past.times[-1]]
    clean_table(past.lab.address, {"hoodie.clean.commits.retained": "1"})
    past.upsert([3, 31], 78)
    past.holds()
    timeline = lakedex.open(past.path).timeline
    assert [each.requested_time for each in timeline.between(None)] == past.times


def test_a_savepoint_that_nothing_was_archived_beyond_is_only_deleted(past):
    kept = archived(past, FEW)
    delete_savepoint(past.lab.address, kept)
    assert active(past.path)[0] == kept
    past.holds()
