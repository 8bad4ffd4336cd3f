"""The address of a table in a form that can be sent to workers, which open the storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from lakedex.storage.open import open_storage
from lakedex.storage.protocol import Storage


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
