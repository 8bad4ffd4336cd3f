"""Tables on a local (POSIX) file system.

Symbolic links are followed if they stay below the real folder of the root; one that leaves it
raises `UnsafePath`. A folder is checked once for each storage object; links that replace folders
while a table is read are not detected.

The version of a file consists of its content hash, inode, modification time and size, so a file
that was changed and changed back has another version. Of concurrent calls of
`replace(if_version=...)` exactly one succeeds among all lakedex processes of a machine; other
programs, and other machines that mount the same disk, do not use its lock. Of concurrent calls of
`create` exactly one succeeds among all of them.

Changes are durable and atomic: bytes are written to a file without a name, or to a hidden temporary
one in the target's folder, flushed to the disk, and published under their name in one step: `link`
for a new file (it fails if the name exists), `rename` for a replaced one. Then the folder is
flushed to the disk, so that the name also survives a power failure.

A source opens its file for each read and does not keep it open: a table has many thousands of
files, which would exhaust the handles of the process, and opening a local file takes microseconds.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from lakedex.errors import (
    AlreadyExists,
    CorruptFile,
    FileMissing,
    StorageError,
    UnsafePath,
    VersionMismatch,
)
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
from lakedex.storage.source import check_range

LOCK_TIMEOUT_S = 30.0
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_TREE_ATTEMPTS = 5
_SYNC_THREADS = 8
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def make_folders(folder: str, *, durable: bool = True) -> None:
    """Create a folder and those above it; flush new ones to the disk if `durable`."""
    missing: list[Path] = []
    current = Path(folder)
    while not current.is_dir():
        missing.append(current)
        current = current.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        if durable:
            sync_folder(str(path.parent))


@contextmanager
def temp_file(
    folder: str, data: bytes | memoryview, *, mode: int | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Create a temporary file in a folder; yield its path, and its state when published.

    Without `mode` it has the permissions of any new file of this process. It is removed at the
    end, unless it was renamed. Its writer holds a lock on it, which the kernel releases when the
    writer dies, so that `remove_dead_temps` can recognise it.
    """
    temp, handle = _locked_temp(folder)
    try:
        yield temp, _fill(handle, data, mode)
    finally:
        Path(temp).unlink(missing_ok=True)
        os.close(handle)


def remove_dead_temps(folder: str) -> None:
    """Remove the temporary files in a folder whose writers are dead.

    If files cannot be locked, nothing is removed.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if is_temp_file(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = f"{folder}/{name}"
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # removed in the meantime, or not a file of lakedex
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(path).unlink(missing_ok=True)
        except OSError:
            continue
        finally:
            os.close(handle)


def publish_new(temp: str, target: str, data: bytes | memoryview) -> None:
    """Publish a temporary file under a new name; `FileExistsError` if the name exists.

    If the file system has no hard links, the target is created exclusively and written in place:
    exactly one writer succeeds, but a reader may see an incomplete file.
    """
    try:
        os.link(temp, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _write_exclusive(target, data)
    sync_folder(str(Path(target).parent))


def create_nameless(target: str, data: bytes | memoryview, *, durable: bool) -> bool:
    """Write a file without a name, then publish it; `FileExistsError` if the name exists.

    A process that dies in between leaves nothing behind. Return False, without any change, if the
    system does not support this.
    """
    if not _NAMELESS:
        return False
    folder = str(Path(target).parent)
    try:
        handle = os.open(folder, _NAMELESS | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOSPC, errno.EROFS}:
            raise
        return False
    try:
        _write_all(handle, data)
        if durable:
            os.fsync(handle)
        try:
            # With a descriptor Python lets the system follow the link to the file without a name.
            os.link(f"/proc/self/fd/{handle}", target, src_dir_fd=handle)
        except OSError as error:
            if error.errno in {*_NO_HARD_LINKS, errno.ENOENT, errno.EXDEV}:
                return False
            raise
    finally:
        os.close(handle)
    if durable:
        sync_folder(folder)
    return True


def publish_over(temp: str, target: str) -> None:
    """Replace a file, which may not exist, by a temporary file."""
    Path(temp).replace(target)
    sync_folder(str(Path(target).parent))


def remove_checksum(target: str) -> None:
    """Remove Hadoop's checksum of a file; with changed content it would fail every Java reader.

    It is removed before the content changes: a file without checksum is not checked, so a crash
    between the two steps is harmless.
    """
    path = Path(target)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def remove_tree(folder: str) -> None:
    """Remove a folder, or a link to one, while other processes may add or remove files."""
    for attempt in range(_TREE_ATTEMPTS):
        try:
            if Path(folder).is_symlink():
                Path(folder).unlink()
            else:
                shutil.rmtree(folder)
        except (FileNotFoundError, NotADirectoryError):
            if not Path(folder).is_dir():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _TREE_ATTEMPTS - 1:
                raise
        else:
            return


@contextmanager
def locked_folder(folder: str, *, required: bool) -> Iterator[None]:
    """Exclude every other replace or delete in a folder, by any thread or process.

    The lock is `flock` on the folder itself: it leaves no file behind, and the kernel releases it
    when its holder dies. Only lakedex uses it, on one machine. If a file system cannot lock a
    folder (some network ones), a `required` lock raises `OSError`.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            _lock(handle, folder)
        except OSError:
            if required:
                raise
        yield
    finally:
        os.close(handle)


