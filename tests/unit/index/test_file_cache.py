"""Small files of the metadata table stay in memory, as long as the store has the same ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from lakedex.errors import CorruptFile
from lakedex.index.metadata_table import file_cache
from lakedex.index.metadata_table.file_cache import KEPT_FILES, MOST_FILE_BYTES, KeptFiles
from lakedex.index.metadata_table.group_reader import Selection
from lakedex.services.verifying import verify
from lakedex.storage.local import LocalStorage
from lakedex.table import Snapshot
from tests.support.write_lab import Lab, row, source

STATS = "column_stats"


class Watched(LocalStorage):
    """A folder that tells what was read of it; `is_blind` gives files the same stamp for ever."""

    read_paths: ClassVar[Counter[str]] = Counter()
    is_blind = False

    def source(self, path, size=None):
        Watched.read_paths[path] += 1
        return super().source(path, size)

    def list(self, prefix=""):
        found = super().list(prefix)
        return [replace(info, stamp="same") for info in found] if Watched.is_blind else found

    def sub(self, prefix):
        return Watched(super().sub(prefix).root)


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path, "mor", "GLOBAL_RECORD_LEVEL_INDEX")
    made.writer.upsert(source([row(f"k{n}", f"p{n % 3}", n) for n in range(30)]))
    Watched.is_blind = False
    return made


def stats(lab):
    """The statistics of a table that is opened anew, and the files that were read for them."""
    Watched.read_paths.clear()
    snapshot = Snapshot.open(Watched(lab.path))
    found = snapshot.metadata.scan(STATS).to_pylist()
    return found, {path for path in Watched.read_paths if path.startswith(STATS)}


def test_after_a_commit_only_new_files_are_read(lab):
    before, _ = stats(lab)
    again, read = stats(lab)
    assert again == before
    assert not read
    known = {path.name for path in Path(lab.path, ".hoodie/metadata", STATS).iterdir()}
    lab.writer.upsert(source([row("k1", "p1", 100, 5.5)]))
    after, read = stats(lab)
    assert after != before
    assert read
    assert not {path.rpartition("/")[2] for path in read} & known
    KEPT_FILES.forget(f"{lab.path}/.hoodie/metadata")
    anew, read = stats(lab)
    assert anew == after
    assert known & {path.rpartition("/")[2] for path in read}


def damage(lab):
    """Every statistics file with one byte changed, in place and of the same size."""
    for path in Path(lab.path, ".hoodie/metadata", STATS).iterdir():
        data = bytearray(path.read_bytes())
        if data and not path.name.endswith(".crc"):
            data[len(data) // 2] ^= 0xFF
            path.write_bytes(data)


def test_a_file_that_was_changed_in_place_is_read_anew(lab):
    stats(lab)
    damage(lab)
    with pytest.raises(CorruptFile):
        stats(lab)


def test_verifying_looks_at_the_store(lab):
    Watched.is_blind = True
    before, _ = stats(lab)
    damage(lab)
    assert stats(lab)[0] == before
    snapshot = Snapshot.open(Watched(lab.path))
    assert any(problem.index == STATS for problem in verify(snapshot).problems)


def test_files_not_used_for_longest_are_given_up(tmp_path):
    storage = LocalStorage(str(tmp_path))
    room = 3 * MOST_FILE_BYTES
    kept = KeptFiles(room)
    for number in range(8):
        storage.create(f"f{number}", bytes(MOST_FILE_BYTES // 2))
        kept.open(storage, f"f{number}", MOST_FILE_BYTES // 2, "v")
        kept.open(storage, "f0", MOST_FILE_BYTES // 2, "v")
    held = [version.path for version in kept._files]
    assert held[-1] == "f0"
    assert "f7" in held
    assert "f1" not in held
    assert sum(file.held_bytes for file in kept._files.values()) <= room


def test_a_file_keeps_the_cells_that_it_was_asked_for_last(lab, monkeypatch):
    snapshot = Snapshot.open(LocalStorage(lab.path))
    (path, size) = max(
        (info.path, info.size_bytes) for info in snapshot.metadata.storage.list("record_index")
    )
    kept = KeptFiles().open(snapshot.metadata.storage, path, size, "v")
    (block,) = kept.blocks
    one = Selection(prefixes=("k1",))
    (cells,) = kept.block_cells(block, one)
    assert kept.block_cells(block, one)[0] is cells
    assert kept.block_cells(block, Selection(keys=cells.keys))[0] is not cells
    before = kept.held_bytes
    monkeypatch.setattr(file_cache, "_MOST_CELLS", len(cells.keys))
    kept.block_cells(block, Selection(prefixes=("k2",)))
    assert kept.block_cells(block, one)[0] is not cells
    assert kept.held_bytes <= before + cells.held_bytes
    monkeypatch.setattr(file_cache, "_FEW_CELLS", 0)
    many = Selection(prefixes=("k",))
    assert kept.block_cells(block, many)[0] is not kept.block_cells(block, many)[0]


def test_large_files_and_files_of_no_version_are_not_kept(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.create("f", b"x" * 10)
    kept = KeptFiles()
    assert kept.open(storage, "f", 10, "") is None
    assert kept.open(storage, "f", MOST_FILE_BYTES + 1, "v") is None
    assert kept.open(storage, "f", 10, "v") is kept.open(storage, "f", 10, "v")
    assert kept.open(storage, "f", 10, "v") is not kept.open(storage, "f", 10, "w")
