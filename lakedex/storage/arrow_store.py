"""Tables on a file system of pyarrow, such as HDFS.

The guarantees are weaker than those of the other stores. A new file is written under a hidden name
and renamed, so a reader never sees an incomplete file. But whether the name exists, or the version
is unchanged, is checked before the rename, so of two concurrent writers both may succeed: use one
writer at a time. pyarrow does not provide the locks and atomic creates of HDFS.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.fs as pafs

from lakedex.errors import AlreadyExists, FileMissing, StorageError, VersionMismatch
from lakedex.storage.paths import (
    TEMP_PREFIX,
    TEMP_SUFFIX,
    is_side_file,
    is_temp_file,
    normalise,
    normalise_folder,
    split,
)
from lakedex.storage.protocol import FileInfo, FileList, NameList
from lakedex.storage.source import ObjectSource

_LONG_SECONDS = 86_400
"""No file takes this long to write."""


class ArrowStorage:
    """The files below a folder of a `pyarrow.fs.FileSystem`."""

    __slots__ = ("_filesystem", "_folder", "_root")

    def __init__(self, filesystem: pafs.FileSystem, folder: str, root: str) -> None:
        """Root the storage at `folder` of the file system; `root` is its address for display."""
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")
        self._root = root.rstrip("/")

    @property
    def root(self) -> str:
        """The address of the folder, as in `hdfs://host:8020/warehouse/trips`."""
        return self._root

    def __repr__(self) -> str:
        return f"ArrowStorage({self._root!r})"

    def list(self, prefix: str = "") -> FileList:
        """List the files directly in a folder."""
        return self._files(normalise_folder(prefix), recursive=False)

    def list_recursive(self, prefix: str = "") -> FileList:
        """List the files in a folder and in all folders below it."""
        return self._files(normalise_folder(prefix), recursive=True)

    def folders(self, prefix: str = "") -> NameList:
        """List the names of the folders directly in a folder."""
        entries = self._entries(normalise_folder(prefix), recursive=False)
        return sorted(
            split(path)[1] for path, found in entries if found.type == pafs.FileType.Directory
        )

    def exists(self, path: str) -> bool:
        """Whether there is a file at that path."""
        return self._look(path).type == pafs.FileType.File

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        found = self._look(path)
        if found.type != pafs.FileType.File:
            raise FileMissing(f"no file {self._root}/{path}")
        return int(found.size)

    def read(self, path: str) -> bytes:
        """Read the whole file."""
        return self.read_ranges(path, [(0, self.size(path))])[0]

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """Read the whole file and its version: content hash, modification time and size."""
        found = self._look(path)
        data = self.read(path)
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        return data, f"{digest}-{found.mtime_ns or 0}-{len(data)}"

    def source(self, path: str, size: int | None = None) -> ObjectSource:
        """Open a file for ranged reads."""
        return ObjectSource(normalise(path), size, self)

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new file; the module describes the limits of this store."""
        del durable
        temp = self._write_temp(path, data)
        if self._look(path).type != pafs.FileType.NotFound:
            self._discard(temp)
            raise AlreadyExists(f"{self._root}/{path} exists already")
        self._publish(temp, path)

    def make_durable(self, paths: Collection[str]) -> None:
        """Do nothing: every write is durable."""

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Replace a file; the module describes the limits of this store."""
        temp = self._write_temp(path, data)
        if if_version is not None and self._version_or_none(path) != if_version:
            self._discard(temp)
            raise VersionMismatch(f"{self._root}/{path} changed since it was read")
        self._publish(temp, path)
        return self.read_with_version(path)[1]

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove a file; the module describes the limits of this store."""
        if if_version is not None and self._version_or_none(path) != if_version:
            raise VersionMismatch(f"{self._root}/{path} changed since it was read")
        if self.exists(path):
            with self._named("delete", path):
                self._filesystem.delete_file(self._located(path))

    def delete_folder(self, prefix: str) -> None:
        """Remove a folder with its content."""
        folder = normalise(prefix.removesuffix("/"))
        if self._look(folder).type == pafs.FileType.Directory:
            with self._named("delete", folder):
                self._filesystem.delete_dir(self._located(folder))

    def remove_leftovers(self, *prefixes: str) -> None:
        """Remove temporary files directly in some folders that are older than a day."""
        for folder in map(normalise_folder, prefixes or ("",)):
            self._remove_old_temps(folder)

    def _remove_old_temps(self, folder: str) -> None:
        latest_ns = (time.time() - _LONG_SECONDS) * 1e9
        for path, found in self._entries(folder, recursive=False):
            is_old = found.mtime_ns is not None and found.mtime_ns < latest_ns
            if is_old and is_temp_file(split(path)[1]):
                self._discard(self._located(path))

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open the file with pyarrow; `size` is not needed."""
        with self._named("read", path):
            return self._filesystem.open_input_file(self._located(path))

    def sub(self, prefix: str) -> ArrowStorage:
        """The same store with a folder as root."""
        folder = normalise(prefix.removesuffix("/"))
        return ArrowStorage(self._filesystem, f"{self._folder}/{folder}", f"{self._root}/{folder}")

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Read `(start, length)` ranges; shorter at the end of the file."""
        with self.open_parquet_input(path) as file, self._named("read", path):
            # pyarrow allocates the requested length before it checks the size of the file.
            size = file.size()
            return [
                file.read_at(max(0, min(length, size - start)), start) for start, length in ranges
            ]

    def _located(self, path: str) -> str:
        return f"{self._folder}/{normalise(path)}"

    def _look(self, path: str) -> pafs.FileInfo:
        with self._named("inspect", path):
            return self._filesystem.get_file_info(self._located(path))

    def _files(self, folder: str, *, recursive: bool) -> FileList:
        return sorted(
            FileInfo(
                path,
                int(found.size),
                (found.mtime_ns or 0) // 1_000_000,
                str(found.mtime_ns or ""),
            )
            for path, found in self._entries(folder, recursive=recursive)
            if found.type == pafs.FileType.File and not is_side_file(split(path)[1])
        )

    def _entries(self, folder: str, *, recursive: bool) -> Sequence[tuple[str, pafs.FileInfo]]:
        base = f"{self._folder}/{folder}".rstrip("/")
        selector = pafs.FileSelector(base, recursive=recursive, allow_not_found=True)
        with self._named("list", folder):
            found = self._filesystem.get_file_info(selector)
        skip = len(self._folder) + 1
        return [(normalise(info.path[skip:]), info) for info in found]

    def _write_temp(self, path: str, data: bytes | memoryview) -> str:
        located = self._located(path)
        folder = split(located)[0]
        temp = f"{folder}/{TEMP_PREFIX}{secrets.token_hex(8)}{TEMP_SUFFIX}"
        with self._named("write", path):
            self._filesystem.create_dir(folder, recursive=True)
            with self._filesystem.open_output_stream(temp) as stream:
                stream.write(data)
        return temp

    def _publish(self, temp: str, path: str) -> None:
        with self._named("write", path):
            self._filesystem.move(temp, self._located(path))

    def _discard(self, temp: str) -> None:
        with self._named("delete", temp):
            self._filesystem.delete_file(temp)

    def _version_or_none(self, path: str) -> str | None:
        try:
            return self.read_with_version(path)[1]
        except FileMissing:
            return None

    @contextmanager
    def _named(self, action: str, path: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise FileMissing(f"no file {self._root}/{path}") from error
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot {action} {self._root}/{path}: {error}") from error
