"""A table whose files are below several roots, which may be other buckets.

A path that begins with `lakedex-root-<n>/` is below root n of the list that the table stores in
`.hoodie/lakedex.roots`; every other path is below the table's own root. All paths of a table
therefore stay relative and pass the same check. The list in a table is not trusted: a root is used
only if the caller that opens the table allows it, or a folder above it.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import pyarrow as pa

from lakedex.errors import CorruptFile, FileMissing, InvalidInput, UnsafePath
from lakedex.storage.paths import is_remote, normalise, normalise_folder
from lakedex.storage.protocol import FileInfo, FileList, NameList, Storage
from lakedex.storage.source import ByteSource

ROOTS_OPTION = "lakedex.partition.roots"
"""The storage option that allows roots, separated by commas."""
ROOTS_FILE = ".hoodie/lakedex.roots"
FOLDER_START = "lakedex-root-"
_FOLDER = re.compile(rf"{FOLDER_START}(0|[1-9][0-9]{{0,3}})")
_MOST_ROOTS = 1024

OpenRoot = Callable[[str], Storage]


class RootsStorage:
    """A storage that includes the other roots of its table."""

    __slots__ = ("_allowed", "_base", "_found", "_open_root")

    def __init__(self, base: Storage, allowed: Iterable[str], open_root: OpenRoot) -> None:
        """Allow the table at the root of `base` to use other roots.

        Args:
            base: The table's own root.
            allowed: Addresses at or below which other roots may be.
            open_root: Opens an address.
        """
        self._base = base
        self._open_root = open_root
        self._allowed = tuple(_place(open_root(each)) for each in allowed)
        self._found: tuple[Storage, ...] = ()

    @property
    def root(self) -> str:
        """The table's own root."""
        return self._base.root

    def __repr__(self) -> str:
        return f"RootsStorage({self._base!r})"

    def list_roots(self, addresses: Collection[str]) -> None:
        """Set the other roots of a table that has none yet.

        Raises:
            InvalidInput: One is not allowed, named twice, or inside another one or the table.
        """
        found = self._opened(addresses)
        if not 0 < len(found) <= _MOST_ROOTS:
            raise InvalidInput(f"{ROOTS_OPTION} lists 1 to {_MOST_ROOTS} roots")
        self._base.replace(ROOTS_FILE, json.dumps([*addresses]).encode("ascii"))
        self._found = found

    def list(self, prefix: str = "") -> FileList:
        """List the files directly in a folder."""
        storage, start, rest = self._folder(prefix)
        return _below(start, storage.list(rest))

    def list_recursive(self, prefix: str = "") -> FileList:
        """List the files in a folder and below it; for the root also those of other roots."""
        storage, start, rest = self._folder(prefix)
        found = _below(start, storage.list_recursive(rest))
        if start or rest:
            return found
        for number, other in enumerate(self._roots()):
            found += _below(f"{FOLDER_START}{number}/", other.list_recursive())
        return sorted(found)

    def folders(self, prefix: str = "") -> NameList:
        """List the names of the folders directly in a folder; for the root also other roots."""
        storage, start, rest = self._folder(prefix)
        found = storage.folders(rest)
        if start or rest:
            return found
        others = [f"{FOLDER_START}{number}" for number in range(len(self._roots()))]
        return sorted({*found, *others})

    def exists(self, path: str) -> bool:
        """Whether there is a file at that path."""
        storage, rest = self._file(path)
        return storage.exists(rest)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        storage, rest = self._file(path)
        return storage.size(rest)

    def read(self, path: str) -> bytes:
        """Read the whole file."""
        storage, rest = self._file(path)
        return storage.read(rest)

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """Read the whole file, with a token for `replace(if_version=...)`."""
        storage, rest = self._file(path)
        return storage.read_with_version(rest)

    def source(self, path: str, size: int | None = None) -> ByteSource:
        """Open a file for ranged reads."""
        storage, rest = self._file(path)
        return storage.source(rest, size)

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new file, completely or not at all."""
        storage, rest = self._file(path)
        storage.create(rest, data, durable=durable)

    def make_durable(self, paths: Collection[str]) -> None:
        """Flush files to the disk, those of each root at once."""
        places: dict[int, tuple[Storage, builtins.list[str]]] = {}
        for path in paths:
            storage, rest = self._file(path)
            places.setdefault(id(storage), (storage, []))[1].append(rest)
        for storage, group in places.values():
            storage.make_durable(group)

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Replace a file, completely or not at all."""
        storage, rest = self._file(path)
        return storage.replace(rest, data, if_version=if_version)

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove a file."""
        storage, rest = self._file(path)
        storage.delete(rest, if_version=if_version)

    def delete_folder(self, prefix: str) -> None:
        """Remove a folder with its content; never a whole root."""
        storage, start, rest = self._folder(prefix)
        if start and not rest:
            raise UnsafePath(f"unsafe path {prefix!r}: it is a whole root")
        storage.delete_folder(rest)

    def remove_leftovers(self, *prefixes: str) -> None:
        """Remove the temporary files of dead writers directly in some folders."""
        for prefix in prefixes or ("",):
            storage, _, rest = self._folder(prefix)
            storage.remove_leftovers(rest)

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open a file for `pyarrow.parquet.ParquetFile`."""
        storage, rest = self._file(path)
        return storage.open_parquet_input(rest, size)

    def sub(self, prefix: str) -> Storage:
        """The same store with a folder as root."""
        storage, start, rest = self._folder(prefix)
        return storage.sub(rest) if start or rest else self

    def _file(self, path: str) -> tuple[Storage, str]:
        storage, start, rest = self._folder(normalise(path))
        if start and not rest:
            raise UnsafePath(f"unsafe path {path!r}: it is a whole root")
        return storage, rest

    def _folder(self, prefix: str) -> tuple[Storage, str, str]:
        """The storage of a path, the prefix of its paths here, and the path in it."""
        path = normalise_folder(prefix)
        first, _, rest = path.partition("/")
        match = _FOLDER.fullmatch(first)
        if match is None:
            return self._base, "", path
        number, roots = int(match.group(1)), self._roots()
        if number >= len(roots):
            raise UnsafePath(f"unsafe path {path[:200]!r}: the table lists {len(roots)} roots")
        return roots[number], f"{first}/", rest

    def _roots(self) -> tuple[Storage, ...]:
        """The roots that the table lists; a list never changes once it exists."""
        if not self._found:
            try:
                data = self._base.read(ROOTS_FILE)
            except FileMissing:
                return ()
            self._found = self._opened(_decoded(data))
        return self._found

    def _opened(self, addresses: Iterable[str]) -> tuple[Storage, ...]:
        taken = [_place(self._base)]
        found = []
        for address in addresses:
            storage = self._open_root(address)
            place = _place(storage)
            if not any(place.startswith(each) for each in self._allowed):
                raise InvalidInput(
                    f"the table at {self.root} keeps files in {storage.root}, which the storage "
                    f"option {ROOTS_OPTION} does not allow"
                )
            for other in taken:
                if place.startswith(other) or other.startswith(place):
                    raise InvalidInput(
                        f"{ROOTS_OPTION}: {storage.root} and {other.rstrip('/')} overlap"
                    )
            taken.append(place)
            found.append(storage)
        return tuple(found)


def root_addresses(text: str) -> tuple[str, ...]:
    """Split addresses that are separated by commas.

    Example:
        >>> root_addresses("s3://hot/trips, /mnt/cold")
        ('s3://hot/trips', '/mnt/cold')
    """
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _decoded(data: bytes) -> builtins.list[str]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    is_list = isinstance(found, list) and 0 < len(found) <= _MOST_ROOTS
    if not is_list or not all(isinstance(each, str) and each for each in found):
        raise CorruptFile(ROOTS_FILE, 0, expected="a list of roots", actual=f"{data[:80]!r}")
    return found


def _place(storage: Storage) -> str:
    """The text of a root, for the check whether one root contains another."""
    root = storage.root.rstrip("/") + "/"
    inner = root if not is_remote(root) else root.partition("://")[2]
    if any(part in {".", ".."} for part in inner.split("/")):
        raise InvalidInput(f"{ROOTS_OPTION}: {storage.root} contains '.' or '..'")
    return root


def _below(start: str, files: Iterable[FileInfo]) -> FileList:
    return [replace(each, path=start + each.path) for each in files] if start else [*files]
