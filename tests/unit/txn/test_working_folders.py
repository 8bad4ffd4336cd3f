"""Spill files of writers that died: gone with the next write, whenever it was that they died."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lakedex.storage import open_storage
from lakedex.storage.open import StorageAddress
from lakedex.txn.process import ProcessId
from lakedex.txn.working_folders import SPILL, Scratch, remove_dead_scratch
from tests.support.killing import Watch, WatchedStorage

ID = "0123456789abcdef0123456789abcdef"


def dead() -> ProcessId:
    """A process of this machine that has ended: another one has its number now."""
    return replace(ProcessId.current(), started="1")


def sweep(root: Path) -> None:
    storage = open_storage(str(root))
    remove_dead_scratch(storage, storage.folders(SPILL))


def test_the_folder_names_its_owner_from_the_first_file_to_the_last(tmp_path):
    watch = Watch()
    scratch = Scratch(StorageAddress.of(str(tmp_path)))
    scratch._storage = storage = WatchedStorage(scratch._storage, watch)
    with scratch:
        storage.create(f"{scratch.path}/rows-0", b"x")
    folder = scratch.path.rpartition("/")[0]
    assert folder.endswith(f"-{ProcessId.current().token}")
    assert watch.seen == [f"create {scratch.path}/rows-0", f"delete_folder {folder}"]
    assert list((tmp_path / SPILL).iterdir()) == []


@pytest.mark.parametrize("left", [("files/a", "files/b"), ("files/b",), ()], ids=len)
def test_what_a_dead_writer_left_is_removed_by_the_next(tmp_path, left):
    folder = tmp_path / SPILL / f"write-{ID}-{dead().token}"
    (folder / "files").mkdir(parents=True)
    for name in left:
        (folder / name).write_bytes(b"x")
    sweep(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize(
    "owner",
    [
        f"-{ProcessId.current().token}",
        f"-{replace(dead(), host='elsewhere').token}",
        f"-{replace(dead(), machine='another boot').token}",
        "-?",
        "",
    ],
    ids=["this process", "another host", "another boot", "no token", "no owner"],
)
def test_what_may_be_in_use_stays(tmp_path: Path, owner: str) -> None:
    file = tmp_path / SPILL / f"write-{ID}{owner}/files/a"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    sweep(tmp_path)
    assert file.exists()


def test_an_old_folder_without_an_owner_goes(tmp_path: Path) -> None:
    file = tmp_path / SPILL / f"write-{ID}/files/a"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    os.utime(file, (1, 1))
    sweep(tmp_path)
    assert not file.exists()
