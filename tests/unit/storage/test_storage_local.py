"""What only local files can do or suffer: links, pipes, processes, checksums, permissions."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lakedex.errors import AlreadyExists, FileMissing, StorageError, UnsafePath, VersionMismatch
from lakedex.storage import LocalStorage, local

CREATOR = """
import sys
from lakedex.errors import AlreadyExists
from lakedex.storage import LocalStorage, local
storage = LocalStorage(sys.argv[1])
sys.stdin.read(1)
won = 0
for number in range(40):
    try:
        storage.create(f"t/{number}", sys.argv[2].encode() * 10_000)
        won += 1
    except AlreadyExists:
        pass
sys.stdout.write(str(won))
"""

COUNTER = """
import sys
from lakedex.errors import VersionMismatch
from lakedex.storage import LocalStorage, local
storage = LocalStorage(sys.argv[1])
sys.stdin.read(1)
done = 0
while done < 20:
    data, version = storage.read_with_version("counter")
    try:
        storage.replace("counter", str(int(data) + 1).encode(), if_version=version)
        done += 1
    except VersionMismatch:
        pass
sys.stdout.write(str(done))
"""


def _run_together(script: str, root: Path, count: int) -> list[int]:
    """Start processes, let them go at the same moment, and collect what they printed."""
    command = [sys.executable, "-c", script, str(root)]
    processes = [
        subprocess.Popen(
            [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("g")
        process.stdin.flush()
    return [int(process.communicate(timeout=60)[0]) for process in processes]


def test_of_many_creating_processes_exactly_one_wins_each_file(tmp_path: Path) -> None:
    won = _run_together(CREATOR, tmp_path, 4)
    assert sum(won) == 40
    storage = LocalStorage(str(tmp_path))
    for number in range(40):
        data = storage.read(f"t/{number}")
        assert len(data) == 10_000
        assert len(set(data)) == 1
    assert len(list((tmp_path / "t").iterdir())) == 40


def test_conditional_replaces_of_many_processes_lose_no_update(tmp_path: Path) -> None:
    LocalStorage(str(tmp_path)).create("counter", b"0")
    assert _run_together(COUNTER, tmp_path, 3) == [20, 20, 20]
    assert (tmp_path / "counter").read_bytes() == b"60"
    assert [path.name for path in tmp_path.iterdir()] == ["counter"]


@pytest.fixture
def table(tmp_path: Path) -> LocalStorage:
    (tmp_path / "table/p").mkdir(parents=True)
    (tmp_path / "table/p/f").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_bytes(b"outside")
    return LocalStorage(str(tmp_path / "table"))


def test_a_linked_folder_that_leaves_the_root_is_refused(
    table: LocalStorage, tmp_path: Path
) -> None:
    # case A2: path traversal by metadata
    (tmp_path / "table/evil").symlink_to(tmp_path / "outside")
    for ask in (table.read, table.exists, table.source, table.delete, table.open_parquet_input):
        with pytest.raises(UnsafePath, match="symbolic link"):
            ask("evil/f")
    for ask in (table.list, table.list_recursive, table.folders, table.sub):
        with pytest.raises(UnsafePath):
            ask("evil")
    with pytest.raises(UnsafePath):
        table.create("evil/deeper/new", b"x")
    with pytest.raises(UnsafePath):
        table.list_recursive()
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["f"]


def test_a_linked_file_that_leaves_the_root_is_refused(table: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table/p/evil").symlink_to(tmp_path / "outside/f")
    for ask in (table.read, table.exists, table.size, table.source, table.open_parquet_input):
        with pytest.raises(UnsafePath):
            ask("p/evil")
    with pytest.raises(UnsafePath):
        table.source("p/evil", size=7).read(0, 7)
    with pytest.raises(UnsafePath):
        table.list("p")


def test_a_root_whose_name_starts_another_is_not_inside_it(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table2").mkdir()
    (tmp_path / "table2/f").write_bytes(b"x")
    (tmp_path / "table/p").symlink_to(tmp_path / "table2")
    with pytest.raises(UnsafePath):
        LocalStorage(str(tmp_path / "table")).read("p/f")


def test_links_that_stay_inside_are_followed(table: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table/link").symlink_to("p")
    (tmp_path / "table/file").symlink_to("p/f")
    assert table.read("link/f") == table.read("file") == b"inside"
    assert table.source("file").read(0, 6) == b"inside"
    assert [file.path for file in table.list_recursive()] == ["file", "link/f", "p/f"]


def test_the_root_itself_may_be_a_link(table: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path / "table")
    alias = LocalStorage(str(tmp_path / "alias"))
    assert alias.read("p/f") == b"inside"
    assert alias.sub("p").read("f") == b"inside"


def test_links_in_a_circle_end(table: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table/p/up").symlink_to(tmp_path / "table")
    (tmp_path / "table/p/self").symlink_to("self")
    (tmp_path / "table/q").mkdir()
    (tmp_path / "table/q/to_p").symlink_to("../p")
    (tmp_path / "table/p/to_q").symlink_to("../q")
    (tmp_path / "table/dangling").symlink_to("nowhere")
    assert "p/f" in [file.path for file in table.list_recursive()]
    with pytest.raises(StorageError):
        table.read("p/self")


def test_a_pipe_in_the_place_of_a_file_does_not_block(table: LocalStorage, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "table/p/pipe")
    assert not table.exists("p/pipe")
    for ask in (table.read, table.source, table.open_parquet_input):
        with pytest.raises(FileMissing):
            ask("p/pipe")
    with pytest.raises(FileMissing):
        table.source("p/pipe", size=1).read(0, 1)
    assert [file.path for file in table.list("p")] == ["p/f"]


def test_replace_and_delete_and_create_remove_the_stale_checksum(
    table: LocalStorage, tmp_path: Path
) -> None:
    checksum = tmp_path / "table/p/.f.crc"
    for change in (
        lambda: table.replace("p/f", b"new"),
        lambda: table.delete("p/f"),
        lambda: table.create("p/f", b"again"),
    ):
        checksum.write_bytes(b"crc")
        change()
        assert not checksum.exists()


def test_a_lost_create_keeps_the_checksum_of_the_winner(
    table: LocalStorage, tmp_path: Path
) -> None:
    (tmp_path / "table/p/.f.crc").write_bytes(b"crc")
    with pytest.raises(AlreadyExists):
        table.create("p/f", b"x")
    assert (tmp_path / "table/p/.f.crc").exists()


def test_replace_keeps_permissions_and_create_follows_the_umask(
    table: LocalStorage, tmp_path: Path
) -> None:
    (tmp_path / "table/p/f").chmod(0o664)
    table.replace("p/f", b"new")
    assert stat.S_IMODE((tmp_path / "table/p/f").stat().st_mode) == 0o664
    table.create("p/g", b"x")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "table/p/g").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_changed_and_changed_back_is_another_version(table: LocalStorage) -> None:
    _, version = table.read_with_version("p/f")
    table.replace("p/f", b"other")
    table.replace("p/f", b"inside")
    with pytest.raises(VersionMismatch):
        table.replace("p/f", b"mine", if_version=version)


def test_create_without_hard_links_still_has_one_winner(
    table: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(local.os, "link", no_links)
    table.create("p/new", b"first")
    (tmp_path / "table/p/dangling").symlink_to("nowhere")
    for taken in ("p/new", "p/dangling"):
        with pytest.raises(AlreadyExists):
            table.create(taken, b"second")
    assert table.read("p/new") == b"first"
    assert sorted(path.name for path in (tmp_path / "table/p").iterdir()) == [
        "dangling",
        "f",
        "new",
    ]


def test_a_failed_write_leaves_nothing_and_names_the_file(
    table: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local.os, "fsync", full)
    for write in (table.create, table.replace):
        with pytest.raises(StorageError, match="p/new: No space left"):
            write("p/new", b"x")
    assert [path.name for path in (tmp_path / "table/p").iterdir()] == ["f"]


def test_a_lock_that_is_never_freed_gives_an_error_in_bounded_time(
    table: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "LOCK_TIMEOUT_S", 0.05)
    _, version = table.read_with_version("p/f")
    with (
        local.locked_folder(str(tmp_path / "table/p"), required=True),
        pytest.raises(StorageError, match="locked"),
    ):
        table.replace("p/f", b"x", if_version=version)
    assert table.read("p/f") == b"inside"


def test_a_file_where_a_folder_should_be_is_an_error(table: LocalStorage) -> None:
    with pytest.raises(StorageError, match="p/f/below"):
        table.create("p/f/below", b"x")
    with pytest.raises(StorageError, match="replace"):
        table.replace("p", b"x")
    with pytest.raises(AlreadyExists):
        table.create("p", b"x")
    table.delete("p/f/below")


def test_names_that_are_not_text_are_reported_not_skipped(
    table: LocalStorage, tmp_path: Path
) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path / "table/p") + b"/caf\xe9")).write_bytes(b"x")
    with pytest.raises(UnsafePath):
        table.list("p")


def test_many_sources_hold_no_file_open(table: LocalStorage) -> None:
    handles = Path("/proc/self/fd")
    if not handles.exists():
        pytest.skip("the system does not show open files")
    before = len(list(handles.iterdir()))
    sources = [table.source("p/f") for _ in range(100)]
    assert all(source.read(0, 6) == b"inside" for source in sources)
    assert len(list(handles.iterdir())) <= before


def test_a_name_too_long_for_the_disk_is_a_storage_error(table: LocalStorage) -> None:
    for ask in (table.read, table.exists):
        with pytest.raises(StorageError):
            ask("x" * 5000)
