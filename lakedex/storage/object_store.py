"""Tables on S3 and other object stores, through obstore.

`create` and `replace(if_version=...)` are conditional writes of the store itself (If-None-Match
and If-Match on S3), so they have one winner among all writers everywhere. The version of an
object is its entity tag and, where the store has them, its generation. On S3 the tag is a hash
of the content: an object that was changed and changed back has its old version again. When a
store's answer is lost and the request repeated, the loser of a `create` may be its own earlier
try; who must know compares the content.

Object names are taken literally, with no percent-decoding, as Hadoop and Spark write them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import obstore
import pyarrow as pa
from obstore.store import ObjectStore

from lakedex.errors import FileMissing, StorageError, VersionMismatch
from lakedex.storage.object_errors import STORE_ERRORS, translate
from lakedex.storage.object_source import ObjectSource
from lakedex.storage.paths import is_side_file, normalise, normalise_folder, split
from lakedex.storage.protocol import FileInfo, FileList, NameList
from lakedex.storage.source_file import open_source

_Answer = TypeVar("_Answer")


class ObjectStorage:
    """The objects below one prefix of a bucket."""

    __slots__ = ("_address", "_prefix", "_secrets", "_store")

    def __init__(
        self, store: ObjectStore, address: str, prefix: str = "", secrets: Sequence[str] = ()
    ) -> None:
        """Take a store rooted at a bucket; `address` names the bucket, as in `s3://bucket`.

        Values in `secrets` are kept out of every message.
        """
        self._store = store
        self._address = address
        self._prefix = normalise_folder(prefix)
        self._secrets = tuple(secrets)

    @property
    def root(self) -> str:
        """The address of the prefix, as in `s3://bucket/prefix`."""
        return f"{self._address}/{self._prefix}" if self._prefix else self._address

    def __repr__(self) -> str:
        return f"ObjectStorage({self.root!r})"

    def list(self, prefix: str = "") -> FileList:
        """The objects that lie directly in a folder."""
        files, _ = self._list_folder(normalise_folder(prefix))
        return files

    def list_recursive(self, prefix: str = "") -> FileList:
        """The objects in a folder and in all folders below it."""
        folder = normalise_folder(prefix)
        key = self._folder_key(folder)
        found = self._call("list", folder, lambda: obstore.list(self._store, key).collect())
        files = self._files(found, key)
        return self._without_placeholders(files)

    def folders(self, prefix: str = "") -> NameList:
        """The names of the folders directly in a folder."""
        _, names = self._list_folder(normalise_folder(prefix))
        return names

    def exists(self, path: str) -> bool:
        """Whether there is an object of that path."""
        try:
            self.size(path)
        except FileMissing:
            return False
        return True

    def size(self, path: str) -> int:
        """The size of an object in bytes."""
        key = self._key(path)
        return self._call("look at", path, lambda: obstore.head(self._store, key))["size"]

    def read(self, path: str) -> bytes:
        """The whole object."""
        return self.read_with_version(path)[0]

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """The whole object and its version."""
        key = self._key(path)

        def fetch() -> tuple[bytes, str]:
            answer = obstore.get(self._store, key)
            meta = answer.meta
            return bytes(answer.bytes()), _version(meta["e_tag"], meta["version"])

        return self._call("read", path, fetch)

    def source(self, path: str, size: int | None = None) -> ObjectSource:
        """Ranged reads of an object; near ranges become one request."""
        return ObjectSource(normalise(path), size, self)

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new object, which is always durable."""
        del durable
        key = self._key(path)
        self._call(
            "create", path, lambda: obstore.put(self._store, key, bytes(data), mode="create")
        )

    def make_durable(self, paths: Collection[str]) -> None:
        """What is written here is durable at once."""

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Write an object in place of the old one."""
        key = self._key(path)
        mode = "overwrite" if if_version is None else _update_mode(if_version)
        answer = self._call(
            "replace",
            path,
            lambda: obstore.put(self._store, key, bytes(data), mode=mode),  # type: ignore[arg-type]
        )
        return _version(answer["e_tag"], answer["version"])

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove an object; with a version, which is looked up just before."""
        key = self._key(path)
        if if_version is not None:
            self._check_version(path, if_version)
        try:
            self._call("delete", path, lambda: obstore.delete(self._store, key))
        except FileMissing:
            return

    def delete_folder(self, prefix: str) -> None:
        """Remove all objects below a prefix, placeholders of folders too."""
        folder = normalise(prefix.removesuffix("/"))
        key = self._key(folder)
        found = self._call("list", folder, lambda: obstore.list(self._store, key).collect())
        keys = [item["path"] for item in found if item["path"].startswith(f"{key}/")]
        if keys:
            self._call("delete", folder, lambda: obstore.delete(self._store, keys))

    def remove_leftovers(self, prefix: str = "") -> None:
        """Nothing is left here: an object is there as a whole or not at all."""

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A file over ranged reads; best with `pre_buffer=True`, which joins them."""
        return open_source(self.source(path, size))

    def sub(self, prefix: str) -> ObjectStorage:
        """The same store rooted in a folder below."""
        folder = normalise(prefix.removesuffix("/"))
        return ObjectStorage(self._store, self._address, self._key(folder), self._secrets)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The bytes of `(start, length)` ranges that do not touch, shorter where it ends."""
        key = self._key(path)
        starts = [start for start, _ in ranges]
        lengths = [length for _, length in ranges]

        def fetch() -> Sequence[bytes]:
            if len(ranges) == 1:
                one = obstore.get_range(self._store, key, start=starts[0], length=lengths[0])
                return [bytes(one)]
            # obstore's own joining of ranges aborts when the object is shorter than promised.
            many = obstore.get_ranges(self._store, key, starts=starts, lengths=lengths, coalesce=0)
            return [bytes(part) for part in many]

        return self._call("read", path, fetch)

    def _check_version(self, path: str, version: str) -> None:
        try:
            found = self._call("look at", path, lambda: obstore.head(self._store, self._key(path)))
            same = _version(found["e_tag"], found["version"]) == version
        except FileMissing:
            same = False
        if not same:
            raise VersionMismatch(f"{self.root}/{path} changed since it was read")

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{normalise(path)}" if self._prefix else normalise(path)

    def _folder_key(self, folder: str) -> str:
        return self._key(folder) if folder else self._prefix

    def _list_folder(self, folder: str) -> tuple[FileList, NameList]:
        key = self._folder_key(folder)
        found = self._call(
            "list", folder, lambda: obstore.list_with_delimiter(self._store, key or None)
        )
        names = [split(normalise(prefix))[1] for prefix in found["common_prefixes"]]
        return self._files(found["objects"], key), sorted(names)

    def _files(self, objects: Sequence[obstore.ObjectMeta], folder_key: str) -> FileList:
        """The objects as files; the placeholder of the folder itself is left out."""
        skip = len(self._prefix) + 1 if self._prefix else 0
        return sorted(
            FileInfo(
                normalise(found["path"][skip:]),
                found["size"],
                int(found["last_modified"].timestamp() * 1000),
                f"{found['e_tag'] or ''}{found['version'] or ''}",
            )
            for found in objects
            if found["path"] != folder_key and not is_side_file(split(found["path"])[1])
        )

    def _without_placeholders(self, files: FileList) -> FileList:
        """Leave out empty objects whose name ends in '/', which stand for folders.

        obstore shows them without the '/', as if they were files. Where an empty object might
        be one, the folder around it is listed, which tells objects and folders apart.
        """
        around = {split(file.path)[0] for file in files if file.size_bytes == 0}
        real = {file.path for folder in around for file in self._list_folder(folder)[0]}
        return [file for file in files if file.size_bytes > 0 or file.path in real]

    def _call(self, action: str, path: str, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except STORE_ERRORS as error:
            where = f"{self.root}/{path}" if path else self.root
            problem = translate(error, action, where, self._secrets)
        # Raised out here so that the original, unredacted error is not attached to it.
        raise problem


def _version(e_tag: str | None, generation: str | None) -> str:
    if not e_tag and not generation:
        raise StorageError("the store gives its objects no version")
    return f"{e_tag or ''}\n{generation or ''}"


def _update_mode(version: str) -> dict[str, str]:
    e_tag, _, generation = version.partition("\n")
    mode = {"e_tag": e_tag, "version": generation}
    return {name: value for name, value in mode.items() if value}
