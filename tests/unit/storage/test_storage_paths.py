"""The gate that every path passes."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import UnsafePath
from lakedex.storage.paths import is_side_file, join, normalise, normalise_folder, split


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        ".",
        "..",
        "a/..",
        "../../../../tmp/evil",
        "a/./b",
        "a//b",
        "a/",
        "a\\..\\b",
        "C:/windows",
        "file:/etc/passwd",
        "file:///etc/passwd",
        "s3://other/key",
        "hdfs:/x",
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "a\u0085b",
        "a\ud800b",
    ],
)
def test_paths_that_could_leave_the_root_are_refused(path: str) -> None:
    # case A1: path traversal by a partition value
    with pytest.raises(UnsafePath):
        normalise(path)


@pytest.mark.parametrize(
    "path", ["a", "a/b", "...", "..a", "a..", "12:30/x", "k=v:w/f", "a b/%2e%2e/ü", "-", "~/x"]
)
def test_safe_paths_come_back_unchanged(path: str) -> None:
    assert normalise(path) == path


def test_the_error_shortens_an_endless_path() -> None:
    with pytest.raises(UnsafePath) as caught:
        normalise("/" + "x" * 1_000_000)
    assert len(str(caught.value)) < 300


@given(st.text(alphabet=st.sampled_from("ab./\\ :%=é\x00"), max_size=12))
def test_an_accepted_path_always_lies_below_the_root(path: str) -> None:
    try:
        accepted = normalise(path)
    except UnsafePath:
        return
    joined = posixpath.normpath(f"/table/{accepted}")
    assert joined == f"/table/{path}"


@given(st.text(max_size=20))
def test_any_text_is_accepted_or_unsafe(path: str) -> None:
    try:
        assert normalise(path) == path
    except UnsafePath:
        return
    assert join(*split(path)) == path


def test_only_a_folder_may_be_empty_or_end_in_a_slash() -> None:
    assert normalise_folder("") == ""
    assert normalise_folder("a/b/") == "a/b"
    for bad in ("/", "a//", "..", "../"):
        with pytest.raises(UnsafePath):
            normalise_folder(bad)


def test_join_refuses_a_part_that_climbs() -> None:
    with pytest.raises(UnsafePath):
        join("a", "../..", "b")
    with pytest.raises(UnsafePath):
        join("", "")


@pytest.mark.parametrize(
    ("name", "is_side"),
    [
        (".a.parquet.crc", True),
        ("..hoodie_partition_metadata.crc", True),
        ("a.crc", False),
        (".hoodie_partition_metadata", False),
        (".f1_001.log.1_0-1-0", False),
        (".lakedex-0011223344556677.tmp", True),
        ("2024_$folder$", True),
    ],
)
def test_side_files_are_told_from_files_of_the_table(name: str, is_side: bool) -> None:
    assert is_side_file(name) is is_side
