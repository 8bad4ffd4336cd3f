"""Files that a killed writer left before they had their name, as on file systems that need them.

Most systems can write a file that has no name yet, so that nothing is left. Where they cannot, the
bytes lie in a hidden file for a moment: no reader may take it for data, and the next write removes
it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from hudi import HudiTable

from lakedex.storage.arrow_store import ArrowStorage
from lakedex.storage.local import LocalStorage
from lakedex.storage.open import StorageAddress
from tests.support.history import Commit, History, create, writer_of
from tests.support.killing import finish, start
from tests.support.row_model import assert_holds
from tests.support.write_jobs import write_through_temps
from tests.support.write_shapes import Shape

TEMP = ".lakedex-0123456789abcdef.tmp"
POINTS = 8
OPTIONS = {"hoodie.metadata.compact.max.delta.commits": "2"}


@pytest.mark.parametrize(
    "shape",
    [Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple"), Shape("mor", "BLOOM", "simple")],
    ids=str,
)
def test_a_file_without_its_name_is_no_data_and_goes_with_the_next_write(
    shape: Shape, tmp_path: Path
) -> None:
    history = History(shape, rows=30)
    address = create(shape, tmp_path / "t")
    history.apply(history.insert(30)).write(shape, writer_of(address, OPTIONS))
    before = history.model.copy()
    commit, said = history.mixture(8), tmp_path / "said"
    after = before.copy()
    after.upsert(commit.rows)
    following = Commit("upsert", tuple(history.new_rows(4)))

    def write(die_at: int) -> Path | None:
        """The table after a write that died there; None where it came to its end before."""
        killed = tmp_path / "killed"
        shutil.rmtree(killed, ignore_errors=True)
        shutil.copytree(tmp_path / "t", killed)
        arguments = (shape, str(killed), commit, OPTIONS, die_at, str(said))
        code = finish(start(write_through_temps, *arguments))
        assert code in ((0,) if die_at < 0 else (0, -9))
        return killed if code else None

    assert write(-1) is None
    count = int(said.read_text(encoding="utf-8"))
    folders = set()
    for die_at in range(0, count, max(1, count // POINTS)):
        killed = write(die_at)
        if killed is None:
            # A lock that was renewed in time counts as well.
            assert die_at > count // 2
            break
        [temp] = temps(killed)
        folders.add(temp.parent.name)
        is_there = committed(killed) > committed(tmp_path / "t")
        model = (after if is_there else before).copy()
        assert_holds(str(killed), model)
        listed = [Path(file).name for file in ds.dataset(killed, format="parquet").files]
        assert not any(name.startswith(".lakedex") for name in listed)
        found = sum(batch.num_rows for batch in HudiTable(str(killed)).read())
        assert found == len(model.live)
        model.upsert(following.rows)
        following.write(shape, writer_of(StorageAddress.of(str(killed)), OPTIONS))
        assert_holds(str(killed), model)
        assert temps(killed) == [], f"killed at {die_at} of {count}: {temp}"
    assert len(folders) > 2


def temps(path: Path) -> list[Path]:
    return list(path.rglob(".lakedex-*.tmp"))


def committed(path: Path) -> int:
    names = [file.name for file in (path / ".hoodie/timeline").iterdir()]
    return sum(name.endswith(("commit",)) and "_" in name for name in names)


def test_files_of_living_writers_are_left_alone(tmp_path: Path) -> None:
    temp, data = tmp_path / "p" / TEMP, tmp_path / "p" / "a.parquet"
    temp.parent.mkdir()
    temp.write_bytes(b"half")
    data.write_bytes(b"whole")
    storage = LocalStorage(str(tmp_path))
    handle = os.open(temp, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        storage.remove_leftovers("p")
        assert temp.exists()
    finally:
        os.close(handle)
    assert [info.path for info in storage.list_recursive()] == ["p/a.parquet"]
    storage.remove_leftovers("p")
    storage.remove_leftovers("absent")
    storage.remove_leftovers()
    assert not temp.exists()
    assert data.exists()


def test_on_other_file_systems_only_old_files_are_leftovers(tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    old, young = tmp_path / TEMP, tmp_path / TEMP.replace("0", "f")
    for file in (old, young, tmp_path / "a.parquet"):
        file.write_bytes(b"half")
        os.utime(file, (0, 0) if file != young else None)
    ArrowStorage(fs.LocalFileSystem(), str(tmp_path), "file:/t").remove_leftovers()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([young.name, "a.parquet"])
