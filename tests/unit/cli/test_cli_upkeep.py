"""`lakedex clean`, `archive`, `savepoint`, `rollback`, `restore`, each on a small table."""

from __future__ import annotations

import json

import pytest

from tests.support.upkeep_lab import BY_HAND, Past
from tests.support.write_lab import Lab


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("cli"), "cow", **BY_HAND)
    past = Past(lab)
    for number in range(4):
        past.upsert([0, 1, number], number)
    return past


@pytest.fixture
def table(made, tmp_path):
    return made.copied(tmp_path / "t")


def test_clean_and_archive_tell_what_they_did(table, lakedex):
    option = "hoodie.clean.commits.retained=1"
    done = lakedex("clean", table.path, "--option", option, "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["earliest_retained"]) == (0, table.times[-1])
    assert answer["files"] > 0
    again = lakedex("clean", table.path, "--option", option)
    assert (again.exit_code, again.stdout) == (0, "there was nothing to clean\n")
    archived = lakedex("archive", table.path, "--json")
    assert json.loads(archived.stdout) == {"instants": 0, "metadata_instants": 0}
    table.holds()


def test_a_savepoint_is_made_listed_restored_to_and_deleted(table, lakedex):
    saved = table.times[1]
    made = lakedex("savepoint", table.path, saved, "--user", "me", "--json")
    assert [each["instant"] for each in json.loads(made.stdout)["savepoints"]] == [saved]
    assert saved in lakedex("savepoint", table.path, "--list").stdout
    done = lakedex("restore", table.path, saved, "--json")
    assert json.loads(done.stdout)["undone"] == table.times[:1:-1]
    table.holds(saved)
    gone = lakedex("savepoint", table.path, saved, "--delete")
    assert (gone.exit_code, gone.stdout) == (0, "there are no savepoints\n")


def test_the_newest_commit_is_rolled_back_and_another_is_refused(table, lakedex):
    refused = lakedex("rollback", table.path, table.times[0])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "was committed after" in refused.stderr
    done = lakedex("rollback", table.path, table.times[-1])
    assert done.exit_code == 0
    assert done.stdout.endswith("was rolled back\n")
    table.holds(table.times[-2])


def test_wrong_calls_are_one_line(table, lakedex):
    for arguments in (
        ("clean", table.path, "--option", "hoodie.clean.commits.retained"),
        ("savepoint", table.path, "--delete"),
        ("restore", table.path, "2020"),
    ):
        result = lakedex(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert result.stderr.startswith("lakedex: ")
