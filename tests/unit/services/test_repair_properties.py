"""Properties files damaged on purpose: their copies are read, and they are written anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hudi import HudiTable

import lakedex
from lakedex.errors import CorruptFile
from lakedex.services.repairing import repair_table
from lakedex.table.own_properties import OWN_COPY_PATH, OWN_PROPERTIES_PATH
from lakedex.timeline.properties_file import BACKUP_PATH, PROPERTIES_PATH
from tests.support.write_lab import Lab, row, source

ROWS = [row(f"k{number}", f"p{number % 2}", 1) for number in range(4)]
COPIES = {PROPERTIES_PATH: BACKUP_PATH, OWN_PROPERTIES_PATH: OWN_COPY_PATH}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "gone": lambda data: b"",
}


@pytest.fixture
def lab(tmp_path) -> Lab:
    made = Lab(tmp_path, "cow", "GLOBAL_SIMPLE")
    made.writer.upsert(source(ROWS))
    return made


def damage(lab: Lab, path: str, how: str) -> None:
    file = Path(lab.path, path)
    file.write_bytes(DAMAGES[how](file.read_bytes()))
    if how == "gone":
        file.unlink()


@pytest.mark.parametrize("path", COPIES)
@pytest.mark.parametrize("how", DAMAGES)
def test_the_copy_counts_and_repair_writes_the_file_anew(lab, path, how):
    before = Path(lab.path, path).read_bytes()
    damage(lab, path, how)
    assert lab.rows() == ROWS
    (problem,) = lakedex.open(lab.path).verify().problems
    assert (problem.index, path in problem.detail) == ("timeline", True)
    done = repair_table(lab.writer)
    assert done.ok, str(done)
    if path == PROPERTIES_PATH:
        assert Path(lab.path, path).read_bytes() == before
    assert sum(batch.num_rows for batch in HudiTable(lab.path).read()) == len(ROWS)
    lab.writer.upsert(source([row("k1", "p0", 2)]))  # it moves, as the index is a global one
    lab.holds([ROWS[0], row("k1", "p0", 2), *ROWS[2:]])


@pytest.mark.parametrize("path", COPIES)
@pytest.mark.parametrize("how", DAMAGES)
def test_a_writer_goes_by_the_copy_too(lab, path, how):
    damage(lab, path, how)
    lab.writer.upsert(source([row("k1", "p0", 2)]))
    assert lab.rows() == [ROWS[0], row("k1", "p0", 2), *ROWS[2:]]


@pytest.mark.parametrize("path", COPIES)
def test_without_a_whole_copy_the_file_is_named(lab, path):
    for each in (path, COPIES[path]):
        damage(lab, each, "cut")
    with pytest.raises(CorruptFile, match=path):
        lab.writer.upsert(source([row("k1", "p0", 2)]))


def test_a_flipped_bit_in_the_kept_settings_is_seen(lab):
    file = Path(lab.path, OWN_PROPERTIES_PATH)
    file.write_bytes(file.read_bytes().replace(b"GLOBAL_SIMPLE", b"GLOBAL_BLOOM\n"))
    assert not lakedex.open(lab.path).verify().ok
    lab.writer.upsert(source([row("k1", "p0", 2)]))
    lab.holds([ROWS[0], row("k1", "p0", 2), *ROWS[2:]])  # the write put the file right, too
