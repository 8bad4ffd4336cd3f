"""Durable, all-or-nothing changes of files on a POSIX file system.

Bytes go to a file without a name, or to a hidden temporary one in the target's own folder, are
forced to the disk, and appear under their name in one step: `link` for a new file (it fails when
the name is taken), `rename` for a replaced one. The folder is forced to the disk after, so that
the name survives a power cut as well.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lakedex.storage.paths import TEMP_PREFIX, TEMP_SUFFIX, is_temp_file

LOCK_TIMEOUT_S = 30.0
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_TREE_ATTEMPTS = 5
_SYNC_THREADS = 8


def make_folders(folder: str, *, durable: bool = True) -> None:
    """Make a folder and those above it, each forced to the disk where it is new and `durable`."""
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
    """A temporary file in a folder: its path, and its state as it will be published.

    Without `mode` it gets the permissions that any new file of this process gets. It is gone in
    the end, unless it was renamed. Its writer holds a lock on it, which the kernel frees when the
    writer dies: that is how `remove_dead_temps` tells.
    """
    temp, handle = _locked_temp(folder)
    try:
        yield temp, _fill(handle, data, mode)
    finally:
        Path(temp).unlink(missing_ok=True)
        os.close(handle)


def remove_dead_temps(folder: str) -> None:
    """Remove the temporary files in a folder whose writers are dead.

    Where files cannot be locked nothing is removed.
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
            continue  # gone meanwhile, or none of ours
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(path).unlink(missing_ok=True)
        except OSError:
            continue
        finally:
            os.close(handle)


def publish_new(temp: str, target: str, data: bytes | memoryview) -> None:
    """Give a temporary file a name nobody has yet, else `FileExistsError`.

    Where the file system has no hard links the target is made exclusively and written in
    place: still one winner, but a reader may meet it half written.
    """
    try:
        os.link(temp, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _write_exclusive(target, data)
    sync_folder(str(Path(target).parent))


def create_nameless(target: str, data: bytes | memoryview, *, durable: bool) -> bool:
    """Write a file that has no name, then give it one nobody has yet, else `FileExistsError`.

    A process that dies in between leaves nothing behind. Answers False, with nothing done, where
    the system cannot do that.
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
            # With a descriptor Python asks the system to follow the link to the nameless file.
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
    """Put a temporary file in the place of a file, which may be absent."""
    Path(temp).replace(target)
    sync_folder(str(Path(target).parent))


def remove_checksum(target: str) -> None:
    """Remove Hadoop's checksum of a file; of changed content it would fail every Java reader.

    Called before the content changes: a file without checksum is not checked at all, so a
    crash between the two steps does no harm.
    """
    path = Path(target)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def remove_tree(folder: str) -> None:
    """Remove a folder, or a link to one, while others may add files to it or remove them."""
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
    """Keep every other replace or delete in a folder out, of any thread or process.

    The lock is `flock` on the folder itself: nothing is left behind, and the kernel frees it
    when its holder dies. It binds lakedex only, on one machine. A file system that cannot
    lock a folder (some network ones) raises `OSError` when the lock is `required`.
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
    """Force files and the folders up to a root to the disk, many at the same time."""
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
    """Force the names in a folder to the disk, where the file system can."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise
    finally:
        os.close(handle)


_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def _locked_temp(folder: str) -> tuple[str, int]:
    """A new temporary file, locked as far as the file system can."""
    while True:
        temp = f"{folder}/{TEMP_PREFIX}{secrets.token_hex(8)}{TEMP_SUFFIX}"
        handle = os.open(temp, _EXCLUSIVE, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # somebody who clears up was quicker, and removes it
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
