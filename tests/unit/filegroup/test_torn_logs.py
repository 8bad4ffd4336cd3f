"""A damaged log file of a completed write is an error, or an index less; never other rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.errors import CorruptFile

DAMAGE = {
    "garbled": lambda data: b"\xff" * len(data),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
}


def logs_of(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*.log.*"), key=lambda path: path.name.split("_")[-2])


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_log_file_of_the_data_is_an_error(golden, tmp_path, damage):
    table = Path(shutil.copytree(golden("mor_trips_all_indexes").path, tmp_path / "t"))
    log = logs_of(table / "state=california")[-1]
    log.write_bytes(DAMAGE[damage](log.read_bytes()))
    with pytest.raises(CorruptFile, match=r"\.log\.1"):
        lakedex.open(table).to_arrow()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_log_file_of_the_listing_changes_no_row(golden, tmp_path, damage):
    sound = golden("cow_nonpartitioned").path
    table = Path(shutil.copytree(sound, tmp_path / "t"))
    expected = lakedex.open(sound).to_arrow()
    for log in logs_of(table / ".hoodie" / "metadata" / "files")[1:]:
        whole = log.read_bytes()
        log.write_bytes(DAMAGE[damage](whole))
        opened = lakedex.open(table)
        assert opened.to_arrow().equals(expected), log.name
        assert opened.snapshot.listing.source != "metadata table", log.name
        log.write_bytes(whole)


def test_the_torn_file_of_an_attempt_that_did_not_count_is_passed_over(golden, tmp_path):
    sound = golden("cow_nonpartitioned").path
    table = Path(shutil.copytree(sound, tmp_path / "t"))
    log = logs_of(table / ".hoodie" / "metadata" / "files")[-1]
    log.with_name(f"{log.name.rpartition('_')[0]}_9-99-999").write_bytes(log.read_bytes()[:40])
    opened = lakedex.open(table)
    assert opened.to_arrow().equals(lakedex.open(sound).to_arrow())
    assert opened.snapshot.listing.source == "metadata table"
