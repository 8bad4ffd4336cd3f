"""Opens the storage of an address; these are the supported addresses.

| address | store |
| --- | --- |
| `folder`, `/folder`, `file:///folder`, `file:/folder` | local files |
| `s3://bucket/prefix`, `s3a://...` | S3 and compatible stores |
| `gs://bucket/prefix` | Google Cloud Storage |
| `abfss://container@account.dfs.core.windows.net/prefix`, `abfs://...` | Azure |
| `az://container/prefix` | Azure, its account named by an option |
| `hdfs://host:port/folder` | HDFS, through pyarrow and an installed libhdfs |

Addresses are literal except those of `file:`, which are percent-decoded as `Path.as_uri` writes
them. The option `lakedex.partition.roots` allows the table to store files at other addresses too.

A `StorageAddress` is an address with its options, in a form that can be sent to workers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from lakedex.errors import InvalidInput, StorageError
from lakedex.storage.arrow_store import ArrowStorage
from lakedex.storage.local import LocalStorage
from lakedex.storage.object_options import SCHEMES
from lakedex.storage.paths import normalise_folder
from lakedex.storage.protocol import Storage
from lakedex.storage.roots import ROOTS_OPTION, RootsStorage, root_addresses

try:
    from lakedex.storage.object_store import open_object_storage
except ModuleNotFoundError as missing:
    # Workers that read bytes passed to them may have pyarrow only.
    if missing.name is None or missing.name.partition(".")[0] != "obstore":
        raise
    open_object_storage = None  # type: ignore[assignment]


def open_storage(url: str, options: Mapping[str, str] | None = None) -> Storage:
    """Open the storage rooted at an address.

    Args:
        url: The address of the table.
        options: Settings and credentials of the store, as in `object_options`; missing ones come
            from the environment.

    Example:
        >>> open_storage("/data/trips").root
        '/data/trips'
        >>> open_storage("ftp://host/trips")
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: storage scheme 'ftp' is not supported
    """
    given = dict(options or {})
    allowed = root_addresses(given.pop(ROOTS_OPTION, ""))
    base = _open_one(url, given)
    if not allowed:
        return base
    scheme = _scheme(url)

    def open_root(address: str) -> Storage:
        # The options of one kind of store do not apply to another.
        is_alike = SCHEMES.get(_scheme(address)) == SCHEMES.get(scheme)
        return _open_one(address, given if is_alike else {})

    return RootsStorage(base, allowed, open_root)


def _open_one(url: str, given: dict[str, str]) -> Storage:
    if url == "" or "\x00" in url:
        raise InvalidInput("the address of a table must be a string that is not empty")
    scheme = _scheme(url)
    if scheme in {"", "file"}:
        return _open_local(url, given)
    _, _, rest = url.partition("://")
    authority, _, prefix = rest.partition("/")
    if scheme == "hdfs":
        return _open_hdfs(authority, prefix, given)
    if scheme in SCHEMES:
        if open_object_storage is None:
            raise StorageError(f"{scheme}:// needs the package obstore, which is not installed")
        return open_object_storage(scheme, authority, prefix, given)
    raise InvalidInput(f"storage scheme {scheme!r} is not supported")


def _scheme(url: str) -> str:
    match = _SCHEME.match(url)
    return match.group(1).lower() if match else ""


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/")
_HDFS_OPTIONS = {"user": "user", "kerb_ticket": "kerb_ticket"}


def _open_local(url: str, options: Mapping[str, str]) -> LocalStorage:
    for name in options:
        raise InvalidInput(f"unknown storage option {name!r} for local files")
    if not _SCHEME.match(url):
        return LocalStorage(url)
    rest = unquote(url[len("file:") :])
    if rest.startswith("//"):
        host, slash, folder = rest[2:].partition("/")
        if host not in {"", "localhost"} or not slash:
            raise InvalidInput(f"a file address must not name a host: {url!r}")
        rest = f"/{folder}"
    if "\x00" in rest:
        raise InvalidInput("the address of a table must not contain a zero character")
    return LocalStorage(rest)


def _open_hdfs(authority: str, prefix: str, options: Mapping[str, str]) -> ArrowStorage:
    for name in options:
        if name not in _HDFS_OPTIONS:
            raise InvalidInput(f"unknown storage option {name!r} for hdfs")
    host, _, port = authority.partition(":")
    if "@" in authority or (port and not port.isdecimal()):
        raise InvalidInput("an hdfs address is hdfs://host:port/folder")
    folder = normalise_folder(prefix)
    try:
        filesystem = pafs.HadoopFileSystem(host or "default", int(port or 0), **options)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot reach hdfs://{authority}: {error}") from error
    return ArrowStorage(filesystem, f"/{folder}", f"hdfs://{authority}/{folder}")


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """A table's address with the settings of its store, which are never printed.

    Example:
        >>> StorageAddress.of("/data/trips", {}).open().root
        '/data/trips'
    """

    url: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, url: str, options: Mapping[str, str] | None = None) -> StorageAddress:
        """The address of a URL or path."""
        return cls(url, tuple(sorted((options or {}).items())))

    def open(self) -> Storage:
        """Open the storage at the address, once per process."""
        return _opened(self)


@lru_cache(maxsize=64)
def _opened(address: StorageAddress) -> Storage:
    return open_storage(address.url, dict(address.settings))
