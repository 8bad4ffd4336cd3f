"""What every kind of store must do alike."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakedex.errors import (
    AlreadyExists,
    CorruptFile,
    FileMissing,
    UnsafePath,
    VersionMismatch,
)
from lakedex.storage import ByteSource, FileInfo, Storage
from lakedex.storage.arrow_store import ArrowStorage

AWKWARD_NAMES = [
    "a b/c d.parquet",
    "city=São Paulo/día.parquet",
    "p%20q/100%.parquet",
    "pct%2Fslash",
    "ts=12:30:00/f",
    "a+b&c=d;e,f/g#h?i",
    "we*[ir]{d}/<x>|^`\"'~!$@()",
    ".hoodie/.temp/.x",
    "...",
    "..a/b..",
    "日本/😀.log",
]

UNSAFE_PATHS = ["", "/etc/passwd", "..", "../x", "a/../../x", "a/./b", "a//b", "a/", "a\x00b"]


def _put(storage: Storage, *paths: str) -> None:
    for path in paths:
        storage.create(path, path.encode())


def test_list_shows_only_the_files_directly_in_the_folder(storage: Storage) -> None:
    _put(storage, "top", "p=1/a", "p=1/b", "p=1/deep/c", "p=10/d")
    assert [file.path for file in storage.list()] == ["top"]
    assert [file.path for file in storage.list("p=1")] == ["p=1/a", "p=1/b"]
    assert [file.path for file in storage.list("p=1/")] == ["p=1/a", "p=1/b"]


def test_list_recursive_shows_files_of_all_folders_below(storage: Storage) -> None:
    _put(storage, "top", "p=1/a", "p=1/deep/c", "p=10/d")
    expected = ["p=1/a", "p=1/deep/c", "p=10/d", "top"]
    assert [file.path for file in storage.list_recursive()] == expected
    assert [file.path for file in storage.list_recursive("p=1")] == ["p=1/a", "p=1/deep/c"]


def test_folders_shows_names_of_direct_folders_only(storage: Storage) -> None:
    _put(storage, "top", "p=1/a", "p=1/deep/er/c", "p=10/d")
    assert storage.folders() == ["p=1", "p=10"]
    assert storage.folders("p=1") == ["deep"]
    assert storage.folders("p=10") == []


def test_listing_an_absent_folder_is_empty(storage: Storage) -> None:
    assert storage.list() == []
    assert storage.list("no/such") == []
    assert storage.list_recursive("no") == []
    assert storage.folders("no") == []


def test_listing_gives_size_and_time(storage: Storage) -> None:
    storage.create("a", b"12345")
    storage.create("empty", b"")
    first, second = storage.list()
    assert first == FileInfo("a", 5, first.modified_ms)
    assert second.size_bytes == 0
    assert 1_500_000_000_000 < first.modified_ms < 10_000_000_000_000
    assert storage.list_recursive() == [first, second]


def test_checksum_side_files_are_never_listed(storage: Storage) -> None:
    _put(storage, "hoodie.properties", ".hoodie.properties.crc", "p/..hidden.crc", "p/.hidden")
    assert [file.path for file in storage.list()] == ["hoodie.properties"]
    assert [file.path for file in storage.list_recursive()] == ["hoodie.properties", "p/.hidden"]


def test_read_exists_and_size_of_a_file(storage: Storage) -> None:
    storage.create("a/b", b"hello")
    assert storage.read("a/b") == b"hello"
    assert storage.size("a/b") == 5
    assert storage.exists("a/b")


@pytest.mark.parametrize("path", ["absent", "absent/too", "folder", "folder/file/below"])
def test_what_is_not_a_file_is_missing(storage: Storage, path: str) -> None:
    storage.create("folder/file", b"x")
    assert not storage.exists(path)
    for ask in (storage.read, storage.size, storage.read_with_version):
        with pytest.raises(FileMissing, match=path):
            ask(path)
    with pytest.raises(FileMissing):
        storage.source(path).read(0, 1)
    with pytest.raises(FileMissing):
        storage.source(path, size=10).read(0, 1)


def test_ranged_reads_return_exactly_what_was_asked(storage: Storage) -> None:
    data = bytes(range(256)) * 1000
    storage.create("f", data)
    source = storage.source("f")
    assert isinstance(source, ByteSource)
    assert (source.path, source.size, source.base_offset) == ("f", len(data), 0)
    assert source.read(300, 10) == data[300:310]
    assert source.read(len(data), 0) == b""
    ranges = [(255_000, 1000), (0, 3), (7, 0), (3, 4), (100_000, 5), (0, len(data))]
    assert source.read_many(ranges) == [data[start : start + n] for start, n in ranges]
    assert source.read_many([]) == []


def test_ranges_far_apart_are_read_in_any_order(storage: Storage) -> None:
    data = bytes(range(256)) * (5 * 4096)
    storage.create("f", data)
    ranges = [(len(data) - 9, 9), (0, 4), (2_500_000, 100), (2_500_050, 100)]
    parts = [data[start : start + length] for start, length in ranges]
    assert storage.source("f").read_many(ranges) == parts
    lying = storage.source("f", size=2**41)
    assert lying.read_many(ranges) == parts
    for beyond in ((len(data) - 9, 10), (len(data), 1), (2**40, 8)):
        with pytest.raises(CorruptFile):
            lying.read_many([(0, 4), beyond, (2_500_000, 100)])


def test_ranged_read_past_the_end_is_a_corrupt_file(storage: Storage) -> None:
    storage.create("f", b"0123456789")
    for start, length in [(0, 11), (10, 1), (11, 0), (-1, 2), (0, -1), (5, 2**62)]:
        with pytest.raises(CorruptFile, match="f at offset"):
            storage.source("f").read(start, length)


@pytest.mark.parametrize("span", [(5, 10), (50, 10), (0, 2**40)])
def test_a_size_that_lies_gives_a_corrupt_file_not_short_bytes(
    storage: Storage, span: tuple[int, int]
) -> None:
    storage.create("f", b"0123456789")
    source = storage.source("f", size=2**41)
    with pytest.raises(CorruptFile):
        source.read(*span)
    with pytest.raises(CorruptFile):
        source.read_many([(0, 2), span])


def test_a_size_from_a_listing_limits_the_source(storage: Storage) -> None:
    storage.create("log", b"0123456789")
    source = storage.source("log", size=4)
    assert source.read(0, 4) == b"0123"
    with pytest.raises(CorruptFile):
        source.read(2, 4)


def test_second_create_fails_and_leaves_the_first(storage: Storage) -> None:
    storage.create("t/commit", b"first")
    with pytest.raises(AlreadyExists, match="t/commit"):
        storage.create("t/commit", b"second")
    assert storage.read("t/commit") == b"first"
    assert [file.path for file in storage.list_recursive()] == ["t/commit"]


def test_of_many_concurrent_creators_exactly_one_wins(storage: Storage) -> None:
    if isinstance(storage, ArrowStorage):
        pytest.skip("pyarrow file systems promise no single winner")
    start = Barrier(8)

    def attempt(number: int) -> int | None:
        start.wait()
        try:
            storage.create("t/commit", f"writer {number}".encode() * 1000)
        except AlreadyExists:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(attempt, range(8)) if number is not None]
    assert len(winners) == 1
    assert storage.read("t/commit") == f"writer {winners[0]}".encode() * 1000


def test_of_many_concurrent_conditional_replacers_exactly_one_wins(storage: Storage) -> None:
    if isinstance(storage, ArrowStorage):
        pytest.skip("pyarrow file systems promise no single winner")
    version = storage.replace("lock", b"free")
    start = Barrier(8)

    def attempt(number: int) -> int | None:
        start.wait()
        try:
            storage.replace("lock", f"owner {number}".encode(), if_version=version)
        except VersionMismatch:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(attempt, range(8)) if number is not None]
    assert len(winners) == 1
    assert storage.read("lock") == f"owner {winners[0]}".encode()


def test_replace_makes_or_overwrites(storage: Storage) -> None:
    storage.replace("new/f", b"one")
    storage.replace("new/f", b"two, longer")
    assert storage.read("new/f") == b"two, longer"
    assert [file.path for file in storage.list_recursive()] == ["new/f"]


def test_replace_with_the_current_version_succeeds_again_and_again(storage: Storage) -> None:
    storage.create("f", b"0")
    data, version = storage.read_with_version("f")
    assert data == b"0"
    for text in (b"1", b"2", b"3"):
        version = storage.replace("f", text, if_version=version)
    assert storage.read_with_version("f") == (b"3", version)


def test_replace_with_a_stale_version_fails_and_changes_nothing(storage: Storage) -> None:
    storage.create("f", b"0")
    _, stale = storage.read_with_version("f")
    storage.replace("f", b"1")
    with pytest.raises(VersionMismatch, match="f"):
        storage.replace("f", b"2", if_version=stale)
    with pytest.raises(VersionMismatch):
        storage.replace("f", b"2", if_version="nonsense")
    assert storage.read("f") == b"1"
    assert [file.path for file in storage.list()] == ["f"]


def test_replace_of_a_deleted_file_with_its_version_fails(storage: Storage) -> None:
    storage.create("f", b"0")
    _, version = storage.read_with_version("f")
    storage.delete("f")
    with pytest.raises(VersionMismatch):
        storage.replace("f", b"1", if_version=version)
    assert not storage.exists("f")


def test_delete_removes_and_a_missing_file_is_fine(storage: Storage) -> None:
    storage.create("a/f", b"x")
    storage.delete("a/f")
    storage.delete("a/f")
    storage.delete("never/was")
    assert not storage.exists("a/f")
    assert storage.list_recursive() == []


@pytest.mark.parametrize("path", AWKWARD_NAMES)
def test_awkward_names_round_trip(storage: Storage, path: str) -> None:
    storage.create(path, b"x")
    assert storage.read(path) == b"x"
    assert storage.source(path, 1).read(0, 1) == b"x"
    assert [file.path for file in storage.list_recursive()] == [path]
    folder, _, _ = path.rpartition("/")
    assert [file.path for file in storage.list(folder)] == [path]
    assert storage.folders() == ([path.split("/")[0]] if folder else [])
    if folder:
        assert [file.path for file in storage.sub(folder).list()] == [path[len(folder) + 1 :]]


@pytest.mark.parametrize("path", UNSAFE_PATHS)
def test_unsafe_paths_are_refused_by_every_method(storage: Storage, path: str) -> None:
    # case A2: path traversal by metadata
    storage.create("a/b", b"x")
    for ask in (storage.read, storage.size, storage.exists, storage.delete, storage.sub):
        if not (path == "a/" and ask == storage.sub):
            with pytest.raises(UnsafePath):
                ask(path)
    for ask in (storage.read_with_version, storage.source, storage.open_parquet_input):
        with pytest.raises(UnsafePath):
            ask(path)
    with pytest.raises(UnsafePath):
        storage.create(path, b"")
    with pytest.raises(UnsafePath):
        storage.replace(path, b"")
    if path not in {"", "a/"}:
        for ask in (storage.list, storage.list_recursive, storage.folders):
            with pytest.raises(UnsafePath):
                ask(path)


def test_sub_storage_sees_its_folder_only_and_cannot_climb_out(storage: Storage) -> None:
    _put(storage, "secret", ".hoodie/metadata/files/a")
    deeper = storage.sub(".hoodie").sub("metadata/")
    assert deeper.root == f"{storage.root}/.hoodie/metadata"
    assert [file.path for file in deeper.list_recursive()] == ["files/a"]
    assert deeper.folders() == ["files"]
    deeper.create("files/b", b"y")
    assert storage.read(".hoodie/metadata/files/b") == b"y"
    with pytest.raises(UnsafePath):
        deeper.read("../../secret")


def test_parquet_is_read_through_the_store(storage: Storage) -> None:
    table = pa.table({"n": range(50_000), "s": [f"row {n}" for n in range(50_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=10_000)
    data = sink.getvalue().to_pybytes()
    storage.create("p=a b/f.parquet", data)
    for size in (None, len(data)):
        with (
            storage.open_parquet_input("p=a b/f.parquet", size) as file,
            pq.ParquetFile(file, pre_buffer=True) as parquet,
        ):
            assert parquet.metadata.num_row_groups == 5
            assert parquet.read().equals(table)
            assert parquet.read_row_group(3, columns=["n"]).num_rows == 10_000


def test_parquet_of_a_missing_file_says_so(storage: Storage) -> None:
    with pytest.raises(FileMissing):
        pq.ParquetFile(storage.open_parquet_input("absent.parquet"))


def test_every_store_is_a_storage(storage: Storage) -> None:
    assert isinstance(storage, Storage)
    assert repr(storage.root) in repr(storage)


def test_local_and_s3_storages_travel_to_workers(storage: Storage) -> None:
    if storage.root.startswith("memory:"):
        pytest.skip("a store in memory stays where it is")
    storage.create("f", b"abc")
    copied = pickle.loads(pickle.dumps(storage.source("f")))
    assert copied.read(1, 2) == b"bc"
