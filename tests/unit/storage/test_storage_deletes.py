"""Deleting with a condition, and deleting whole folders, on every kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakedex.errors import UnsafePath, VersionMismatch
from lakedex.storage import Storage, open_storage


def test_delete_with_a_version_takes_only_that_version(storage: Storage) -> None:
    storage.create("a/lock", b"one")
    _, version = storage.read_with_version("a/lock")
    storage.replace("a/lock", b"two")
    with pytest.raises(VersionMismatch):
        storage.delete("a/lock", if_version=version)
    _, version = storage.read_with_version("a/lock")
    storage.delete("a/lock", if_version=version)
    assert not storage.exists("a/lock")
    with pytest.raises(VersionMismatch):
        storage.delete("a/lock", if_version=version)


def test_delete_folder_takes_all_below_it_and_nothing_beside_it(storage: Storage) -> None:
    for path in ("t/1/p=a/x", "t/1/y", "t/1/.z", "t/10/x", "t/2"):
        storage.create(path, b"x")
    storage.delete_folder("t/1")
    assert [info.path for info in storage.list_recursive()] == ["t/10/x", "t/2"]
    assert storage.folders("t") == ["10"]
    storage.delete_folder("t/1")
    storage.create("t/1/again", b"x")
    assert storage.exists("t/1/again")


@pytest.mark.parametrize("folder", ["", "..", "/", "a/../b"])
def test_delete_folder_refuses_the_root_and_paths_that_climb(storage: Storage, folder: str) -> None:
    storage.create("kept", b"x")
    with pytest.raises(UnsafePath):
        storage.delete_folder(folder)
    assert storage.exists("kept")


def test_delete_folder_removes_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").write_text("x")
    (tmp_path / "table" / "spill").mkdir(parents=True)
    (tmp_path / "table" / "spill" / "link").symlink_to(tmp_path / "other")
    open_storage(str(tmp_path / "table")).delete_folder("spill")
    assert not (tmp_path / "table" / "spill").exists()
    assert (tmp_path / "other" / "kept").exists()
