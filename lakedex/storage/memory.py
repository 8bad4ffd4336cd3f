"""A store in memory with the full behaviour of an object store, for tests and experiments."""

from __future__ import annotations

from obstore.store import MemoryStore

from lakedex.storage.object_store import ObjectStorage


def memory_storage() -> ObjectStorage:
    """Create an empty store that exists as long as the object.

    Example:
        >>> storage = memory_storage()
        >>> storage.create("a/b.txt", b"hello")
        >>> storage.folders(), storage.read("a/b.txt")
        (['a'], b'hello')
    """
    return ObjectStorage(MemoryStore(), "memory:/")
