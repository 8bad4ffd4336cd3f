"""Which files a query sees: slices by completion time, pending compactions, replaced groups."""

from __future__ import annotations

import pytest

from lakedex.filegroup import FileSliceId, Visibility, latest_slices

DONE = {"100": "101", "110": "111", "120": "131", "130": "133", "140": "141"}


def visibility(*, own_instants=True, replaced=(), pending=None, done=None):
    completed = DONE if done is None else done
    return Visibility(
        is_visible=lambda time: time in completed,
        completion_time=lambda time: completed.get(time, time),
        logs_name_own_instant=own_instants,
        replaced=frozenset(FileSliceId("p", name) for name in replaced),
        pending_compactions={FileSliceId("p", k): v for k, v in (pending or {}).items()},
    )


def base(time, file_id="f-0"):
    return (f"{file_id}_0-0-0_{time}.parquet", 10)


def log(time, version=1, file_id="f-0", token="0-0-0"):
    return (f".{file_id}_{time}.log.{version}_{token}", 5)


def seen(files, **settings):
    found = latest_slices("p", files, visibility(**settings))
    return [
        (s.file_id, s.base.instant_time if s.base else None, [x.instant_time for x in s.logs])
        for s in found
    ]


def test_the_newest_committed_base_file_is_seen_with_its_logs():
    files = [base("100"), base("110"), base("999"), log("110"), log("140")]
    assert seen(files) == [("f-0", "110", ["110", "140"])]


def test_a_log_that_completed_after_a_compaction_began_belongs_to_the_new_slice():
    # 120 was requested before 130 and completed (131) after it was requested.
    assert seen([base("100"), log("120"), base("130")]) == [("f-0", "130", ["120"])]
    assert seen([base("100"), log("110"), base("130")]) == [("f-0", "130", [])]


def test_a_pending_compaction_leaves_the_base_and_logs_of_the_slice_before_it():
    files = [base("100"), log("110"), log("140")]
    assert seen(files, pending={"f-0": "125"}) == [("f-0", "100", ["110", "140"])]


def test_a_group_of_logs_alone_is_one_slice():
    assert seen([log("110"), log("140")]) == [("f-0", None, ["110", "140"])]


def test_files_of_pending_instants_are_not_seen():
    assert seen([base("999"), log("998")]) == []


def test_replaced_groups_are_not_seen():
    files = [base("100"), base("110", "g-0")]
    assert seen(files, replaced=["f-0"]) == [("g-0", "110", [])]


def test_before_version_8_a_log_names_its_base_instant_and_is_ordered_by_version():
    # case B59: a log of another base file belongs to that one's slice
    files = [base("100"), base("110"), log("100", 9), log("110", 2), log("110", 10)]
    found = latest_slices("p", files, visibility(own_instants=False))
    assert [entry.version for entry in found[0].logs] == [2, 10]


def test_logs_are_ordered_by_completion_time_then_version_then_token():
    done = {"100": "101", "110": "150", "120": "131"}
    files = [base("100"), log("110"), log("120", 2), log("120", 1, token="10-0-0"), log("120")]
    found = latest_slices("p", files, visibility(done=done))[0]
    order = [(x.instant_time, x.version, x.write_token) for x in found.logs]
    assert order == [
        ("120", 1, "0-0-0"),
        ("120", 1, "10-0-0"),
        ("120", 2, "0-0-0"),
        ("110", 1, "0-0-0"),
    ]


@pytest.mark.parametrize("name", ["x.parquet", "a_b.parquet", ".hoodie_partition_metadata", "_"])
def test_names_that_are_no_data_files_are_passed_over(name):
    assert seen([(name, 1), base("100")]) == [("f-0", "100", [])]


def test_change_data_files_are_not_read_as_logs():
    name, size = log("110")
    assert seen([base("100"), (name + ".cdc", size)]) == [("f-0", "100", [])]
