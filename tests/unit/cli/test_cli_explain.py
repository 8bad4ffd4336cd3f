"""`lakedex explain`: the report, its bottom line, and errors that point into the predicate."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def trips(golden):
    return golden("cow_trips_all_indexes").path


def test_the_report_is_printed_with_its_bottom_line(trips, lakedex):
    result = lakedex("explain", trips, "uuid = 'k0003'")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "reads 1 of 3 file slices (5.9 kB of 17.9 kB)"
    assert "1 keys asked, 1 file groups hold them" in result.stdout
    assert "the predicate does not name a partition column (state)" in result.stdout


def test_json_has_every_step_and_the_files_that_are_left(trips, lakedex):
    answer = json.loads(lakedex("explain", trips, "city = 'a$b'", "--json").stdout)
    assert (answer["total"], answer["left"], answer["total_bytes"]) == (3, 1, 17911)
    used = {step["index"]: step for step in answer["steps"] if step["used"]}
    assert (used["secondary_index_idx_city"]["before"], answer["left"]) == (3, 1)
    assert len(answer["files"]) == 1
    printed = lakedex("explain", trips, "city = 'a$b'", "--files").stdout
    assert answer["files"][0]["base"] in printed


def test_an_index_can_be_left_out(trips, lakedex):
    without = ["--without", "secondary_index", "--without", "column_stats"]
    answer = json.loads(lakedex("explain", trips, "city = 'a$b'", *without, "--json").stdout)
    reasons = {step["index"]: step["reason"] for step in answer["steps"]}
    assert reasons["secondary_index_idx_city"] == "switched off by the caller"
    assert reasons["column_stats"] == "switched off by the caller"
    answer = json.loads(
        lakedex("explain", trips, "city = 'a$b'", "--without", "all", "--json").stdout
    )
    assert answer["left"] == answer["total"] == 3


@pytest.mark.parametrize(
    ("predicate", "caret"),
    [("uuid = 'a' and and", 15), ("x =", 3), ("city = '東京' and 3 +* 4", 21)],
)
def test_a_predicate_that_cannot_be_parsed_is_one_message_with_a_caret(
    trips, lakedex, predicate, caret
):
    result = lakedex("explain", trips, predicate)
    assert (result.exit_code, result.stdout) == (2, "")
    message, text, mark = result.stderr.splitlines()
    assert message.startswith("lakedex: ")
    assert "at character" not in message
    assert text == f"  {predicate}"
    assert mark == " " * (2 + caret) + "^"


def test_the_caret_stays_near_in_a_long_predicate(trips, lakedex):
    predicate = " or ".join(f"fare = {number}" for number in range(200)) + " or or"
    _, text, mark = lakedex("explain", trips, predicate).stderr.splitlines()
    assert len(text) < 130
    assert text[mark.index("^") :] == "or"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such_column = 1"], "no column no_such_column"),
        (["uuid = 'a'", "--time-zone", "Mars/Base"], "no time zone 'Mars/Base'"),
        (["uuid = 'a'", "--as-of", "yesterday"], "'yesterday' is not a time"),
    ],
)
def test_other_wrong_questions_are_one_line(trips, lakedex, arguments, words):
    result = lakedex("explain", trips, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_an_assumed_index_is_shown_and_marked(trips, lakedex):
    asked = ["explain", trips, "rider = 'rider-0'", "--assuming", "rider", "--without", "all"]
    answer = json.loads(lakedex(*asked, "--json").stdout)
    (step,) = [each for each in answer["steps"] if each["assumed"]]
    assert (step["before"], step["after"]) == (answer["total"], answer["expected"])
    printed = lakedex(*asked).stdout
    assert "secondary index on rider (assumed)" in printed
    last = f"with the assumed indexes it would read {answer['expected']} of {answer['total']}"
    assert printed.splitlines()[-1] == last
    wrong = lakedex("explain", trips, "rider = 'x'", "--assuming", "nothing")
    assert wrong.exit_code == 2
    assert "no column 'nothing' to assume an index on" in wrong.stderr