def sync_files(paths: Collection[str], root: str) -> None:
    """Flush files and the folders up to a root to the disk, many at the same time."""
    folders = {folder for path in paths for folder in _folders_above(path, root)}
    with ThreadPoolExecutor(max(1, min(_SYNC_THREADS, len(paths)))) as pool:
        list(pool.map(_sync_file, paths))
        list(pool.map(sync_folder, folders))


def _folders_above(path: str, root: str) -> Iterator[str]:
    for folder in Path(path).parents:
        yield str(folder)
        if str(folder) == root or len(folder.parts) == 1:
            return


def _sync_file(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: str) -> None:
    """Flush the names in a folder to the disk, if the file system supports it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise
    finally:
        os.close(handle)


def _locked_temp(folder: str) -> tuple[str, int]:
    """Create a temporary file, locked if the file system supports it."""
    while True:
        temp = f"{folder}/{TEMP_PREFIX}{secrets.token_hex(8)}{TEMP_SUFFIX}"
        handle = os.open(temp, _EXCLUSIVE, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another process has locked it first, and removes it
        except OSError:
            return temp, handle
        else:
            if os.fstat(handle).st_nlink:
                return temp, handle
        os.close(handle)


def _write_exclusive(path: str, data: bytes | memoryview) -> None:
    handle = os.open(path, _EXCLUSIVE, 0o666)
    try:
        _fill(handle, data, None)
    finally:
        os.close(handle)


def _fill(handle: int, data: bytes | memoryview, mode: int | None) -> os.stat_result:
    if mode is not None:
        os.fchmod(handle, mode)
    _write_all(handle, data)
    os.fsync(handle)
    return os.fstat(handle)


def _write_all(handle: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while len(rest) > 0:
        rest = rest[os.write(handle, rest) :]


def _lock(handle: int, folder: str) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    pause_s = 0.001
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    errno.ETIMEDOUT, f"folder locked for {LOCK_TIMEOUT_S:.0f} s", folder
                ) from None
        else:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)


class LocalSource:
    """A `ByteSource` over a file that `open_file` opens, limited to `size` bytes."""

    __slots__ = ("_open_file", "path", "size")

    def __init__(self, path: str, size: int, open_file: Callable[[str], int]) -> None:
        """Read the first `size` bytes of `path`; `open_file(path)` returns a handle."""
        self.path = path
        self.size = size
        self._open_file = open_file

    @property
    def base_offset(self) -> int:
        """Always 0: the source is the whole file."""
        return 0

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`."""
        return self.read_many([(start, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `bytes` for each `(start, length)`."""
        for start, length in ranges:
            check_range(self, start, length)
        with self._opened() as (handle, actual_size):
            return [self._read_range(handle, actual_size, *span) for span in ranges]

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        handle = self._open_file(self.path)
        try:
            yield handle, os.fstat(handle).st_size
        finally:
            os.close(handle)

    def _read_range(self, handle: int, actual_size: int, start: int, length: int) -> bytes:
        # The given size may come from wrong metadata, and `pread` allocates before it reads.
        if start + length > actual_size:
            left = max(0, actual_size - start)
            raise CorruptFile(
                self.path, start, expected=f"{length} bytes", actual=f"{left} bytes left"
            )
        parts: list[bytes] = []
        position, end = start, start + length
        while position < end:
            part = os.pread(handle, end - position, position)
            if not part:
                raise CorruptFile(
                    self.path, position, expected=f"{end - position} bytes", actual="end of file"
                )
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class LocalStorage:
    """The files below a local folder, which need not exist yet."""

    __slots__ = ("_checked", "_real_root", "_root")

    def __init__(self, root: str) -> None:
        """Root the storage at a folder; a relative one is below the working folder."""
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
        """List the files directly in a folder."""
        with self._reading(prefix):
            entries = self._entries(normalise_folder(prefix))
            files = [_info(path, entry) for path, entry in entries if entry.is_file()]
        return sorted(file for file in files if file is not None)

    def list_recursive(self, prefix: str = "") -> FileList:
        """List the files in a folder and in all folders below it, linked folders included."""
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
        """List the names of the folders directly in a folder."""
        with self._reading(prefix):
            entries = self._entries(normalise_folder(prefix))
            return sorted(entry.name for _, entry in entries if entry.is_dir())

    def exists(self, path: str) -> bool:
        """Whether there is a regular file at that path."""
        try:
            self._stat(path)
        except FileMissing:
            return False
        return True

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self._stat(path).st_size

    def read(self, path: str) -> bytes:
        """Read the whole file."""
        return self._read_state(path)[0]

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """Read the whole file and its version."""
        data, state = self._read_state(path)
        return data, _version(data, state)

    def source(self, path: str, size: int | None = None) -> LocalSource:
        """Open a file for ranged reads."""
        length = self.size(path) if size is None else size
        return LocalSource(normalise(path), length, self._open)

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new file, completely or not at all; one not `durable` may be lost."""
        target = self._target(path, durable=durable)
        with self._writing("create", path):
            if Path(target).exists():
                raise FileExistsError(errno.EEXIST, "exists")
            if not data and not durable:
                # A file without content is complete as soon as it exists.
                remove_checksum(target)
                Path(target).touch(exist_ok=False)
                return
            remove_checksum(target)
            if not create_nameless(target, data, durable=durable):
                with temp_file(split(target)[0], data) as (temp, _):
                    publish_new(temp, target, data)

    def make_durable(self, paths: Collection[str]) -> None:
        """Flush files and their names to the disk; all together cost little more than one."""
        with self._writing("make durable", "files"):
            sync_files([self._located(path) for path in paths], self._root)

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Replace a file, completely or not at all."""
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
                    raise VersionMismatch(f"{self._root}/{path} no longer exists") from None

    def delete_folder(self, prefix: str) -> None:
        """Remove a folder; links in it are removed, but not their targets."""
        folder = normalise(prefix.removesuffix("/"))
        self._check_folder(folder)
        self._checked = {
            known for known in self._checked if not f"{known}/".startswith(f"{folder}/")
        }
        with self._writing("delete", folder):
            remove_tree(f"{self._root}/{folder}")

    def remove_leftovers(self, *prefixes: str) -> None:
        """Remove the temporary files of dead writers directly in some folders."""
        for folder in map(normalise_folder, prefixes or ("",)):
            self._check_folder(folder)
            with self._writing("clear", folder):
                remove_dead_temps(f"{self._root}/{folder}".rstrip("/"))

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open the file itself, which pyarrow reads with many threads; `size` is not needed."""
        self._stat(path)
        with self._reading(path):
            return pa.OSFile(self._located(path), "r")

    def sub(self, prefix: str) -> LocalStorage:
        """The same store with a folder as root."""
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
        # A folder that does not exist now may later be created as a link.
        if Path(self._root, folder).is_dir():
            self._checked.add(folder)

    def _check_inside(self, full_path: str, shown: str) -> str:
        real = os.path.realpath(full_path)
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise UnsafePath(f"unsafe path {shown!r}: a symbolic link leaves {self._root}")
        return real

    def _is_new_link(self, entry: os.DirEntry[str], linked: set[str]) -> bool:
        """Whether a linked folder has not been listed yet, and does not contain the link itself."""
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
                    continue  # its target does not exist, or the links form a cycle
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
        """Open a handle for reading; a pipe instead of a file must not block."""
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
        return None  # deleted since the folder was listed
    # Unlike the modification time, the change time cannot be set by a program.
    stamp = f"{state.st_ino}-{state.st_ctime_ns}"
    return FileInfo(path, state.st_size, state.st_mtime_ns // 1_000_000, stamp)


def _mode_of(target: str) -> int | None:
    """The permissions of a file, which its replacement keeps."""
    try:
        return stat.S_IMODE(Path(target).stat().st_mode)
    except FileNotFoundError:
        return None


def _version(data: bytes, state: os.stat_result) -> str:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{digest}-{state.st_ino}-{state.st_mtime_ns}-{state.st_size}"
