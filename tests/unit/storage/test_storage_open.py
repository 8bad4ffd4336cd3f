"""From an address to a store, and the file object over ranged reads."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidInput, LakedexError, UnsafePath
from lakedex.storage import LocalStorage, MemorySource, open_storage
from lakedex.storage.source import BLOCK_BYTES, SourceFile, open_source


def test_plain_paths_and_file_addresses_open_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    (folder / "f").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    addresses = [
        str(folder),
        f"{folder}/",
        "a b%20c",
        "./a b%20c",
        folder.as_uri(),
        folder.as_uri().replace("file://", "file:"),
        folder.as_uri().replace("file://", "file://localhost"),
        folder.as_uri().replace("file://", "FILE://"),
    ]
    for address in addresses:
        storage = open_storage(address)
        assert isinstance(storage, LocalStorage)
        assert storage.read("f") == b"x"
        assert storage.root == str(folder)


def test_a_folder_with_a_colon_is_a_path_not_a_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_storage("12:30").create("f", b"x")
    assert (tmp_path / "12:30/f").exists()


@pytest.mark.parametrize("scheme", ["ftp", "http", "https", "memory", "jar", "s3n"])
def test_other_schemes_are_refused_by_name(scheme: str) -> None:
    # case A3: URL schemes
    with pytest.raises(InvalidInput, match=repr(scheme)):
        open_storage(f"{scheme}://host/x")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a\x00b",
        "file://host/x",
        "file://",
        "file:///a%00b",
        "s3://",
        "s3:///x",
        "s3:/b/x",
        "hdfs://u@h/x",
        "hdfs://h:port/x",
        "gs://b?d/x",
        "abfss://c:k@acc/x",
    ],
)
def test_malformed_addresses_are_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        open_storage(address)


@pytest.mark.parametrize("prefix", ["../x", "a/../../b", "a//b", "."])
def test_an_address_with_an_unsafe_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(UnsafePath):
        open_storage(f"s3://bucket/{prefix}", {"aws_region": "x"})


def test_options_that_local_files_do_not_have_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="aws_region"):
        open_storage(str(tmp_path), {"aws_region": "x"})
    with pytest.raises(InvalidInput, match="nonsense"):
        open_storage("hdfs://host/x", {"nonsense": "x"})


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("gs://bucket/t", {"google_skip_signature": "true"}),
        ("abfss://cont@acc.dfs.core.windows.net/t", {"azure_storage_account_key": "c2VjcmV0"}),
        ("az://cont/t", {"account_name": "acc", "account_key": "c2VjcmV0"}),
    ],
)
def test_google_and_azure_open_without_a_request(address: str, options: dict[str, str]) -> None:
    storage = open_storage(address, options)
    assert storage.root == address
    assert "c2VjcmV0" not in repr(storage)


@given(st.text(alphabet=st.sampled_from("s3afilehd:/@.?%\x00\\ -b"), max_size=16))
def test_any_address_opens_or_fails_clearly(address: str) -> None:
    if address.lower().startswith("hdfs://"):
        return  # would start a JVM where one is installed
    try:
        open_storage(address, {})
    except LakedexError:
        return


def test_sources_import_without_obstore() -> None:
    script = (
        "import sys; sys.modules['obstore'] = None\n"
        "import lakedex.storage.source\n"
        "from lakedex.errors import StorageError\n"
        "from lakedex.storage import open_storage\n"
        "open_storage('/x')\n"
        "try:\n    open_storage('s3://bucket/x')\n"
        "except StorageError as error:\n    sys.exit(0 if 'obstore' in str(error) else 1)\n"
        "sys.exit(2)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


class CountingSource:
    """A source in memory that counts its reads."""

    def __init__(self, data: bytes) -> None:
        self._inner = MemorySource(data)
        self.path, self.size, self.base_offset = "<counting>", len(data), 0
        self.reads = 0

    def read(self, start: int, length: int) -> bytes:
        self.reads += 1
        return self._inner.read(start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(start, length) for start, length in ranges]


def test_a_footer_costs_one_request() -> None:
    source = CountingSource(bytes(10 * BLOCK_BYTES))
    file = open_source(source)
    file.read_at(8, source.size - 8)
    file.read_at(5000, source.size - 5008)
    assert source.reads == 1
    file.close()


@given(
    st.binary(max_size=50),
    st.lists(st.tuples(st.integers(-5, 60), st.sampled_from([0, 1, 2]), st.integers(-1, 60))),
)
def test_a_source_file_reads_like_a_file(data: bytes, steps: list[tuple[int, int, int]]) -> None:
    file, model = SourceFile(MemorySource(data)), io.BytesIO(data)
    for offset, whence, length in steps:
        base = (0, model.tell(), len(data))[whence]
        if base + offset < 0:
            with pytest.raises(InvalidInput):
                file.seek(offset, whence)
            continue
        assert file.seek(offset, whence) == model.seek(offset, whence)
        assert file.read(length) == model.read(length)
        assert file.tell() == model.tell()
    assert file.seek(0) == model.seek(0)
    assert file.readall() == data
    assert file.readable()
    assert file.seekable()
    assert file.size() == len(data)
