"""What every store can do, seen from the root of one table.

All paths are relative to the root and pass `paths.normalise`. Listings are sorted by path and
leave out side files (`paths.is_side_file`). Folders are only names on the way to a file: asking
for one as if it were a file finds nothing, and an empty one is seen on some stores (local
files) and cannot exist on others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from lakedex.storage.source import ByteSource


@dataclass(frozen=True, slots=True, order=True)
class FileInfo:
    """A file as a listing shows it; `path` is relative to the root of the storage.

    Example:
        >>> FileInfo("city=Oslo/a.parquet", 434_561, 1_700_000_000_000).path
        'city=Oslo/a.parquet'
    """

    path: str
    size_bytes: int
    modified_ms: int
    stamp: str = field(default="", compare=False)
    """Another one for another content under the same path; empty where the store has none."""


FileList: TypeAlias = list[FileInfo]
NameList: TypeAlias = list[str]


@runtime_checkable
class Storage(Protocol):
    """The files below one root, on any store."""

    @property
    def root(self) -> str:
        """The place that all paths are relative to, for people to read; holds no secrets."""

    def list(self, prefix: str = "") -> FileList:
        """The files that lie directly in a folder; none when the folder is absent."""

    def list_recursive(self, prefix: str = "") -> FileList:
        """The files in a folder and in all folders below it."""

    def folders(self, prefix: str = "") -> NameList:
        """The names (not paths) of the folders directly in a folder, sorted."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""

    def size(self, path: str) -> int:
        """The size of a file in bytes; `FileMissing` when it is absent."""

    def read(self, path: str) -> bytes:
        """The whole file; `FileMissing` when it is absent."""

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """The whole file, and a token for `replace(if_version=...)`."""

    def source(self, path: str, size: int | None = None) -> ByteSource:
        """Ranged reads of a file; a `size` from a listing saves asking for it.

        A missing file raises `FileMissing` here or at the first read, and a file shorter than
        `size` raises `CorruptFile` where bytes lack.
        """

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new file, wholly or not at all; `AlreadyExists` when there is one.

        A file that is not `durable` may be gone after a power cut, and is made faster where
        the store can do that.
        """

    def make_durable(self, paths: Collection[str]) -> None:
        """Force files that were created without `durable` to the disk, all at once."""

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Write a file in place of the old one, wholly or not at all; answer its version.

        With `if_version`, only when the file is still the one that was read with that
        version; else `VersionMismatch`, also when the file is gone.
        """

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove a file; one that is absent already is fine.

        With `if_version`, only when the file is still the one that was read with that
        version; else `VersionMismatch`, also when the file is gone. Object stores have no such
        request: there the version is looked up just before.
        """

    def delete_folder(self, prefix: str) -> None:
        """Remove a folder with all that is in it; one that is absent already is fine."""

    def remove_leftovers(self, *prefixes: str) -> None:
        """Remove temporary files that dead writers left directly in some folders.

        Without a folder this is the root.

        No listing shows them, with or without this. Stores that write whole files have none.
        """

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A file that `pyarrow.parquet.ParquetFile` can read; the caller closes it."""

    def sub(self, prefix: str) -> Storage:
        """The same store rooted deeper; its paths cannot climb out of that folder."""
