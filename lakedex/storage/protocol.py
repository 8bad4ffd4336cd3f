"""The interface of a store, relative to the root of one table.

All paths are relative to the root and pass `paths.normalise`. Listings are sorted by path and
omit side files (`paths.is_side_file`). A folder is only a prefix of paths: it is not found as a
file, and an empty one is visible on some stores (local files) and cannot exist on others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from lakedex.storage.source import ByteSource


@dataclass(frozen=True, slots=True, order=True)
class FileInfo:
    """A file in a listing; `path` is relative to the root of the storage.

    Example:
        >>> FileInfo("city=Oslo/a.parquet", 434_561, 1_700_000_000_000).path
        'city=Oslo/a.parquet'
    """

    path: str
    size_bytes: int
    modified_ms: int
    stamp: str = field(default="", compare=False)
    """Differs if the content under the same path differs; empty if the store has no stamps."""


FileList: TypeAlias = list[FileInfo]
NameList: TypeAlias = list[str]


@runtime_checkable
class Storage(Protocol):
    """The files below one root, on any store."""

    @property
    def root(self) -> str:
        """The address to which all paths are relative, for display; contains no secrets."""

    def list(self, prefix: str = "") -> FileList:
        """List the files directly in a folder; none if the folder does not exist."""

    def list_recursive(self, prefix: str = "") -> FileList:
        """List the files in a folder and in all folders below it."""

    def folders(self, prefix: str = "") -> NameList:
        """List the names (not paths) of the folders directly in a folder, sorted."""

    def exists(self, path: str) -> bool:
        """Whether there is a file at that path."""

    def size(self, path: str) -> int:
        """The size of a file in bytes; `FileMissing` if it does not exist."""

    def read(self, path: str) -> bytes:
        """Read the whole file; `FileMissing` if it does not exist."""

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """Read the whole file, with a token for `replace(if_version=...)`."""

    def source(self, path: str, size: int | None = None) -> ByteSource:
        """Open a file for ranged reads; a `size` from a listing saves a request.

        A missing file raises `FileMissing` here or at the first read. A file shorter than `size`
        raises `CorruptFile` when missing bytes are read.
        """

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new file, completely or not at all; `AlreadyExists` if there is one.

        A file that is not `durable` may be lost in a power failure; some stores write it faster.
        """

    def make_durable(self, paths: Collection[str]) -> None:
        """Flush files that were created without `durable` to the disk, all at once."""

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Replace a file, completely or not at all, and return the new version.

        With `if_version`, only if the file still has that version; otherwise, or if the file no
        longer exists, `VersionMismatch`.
        """

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove a file, if it exists.

        With `if_version`, only if the file still has that version; otherwise, or if the file no
        longer exists, `VersionMismatch`. Object stores have no such request: there the version is
        looked up immediately before.
        """

    def delete_folder(self, prefix: str) -> None:
        """Remove a folder with its content, if it exists."""

    def remove_leftovers(self, *prefixes: str) -> None:
        """Remove the temporary files of dead writers directly in some folders.

        Without a folder this is the root.

        Listings never show them. Stores that write whole files have none.
        """

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open a file for `pyarrow.parquet.ParquetFile`; the caller closes it."""

    def sub(self, prefix: str) -> Storage:
        """The same store with a folder as root; its paths cannot leave that folder."""
