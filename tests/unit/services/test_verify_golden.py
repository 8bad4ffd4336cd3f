"""Real tables verify clean, but for the one whose index Hudi left stale."""

from __future__ import annotations

import json

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.index.verification.findings import ProblemKind
from tests.support.golden import golden_names

STALE = "two_secondary_mor"


@pytest.mark.parametrize("name", [name for name in golden_names() if name != STALE])
def test_every_index_of_a_real_table_agrees_with_its_data(golden, name):
    table = golden(name)
    report = lakedex.open(table.path).verify()
    assert report.problems == ()
    assert report.ok
    live = table.expected["table_config"]["hoodie.table.metadata.partitions"].split(",")
    beside = ["bucket"] if name.startswith("bucket_") else []
    assert sorted(report.checked) == sorted([*live, *beside])
    expected = {**table.expected["metadata_rows"], "bucket": table.expected["rows"]}
    for index, count in report.checked.items():
        if index != "files":
            assert count == len(expected[index])


def test_a_secondary_index_that_was_not_kept_up_is_found(golden):
    # case B60: second secondary index not maintained
    report = lakedex.open(golden(STALE).path).verify()
    assert not report.ok
    assert {(problem.index, problem.kind, problem.key) for problem in report.problems} == {
        ("secondary_index_idx_rider", ProblemKind.MISSING, "rX$1"),
        ("secondary_index_idx_rider", ProblemKind.STALE, "r1$1"),
        ("secondary_index_idx_rider", ProblemKind.STALE, "r3$3"),
    }


def test_left_over_entries_of_cleaned_files_are_noted_and_no_problem(golden):
    # case B67: cleaning leaves entries
    report = lakedex.open(golden("mor_trips_cleaned").path).verify()
    assert report.ok
    assert report.notes == (
        "column_stats: file groups of another index are in its folder: "
        "expr-index-idx-datestr-0000-0",
        "expr_index_idx_datestr: 20 entries of files that were removed are left; none is used",
    )


def test_an_index_that_is_defined_but_not_live_is_noted(golden):
    # case B63: unregistered statistics
    report = lakedex.open(golden("sharded_record_index").path).verify()
    (note,) = report.notes
    assert note.startswith("column_stats: it is defined, but not live")


def test_only_the_named_indexes_are_verified(golden):
    table = lakedex.open(golden(STALE).path)
    assert table.verify(["record_index"]).ok
    assert list(table.verify(["record_index"]).checked) == ["record_index"]
    assert not table.verify(["secondary_index_idx_rider"]).ok


def test_an_unknown_index_is_refused_with_the_known_ones(golden):
    table = lakedex.open(golden(STALE).path)
    with pytest.raises(InvalidInput, match="no index 'nope'; it has column_stats, files"):
        table.verify(["nope"])
    with pytest.raises(InvalidInput, match="must be a list"):
        table.verify("record_index")


def test_the_report_prints_and_becomes_json(golden):
    report = lakedex.open(golden(STALE).path).verify()
    text = str(report)
    assert text.startswith("3 problems: ")
    assert "MISSING in secondary_index_idx_rider: 'rX$1'" in text
    again = json.loads(json.dumps(report.as_dict()))
    assert again["ok"] is False
    assert again["problem_count"] == 3
    assert again["problems"][0]["kind"] == "missing"
    assert "all right" in str(lakedex.open(golden("v6_cow").path).verify())
