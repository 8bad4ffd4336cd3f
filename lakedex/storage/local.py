"""Tables on a local (POSIX) file system.

Symbolic links are followed as long as they stay below the root's real folder; one that leaves
it raises `UnsafePath`. A folder is checked once for each storage object: somebody who can
swap folders for links while a table is being read is outside of what this guards against.

The version of a file is its content hash with inode, modification time and size, so a file
that was changed and changed back is another version. `replace(if_version=...)` has one winner
among all lakedex processes of a machine; other programs and other machines that mount the
same disk do not take part in its lock. `create` has one winner among everybody.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from lakedex.errors import AlreadyExists, FileMissing, StorageError, UnsafePath, VersionMismatch
from lakedex.storage.local_files import (
    create_nameless,
    locked_folder,
    make_folders,
    publish_new,
    publish_over,
    remove_checksum,
    remove_dead_temps,
    remove_tree,
    sync_files,
    temp_file,
)
from lakedex.storage.local_source import LocalSource
from lakedex.storage.paths import is_side_file, normalise, normalise_folder, split
from lakedex.storage.protocol import FileInfo, FileList, NameList


class LocalStorage:
    """The files below a local folder, which need not exist yet."""

    __slots__ = ("_checked", "_real_root", "_root")

    def __init__(self, root: str) -> None:
        """Root the storage at a folder; a relative one counts from the working folder."""
        self._root = str(Path(root).absolute())
        self._real_root = os.path.realpath(root)
        self._checked: set[str] = set()

    @property
    def root(self) -> str:
        """The folder as an absolute path."""
        return self._root

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    def list(self, prefix: str = "") -> FileList:
        """The files that lie directly in a folder."""
        with self._reading(prefix):
            entries = self._entries(normalise_folder(prefix))
            files = [_info(path, entry) for path, entry in entries if entry.is_file()]
        return sorted(file for file in files if file is not None)

    def list_recursive(self, prefix: str = "") -> FileList:
        """The files in a folder and in all folders below it; a link to a folder is one too."""
        files: list[FileInfo] = []
        waiting = [normalise_folder(prefix)]
        linked: set[str] = set()
        while waiting:
            folder = waiting.pop()
            with self._reading(folder):
                for path, entry in self._entries(folder):
                    if entry.is_dir():
                        if not entry.is_symlink() or self._is_new_link(entry, linked):
                            waiting.append(path)
                    elif entry.is_file() and (info := _info(path, entry)) is not None:
                        files.append(info)
        return sorted(files)

    def folders(self, prefix: str = "") -> NameList:
        """The names of the folders directly in a folder."""
        with self._reading(prefix):
            entries = self._entries(normalise_folder(prefix))
            return sorted(entry.name for _, entry in entries if entry.is_dir())

    def exists(self, path: str) -> bool:
        """Whether there is a regular file of that path."""
        try:
            self._stat(path)
        except FileMissing:
            return False
        return True

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self._stat(path).st_size

    def read(self, path: str) -> bytes:
        """The whole file."""
        return self._read_state(path)[0]

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """The whole file and its version."""
        data, state = self._read_state(path)
        return data, _version(data, state)

    def source(self, path: str, size: int | None = None) -> LocalSource:
        """Ranged reads of a file."""
        length = self.size(path) if size is None else size
        return LocalSource(normalise(path), length, self._open)

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new file, wholly or not at all; without `durable` a power cut may lose it."""
        target = self._target(path, durable=durable)
        with self._writing("create", path):
            if Path(target).exists():
                raise FileExistsError(errno.EEXIST, "exists")
            if not data and not durable:
                # A file without content is whole as soon as it is there.
                remove_checksum(target)
                Path(target).touch(exist_ok=False)
                return
            remove_checksum(target)
            if not create_nameless(target, data, durable=durable):
                with temp_file(split(target)[0], data) as (temp, _):
                    publish_new(temp, target, data)

    def make_durable(self, paths: Collection[str]) -> None:
        """Force files and their names to the disk; together that costs little more than one."""
        with self._writing("make durable", "files"):
            sync_files([self._located(path) for path in paths], self._root)

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Write a file in place of the old one, wholly or not at all."""
        target = self._target(path)
        folder = split(target)[0]
        with (
            self._writing("replace", path),
            locked_folder(folder, required=if_version is not None),
        ):
            if if_version is not None:
                self._check_version(path, if_version)
            with temp_file(folder, data, mode=_mode_of(target)) as (temp, state):
                remove_checksum(target)
                publish_over(temp, target)
        return _version(data, state)

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove a file and its checksum file."""
        target = self._located(path)
        folder = split(target)[0]
        with self._writing("delete", path):
            try:
                with locked_folder(folder, required=if_version is not None):
                    if if_version is not None:
                        self._check_version(path, if_version)
                    remove_checksum(target)
                    Path(target).unlink(missing_ok=True)
            except (FileNotFoundError, NotADirectoryError):
                if if_version is not None:
                    raise VersionMismatch(f"{self._root}/{path} is gone") from None

    def delete_folder(self, prefix: str) -> None:
        """Remove a folder; a link in it is removed, not what it leads to."""
        folder = normalise(prefix.removesuffix("/"))
        self._check_folder(folder)
        self._checked = {
            known for known in self._checked if not f"{known}/".startswith(f"{folder}/")
        }
        with self._writing("delete", folder):
            remove_tree(f"{self._root}/{folder}")

    def remove_leftovers(self, prefix: str = "") -> None:
        """Remove temporary files directly in a folder that no living process writes."""
        folder = normalise_folder(prefix)
        self._check_folder(folder)
        with self._writing("clear", folder):
            remove_dead_temps(f"{self._root}/{folder}".rstrip("/"))

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file itself, which pyarrow reads with many threads; `size` is not needed."""
        self._stat(path)
        with self._reading(path):
            return pa.OSFile(self._located(path), "r")

    def sub(self, prefix: str) -> LocalStorage:
        """The same store rooted in a folder below."""
        folder = normalise(prefix.removesuffix("/"))
        self._check_folder(folder)
        return LocalStorage(f"{self._root}/{folder}")

    def _located(self, path: str) -> str:
        self._check_folder(split(normalise(path))[0])
        return f"{self._root}/{path}"

    def _target(self, path: str, *, durable: bool = True) -> str:
        target = self._located(path)
        with self._writing("create the folder of", path):
            make_folders(split(target)[0], durable=durable)
        return target

    def _check_folder(self, folder: str) -> None:
        if folder in self._checked:
            return
        self._check_inside(f"{self._root}/{folder}", folder)
        # A folder that is absent now may come as a link later.
        if Path(self._root, folder).is_dir():
            self._checked.add(folder)

    def _check_inside(self, full_path: str, shown: str) -> str:
        real = os.path.realpath(full_path)
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise UnsafePath(f"unsafe path {shown!r}: a symbolic link leaves {self._root}")
        return real

    def _is_new_link(self, entry: os.DirEntry[str], linked: set[str]) -> bool:
        """Whether a linked folder was not walked yet, and does not hold the link itself."""
        real = os.path.realpath(entry.path)
        holder = os.path.realpath(split(entry.path)[0])
        if real in linked or f"{holder}/".startswith(f"{real}/"):
            return False
        linked.add(real)
        return True

    def _entries(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        self._check_folder(folder)
        try:
            scan = os.scandir(f"{self._root}/{folder}")
        except (FileNotFoundError, NotADirectoryError):
            return
        with scan:
            for entry in scan:
                if is_side_file(entry.name):
                    continue
                path = normalise(f"{folder}/{entry.name}" if folder else entry.name)
                if entry.is_symlink() and not Path(self._check_inside(entry.path, path)).exists():
                    continue  # it leads nowhere, or in a circle
                yield path, entry

    def _stat(self, path: str) -> os.stat_result:
        located = self._located(path)
        with self._reading(path):
            state = os.lstat(located)
            if stat.S_ISLNK(state.st_mode):
                state = Path(self._check_inside(located, path)).stat()
            if not stat.S_ISREG(state.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a regular file")
        return state

    def _open(self, path: str) -> int:
        """A handle for reading; a pipe in the place of a file must not block."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        located = self._located(path)
        with self._reading(path):
            try:
                handle = os.open(located, flags | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno not in {errno.ELOOP, errno.EMLINK}:
                    raise
                handle = os.open(self._check_inside(located, path), flags | os.O_NOFOLLOW)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise FileNotFoundError(errno.ENOENT, "not a regular file")
        return handle

    def _read_state(self, path: str) -> tuple[bytes, os.stat_result]:
        handle = self._open(path)
        with self._reading(path), os.fdopen(handle, "rb") as file:
            return file.read(), os.fstat(handle)

    def _check_version(self, path: str, version: str) -> None:
        try:
            found = self.read_with_version(path)[1]
        except FileMissing:
            found = None
        if found != version:
            raise VersionMismatch(f"{self._root}/{path} changed since it was read")

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise FileMissing(f"no file {self._root}/{path}") from error
        except OSError as error:
            raise StorageError(
                f"cannot read {self._root}/{path}: {error.strerror or error}"
            ) from error

    @contextmanager
    def _writing(self, action: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            if action == "create":
                raise AlreadyExists(f"{self._root}/{path} exists already") from error
            raise StorageError(f"cannot {action} {self._root}/{path}: a file is in the way") from (
                error
            )
        except OSError as error:
            raise StorageError(
                f"cannot {action} {self._root}/{path}: {error.strerror or error}"
            ) from error


def _info(path: str, entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        state = entry.stat()
    except FileNotFoundError:
        return None  # deleted since the folder was read
    # Unlike the time of a modification, that of a change cannot be set back.
    stamp = f"{state.st_ino}-{state.st_ctime_ns}"
    return FileInfo(path, state.st_size, state.st_mtime_ns // 1_000_000, stamp)


def _mode_of(target: str) -> int | None:
    """The permissions that a replacement keeps."""
    try:
        return stat.S_IMODE(Path(target).stat().st_mode)
    except FileNotFoundError:
        return None


def _version(data: bytes, state: os.stat_result) -> str:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{digest}-{state.st_ino}-{state.st_mtime_ns}-{state.st_size}"
