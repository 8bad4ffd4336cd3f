"""Spill files of writers that died: gone with the next write, whenever it was that they died."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakedex.storage.address import StorageAddress
from lakedex.txn.places import SPILL
from lakedex.txn.process import ProcessId
from lakedex.write.scratch import Scratch
from tests.support.killing import Watch, WatchedStorage


def dead() -> ProcessId:
    """A process of this machine that has ended: another one has its number now."""
    return replace(ProcessId.current(), started="1")


def test_the_owner_is_named_before_the_first_file_and_until_the_last(tmp_path):
    watch = Watch()
    scratch = Scratch(StorageAddress.of(str(tmp_path)))
    scratch._storage = storage = WatchedStorage(scratch._storage, watch)
    with scratch:
        storage.create(f"{scratch.path}/rows-0", b"x")
    folder = scratch.path.rpartition("/")[0]
    assert watch.seen == [
        f"create {folder}/owner.json",
        f"create {scratch.path}/rows-0",
        f"delete_folder {scratch.path}",
        f"delete_folder {folder}",
    ]
    assert list((tmp_path / SPILL).iterdir()) == []


@pytest.mark.parametrize("left", [("files/a", "files/b"), ("files/b",), ()], ids=len)
def test_what_a_dead_writer_left_is_removed_by_the_next(tmp_path, left):
    folder = tmp_path / SPILL / "write-1"
    (folder / "files").mkdir(parents=True)
    for name in left:
        (folder / name).write_bytes(b"x")
    (folder / "owner.json").write_text(json.dumps(dead().to_json()))
    with Scratch(StorageAddress.of(str(tmp_path))):
        assert not folder.exists()


@pytest.mark.parametrize("owner", [ProcessId.current().to_json(), {"host": "elsewhere"}, "?"])
def test_what_may_be_in_use_stays(tmp_path: Path, owner: object) -> None:
    file = tmp_path / SPILL / "write-1/files/a"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    (file.parent.parent / "owner.json").write_text(json.dumps(owner))
    with Scratch(StorageAddress.of(str(tmp_path))):
        assert file.exists()
