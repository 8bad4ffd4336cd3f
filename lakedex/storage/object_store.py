"""Tables on S3 and other object stores, through obstore.

`create` and `replace(if_version=...)` are conditional writes of the store itself (If-None-Match
and If-Match on S3), so exactly one writer succeeds. The version of an object is its entity tag and,
if the store has them, its generation. On S3 the tag is a hash of the content: an object that was
changed and changed back has its old version again. If the response of the store is lost and the
request is repeated, `create` may fail because of its own first attempt; callers that must know
compare the content.

Object names are literal, without percent-decoding, as Hadoop and Spark write them.

Errors contain no secrets. obstore's messages quote request addresses (which can contain a
signature), responses of the server (which quote the access key) and a debug dump. Only the address
without its query, and the code and message of the response, are kept.

`memory_storage` is a store in memory with the same behaviour, for tests and experiments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from lakedex.errors import (
    AlreadyExists,
    FileMissing,
    InvalidInput,
    LakedexError,
    StorageError,
    UnsafePath,
    VersionMismatch,
)
from lakedex.storage.object_options import SCHEMES, ObjectStoreOptions, parse_options
from lakedex.storage.paths import is_side_file, normalise, normalise_folder, split
from lakedex.storage.protocol import FileInfo, FileList, NameList
from lakedex.storage.source import ObjectSource, open_source

STORE_ERRORS = (BaseError, OSError, ValueError, TypeError, OverflowError)
_ANSWER = (re.compile(r"<Code>([^<]*)</Code>"), re.compile(r"<Message>([^<]*)</Message>"))
# The metadata services of cloud machines, which a client without credentials tries.
_CREDENTIAL_SERVICE = re.compile(r"://(169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.)")
_CREDENTIALS = {
    "s3": ("aws_access_key_id", "aws_secret_access_key"),
    "gs": ("google_service_account",),
    "az": ("azure_storage_account_key",),
}
"""The options with credentials; the variables of the environment are called the same."""
_PLAIN_HTTP = re.compile(r"(http://[^\s/?]+)")
_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_USER = re.compile(r"([a-z0-9]+://)[^\s/@]+@")
_LONGEST = 600
_EMPTY_FILE = re.compile(r"\.(requested|inflight|marker\.[A-Z]+)$")
"""Files of a table that are empty by design: an object of such a name is no placeholder."""
_Answer = TypeVar("_Answer")
_AUTHORITY = {
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*"),
    "gs": re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*"),
    "az": re.compile(r"[A-Za-z0-9$][A-Za-z0-9\-]*(@[A-Za-z0-9][A-Za-z0-9.\-]*)?"),
}


def translate(error: Exception, action: str, where: str, secrets: Sequence[str]) -> LakedexError:
    """The error to raise when `action` on the object `where` failed with `error`."""
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return FileMissing(f"no object {where}")
    if isinstance(error, AlreadyExistsError):
        return AlreadyExists(f"{where} exists already")
    if isinstance(error, PreconditionError):
        return VersionMismatch(f"{where} changed since it was read")
    reason = redacted(str(error), secrets)
    if isinstance(error, InvalidPathError):
        return UnsafePath(f"unsafe object name below {where}: {reason}")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StorageError(f"cannot {action} {where}: access denied: {reason}")
    kind = SCHEMES.get(where.partition("://")[0], "s3")
    return StorageError(f"cannot {action} {where}: {_advice(kind, str(error)) or reason}")


def _advice(kind: str, text: str) -> str | None:
    """The advice for failures whose own message does not name the cause."""
    if _CREDENTIAL_SERVICE.search(text):
        options = _CREDENTIALS[kind]
        return (
            f"no credentials were found; give them as storage options ({' and '.join(options)}) or "
            f"in the environment ({', '.join(map(str.upper, options))}), or read a public bucket "
            "with skip_signature=true"
        )
    plain = _PLAIN_HTTP.search(text)
    if plain and "builder error" in text:
        option = "aws_allow_http" if kind == "s3" else "allow_http"
        also = " (or AWS_ALLOW_HTTP=true in the environment)" if kind == "s3" else ""
        return (
            f"the endpoint {plain.group(1)} is plain HTTP, which is not allowed; set the storage "
            f"option {option}=true{also}, or use https"
        )
    if "Account must be specified" in text:
        return (
            "the address does not name the storage account; write "
            "abfss://container@account.dfs.core.windows.net/folder, or set the storage option "
            "azure_storage_account_name"
        )
    return None


def redacted(text: str, secrets: Sequence[str]) -> str:
    r"""Remove debug dump, server response, queries of addresses, and given secrets.

    Example:
        >>> redacted("GET https://h/b?sig=abc failed with key k9\n\nDebug source: ...", ["k9"])
        'GET https://h/b?*** failed with key ***'
    """
    kept = text.partition("\n\nDebug source:")[0]
    head, answer, body = kept.partition("<?xml")
    if not answer:
        head, answer, body = kept.partition("<Error")
    details = [match for pattern in _ANSWER for match in pattern.findall(answer + body)]
    words = " ".join([head.strip(), *details])
    words = _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", words))
    for secret in filter(None, secrets):
        words = words.replace(secret, "***")
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


class ObjectStorage:
    """The objects below one prefix of a bucket."""

    __slots__ = ("_address", "_prefix", "_secrets", "_store")

    def __init__(
        self, store: ObjectStore, address: str, prefix: str = "", secrets: Sequence[str] = ()
    ) -> None:
        """Use a store rooted at a bucket; `address` names the bucket, as in `s3://bucket`.

        No message contains a value of `secrets`.
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
        """List the objects directly in a folder."""
        files, _ = self._list_folder(normalise_folder(prefix))
        return files

    def list_recursive(self, prefix: str = "") -> FileList:
        """List the objects in a folder and in all folders below it."""
        folder = normalise_folder(prefix)
        key = self._folder_key(folder)
        found = self._call("list", folder, lambda: obstore.list(self._store, key).collect())
        files = self._files(found, key)
        return self._without_placeholders(files)

    def folders(self, prefix: str = "") -> NameList:
        """List the names of the folders directly in a folder."""
        _, names = self._list_folder(normalise_folder(prefix))
        return names

    def exists(self, path: str) -> bool:
        """Whether there is an object at that path."""
        try:
            self.size(path)
        except FileMissing:
            return False
        return True

    def size(self, path: str) -> int:
        """The size of an object in bytes."""
        key = self._key(path)
        return self._call("inspect", path, lambda: obstore.head(self._store, key))["size"]

    def read(self, path: str) -> bytes:
        """Read the whole object."""
        return self.read_with_version(path)[0]

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """Read the whole object and its version."""
        key = self._key(path)

        def fetch() -> tuple[bytes, str]:
            answer = obstore.get(self._store, key)
            meta = answer.meta
            return bytes(answer.bytes()), _version(meta["e_tag"], meta["version"])

        return self._call("read", path, fetch)

    def source(self, path: str, size: int | None = None) -> ObjectSource:
        """Open an object for ranged reads; neighbouring ranges become one request."""
        return ObjectSource(normalise(path), size, self)

    def create(self, path: str, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a new object, which is always durable."""
        del durable
        key = self._key(path)
        self._call(
            "create", path, lambda: obstore.put(self._store, key, bytes(data), mode="create")
        )

    def make_durable(self, paths: Collection[str]) -> None:
        """Do nothing: every write is durable."""

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """Replace an object."""
        key = self._key(path)
        mode = "overwrite" if if_version is None else _update_mode(if_version)
        answer = self._call(
            "replace",
            path,
            lambda: obstore.put(self._store, key, bytes(data), mode=mode),  # type: ignore[arg-type]
        )
        return _version(answer["e_tag"], answer["version"])

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove an object; its version is looked up immediately before."""
        key = self._key(path)
        if if_version is not None:
            self._check_version(path, if_version)
        try:
            self._call("delete", path, lambda: obstore.delete(self._store, key))
        except FileMissing:
            return

    def delete_folder(self, prefix: str) -> None:
        """Remove all objects below a prefix, including placeholders of folders."""
        folder = normalise(prefix.removesuffix("/"))
        key = self._key(folder)
        found = self._call("list", folder, lambda: obstore.list(self._store, key).collect())
        keys = [item["path"] for item in found if item["path"].startswith(f"{key}/")]
        if keys:
            self._call("delete", folder, lambda: obstore.delete(self._store, keys))

    def remove_leftovers(self, *prefixes: str) -> None:
        """Do nothing: an object is written completely or not at all."""

    def open_parquet_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """Open a file over ranged reads; use it with `pre_buffer=True`, which joins them."""
        return open_source(self.source(path, size))

    def sub(self, prefix: str) -> ObjectStorage:
        """The same store with a folder as root."""
        folder = normalise(prefix.removesuffix("/"))
        return ObjectStorage(self._store, self._address, self._key(folder), self._secrets)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Read `(start, length)` ranges that do not touch; shorter at the end of the object."""
        key = self._key(path)
        starts = [start for start, _ in ranges]
        lengths = [length for _, length in ranges]

        def fetch() -> Sequence[bytes]:
            if len(ranges) == 1:
                one = obstore.get_range(self._store, key, start=starts[0], length=lengths[0])
                return [bytes(one)]
            # obstore's own joining of ranges aborts if the object is shorter than expected.
            many = obstore.get_ranges(self._store, key, starts=starts, lengths=lengths, coalesce=0)
            return [bytes(part) for part in many]

        return self._call("read", path, fetch)

    def _check_version(self, path: str, version: str) -> None:
        try:
            found = self._call("inspect", path, lambda: obstore.head(self._store, self._key(path)))
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
        """The objects as files, without the placeholder of the folder itself."""
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
        """Remove empty objects whose name ends in '/', which represent folders.

        obstore returns them without the '/', as if they were files. If an empty object might be
        one, its parent folder is listed, which distinguishes objects from folders.
        """
        unclear = {f.path for f in files if f.size_bytes == 0 and not _EMPTY_FILE.search(f.path)}
        around = {split(path)[0] for path in unclear}
        real = {file.path for folder in around for file in self._list_folder(folder)[0]}
        return [file for file in files if file.path not in unclear or file.path in real]

    def _call(self, action: str, path: str, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except STORE_ERRORS as error:
            where = f"{self.root}/{path}" if path else self.root
            problem = translate(error, action, where, self._secrets)
        # Raised outside the handler so that the original, unredacted error is not attached to it.
        raise problem


def _version(e_tag: str | None, generation: str | None) -> str:
    if not e_tag and not generation:
        raise StorageError("the objects of this store have no version")
    return f"{e_tag or ''}\n{generation or ''}"


def _update_mode(version: str) -> dict[str, str]:
    e_tag, _, generation = version.partition("\n")
    mode = {"e_tag": e_tag, "version": generation}
    return {name: value for name, value in mode.items() if value}


def open_object_storage(
    scheme: str, authority: str, prefix: str, options: Mapping[str, str]
) -> ObjectStorage:
    """Open a storage at `scheme://authority/prefix`, without a request to the store.

    Example:
        >>> open_object_storage("s3", "lake", "trips", {"aws_region": "eu-west-1"})
        ObjectStorage('s3://lake/trips')
    """
    kind = SCHEMES[scheme]
    if not _AUTHORITY[kind].fullmatch(authority):
        # The authority is not quoted, because some users put keys before the name of the bucket.
        raise InvalidInput(f"the address {scheme}://... does not name a bucket or container")
    parsed = parse_options(kind, options)
    folder = normalise_folder(prefix)
    try:
        store = _open(kind, scheme, authority, parsed)
    except STORE_ERRORS as error:
        reason = _advice(kind, str(error)) or redacted(str(error), tuple(options.values()))
        problem = InvalidInput(f"cannot open {scheme}://{authority}: {reason}")
    else:
        shown = "s3" if kind == "s3" else scheme
        return ObjectStorage(store, f"{shown}://{authority}", folder, parsed.secrets)
    raise problem


def _open(kind: str, scheme: str, authority: str, options: ObjectStoreOptions) -> ObjectStore:
    config: dict[str, str] = options.config
    client: dict[str, str] = options.client
    if kind == "s3":
        return S3Store(authority, config=config, client_options=client)  # type: ignore[arg-type]
    if kind == "gs":
        return GCSStore(authority, config=config, client_options=client)  # type: ignore[arg-type]
    return AzureStore.from_url(
        f"{scheme}://{authority}",
        config=config,  # type: ignore[arg-type]
        client_options=client,  # type: ignore[arg-type]
    )


def memory_storage() -> ObjectStorage:
    """Create an empty store that exists as long as the object.

    Example:
        >>> storage = memory_storage()
        >>> storage.create("a/b.txt", b"hello")
        >>> storage.folders(), storage.read("a/b.txt")
        (['a'], b'hello')
    """
    return ObjectStorage(MemoryStore(), "memory:/")
