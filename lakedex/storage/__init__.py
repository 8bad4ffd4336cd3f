"""Paths and bytes on any store: listing, ranged reads, and conditional writes."""

from __future__ import annotations

from lakedex.storage.local import LocalStorage
from lakedex.storage.open import open_storage
from lakedex.storage.paths import join, normalise, normalise_folder, split
from lakedex.storage.protocol import FileInfo, Storage
from lakedex.storage.source import ByteSource, MemorySource, SourceWindow, check_range

__all__ = [
    "ByteSource",
    "FileInfo",
    "LocalStorage",
    "MemorySource",
    "SourceWindow",
    "Storage",
    "check_range",
    "join",
    "normalise",
    "normalise_folder",
    "open_storage",
    "split",
]
