"""The file listing, unreadable parts, and the states that an index can be in."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import lakedex
from lakedex.config.service_options import CleaningOptions
from lakedex.index.metadata_table import FILES_PAYLOAD
from lakedex.services.verifying import ProblemKind
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.cleaning import clean_table, read_clean_plan, schedule_clean
from tests.support.secondary import Trips
from tests.support.upkeep_lab import make_past

TABLE = "cow_trips_all_indexes"


def problems_of(table, indexes=None):
    return [(each.index, each.kind, each.key) for each in table.open().verify(indexes).problems]


def chosen(table):
    found = table.open().snapshot.slices[0]
    return found, found.path_of(found.base.name)


def relist(table, partition, change) -> None:
    """Write the listing of one partition anew."""
    record = table.record("files", partition)
    entries = dict(record[FILES_PAYLOAD])
    change(entries)
    record[FILES_PAYLOAD] = list(entries.items())
    table.put("files", {partition: record})


def old_file(table) -> tuple[str, str]:
    """A file that is listed, but in no slice that is read."""
    snapshot = table.open().snapshot
    read = {each.path_of(name) for each in snapshot.slices for name in each.file_names}
    for partition, files in snapshot.listing.files.items():
        for name, _ in files:
            if f"{partition}/{name}" not in read:
                return partition, name
    raise AssertionError("every file is read")


def test_a_wrong_size_is_found(damage):
    table = damage(TABLE)
    partition, name = old_file(table)

    def shrink(entries) -> None:
        entries[name]["size"] -= 1

    relist(table, partition, shrink)
    problems = problems_of(table)
    assert problems == [("files", ProblemKind.WRONG, f"{partition}/{name}")]


def test_a_file_of_a_completed_write_that_is_not_listed_is_found(damage):
    table = damage(TABLE)
    partition, name = old_file(table)
    relist(table, partition, lambda entries: entries.pop(name))
    problems = problems_of(table, ["files"])
    assert problems == [("files", ProblemKind.MISSING, f"{partition}/{name}")]


def test_a_listed_file_that_is_gone_from_the_store_is_found(damage):
    table = damage(TABLE)
    partition, name = old_file(table)
    (table.path / partition / name).unlink()
    assert problems_of(table) == [("files", ProblemKind.STALE, f"{partition}/{name}")]


def test_what_failed_writes_left_behind_is_only_noted(damage):
    table = damage(TABLE)
    found, path = chosen(table)
    data = (table.path / path).read_bytes()
    folder = table.path / found.partition
    (folder / "aaaa-0_0-0-0_20990101000000000.parquet").write_bytes(data)
    retried = found.base.name.replace(found.base.write_token, "9-9-9")
    (folder / retried).write_bytes(data)
    report = table.open().verify()
    assert report.ok
    (note,) = report.notes
    assert note.startswith("files: 2 files of writes that failed")


def test_a_partition_that_is_not_in_the_list_of_partitions_is_found(damage):
    table = damage(TABLE)
    partition = chosen(table)[0].partition
    relist(table, "__all_partitions__", lambda entries: entries.pop(partition))
    assert problems_of(table) == [("files", ProblemKind.MISSING, partition)]


def test_a_base_file_that_cannot_be_read_is_one_problem_and_makes_no_others(damage):
    table = damage(TABLE)
    found, path = chosen(table)
    target = Path(table.path / path)
    target.write_bytes(b"\0" * target.stat().st_size)
    report = table.open().verify()
    (problem,) = report.problems
    assert (problem.index, problem.kind) == ("data", ProblemKind.UNREADABLE)
    assert problem.key == found.path_of(found.file_id)
    assert any("may be of rows that could not be read" in note for note in report.notes)


def test_an_index_that_cannot_be_read_is_a_problem_and_others_are_still_verified(damage):
    table = damage(TABLE)
    folder = table.metadata_root / "secondary_index_idx_city"
    for file in folder.glob("*.hfile"):
        file.write_bytes(b"\0" * file.stat().st_size)
    report = table.open().verify()
    (problem,) = report.problems
    assert (problem.index, problem.kind) == (
        "secondary_index_idx_city",
        ProblemKind.UNREADABLE,
    )
    assert report.checked["record_index"] == 48


def test_a_live_index_without_file_groups_is_unreadable(damage):
    # case B66: a live index without groups
    table = damage(TABLE)
    for file in (table.metadata_root / "bloom_filters").iterdir():
        file.unlink()
    assert problems_of(table) == [("bloom_filters", ProblemKind.UNREADABLE, "bloom_filters")]


def test_a_live_index_without_definition_is_unreadable(damage):
    table = damage(TABLE)
    definitions = table.path / ".hoodie" / ".index_defs" / "index.json"
    text = definitions.read_text()
    definitions.write_text(text.replace("secondary_index_idx_rider", "secondary_index_other"))
    report = table.open().verify()
    assert [(each.index, each.kind) for each in report.problems] == [
        ("secondary_index_idx_rider", ProblemKind.UNREADABLE)
    ]
    assert any(note.startswith("secondary_index_other: it is defined") for note in report.notes)


def test_definitions_that_cannot_be_read_are_a_problem(damage):
    table = damage(TABLE)
    (table.path / ".hoodie" / ".index_defs" / "index.json").write_text("{")
    (problem,) = table.open().verify().problems
    assert problem.kind is ProblemKind.UNREADABLE


def test_a_metadata_table_that_cannot_be_opened_is_a_problem(damage):
    table = damage(TABLE)
    (table.metadata_root / ".hoodie" / "hoodie.properties").write_text("")
    (problem,) = table.open().verify().problems
    assert (problem.index, problem.kind) == ("metadata table", ProblemKind.UNREADABLE)


def test_files_that_a_killed_clean_removed_are_no_problem(tmp_path):
    past = make_past(tmp_path, "cow")
    address = past.lab.address
    instant = schedule_clean(address, CleaningOptions(commits=2), TransactionOptions())
    plan = read_clean_plan(lakedex.open(past.path).timeline, str(instant))
    gone = [Path(past.path, path, name) for path, names in plan.files.items() for name in names]
    for path in gone:
        path.unlink()
    report = lakedex.open(past.path).verify()
    assert report.ok, report
    assert any(f"{len(gone)} listed files were removed by a clean" in each for each in report.notes)
    clean_table(address, {"hoodie.clean.commits.retained": "2"})
    assert lakedex.open(past.path).verify().notes == ()
    # A file that no plan names is missed as before.
    (partition, name), *_ = [
        (each.partition, each.base.name) for each in lakedex.open(past.path).snapshot.slices
    ]
    Path(past.path, partition, name).unlink()
    assert not lakedex.open(past.path).verify(["files"]).ok


def test_a_changed_byte_in_a_column_without_index_is_found(tmp_path):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(("k1", 1, "r1", "oslo"), ("k2", 2, "r2", "oslo")))
    (file,) = tmp_path.glob("t/city=oslo/*.parquet")
    group = pq.read_metadata(file).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    (rider,) = (each for each in columns if each.path_in_schema == "rider")
    begin = rider.dictionary_page_offset or rider.data_page_offset
    damaged = bytearray(file.read_bytes())
    damaged[begin + rider.total_compressed_size - 3] ^= 1
    file.write_bytes(damaged)
    (problem,) = trips.table().verify(["record_index"]).problems
    assert (problem.index, problem.kind) == ("data", ProblemKind.UNREADABLE)
    assert file.name in problem.detail
    assert "checksum" in problem.detail
