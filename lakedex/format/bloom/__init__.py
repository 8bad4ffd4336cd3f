"""Hudi's bloom filters: which record keys a base file may hold.

The text form (base64) stands in Parquet footers, in HFile meta blocks and in the metadata
table. `BloomFilter.decode` reads either kind, `create_simple` and `create_dynamic` make new ones.
"""

from __future__ import annotations

from lakedex.format.bloom.filter import (
    BloomFilter,
    DynamicBloomFilter,
    SimpleBloomFilter,
)
from lakedex.format.bloom.murmur import bloom_hashes, murmur_hash

__all__ = [
    "BloomFilter",
    "DynamicBloomFilter",
    "SimpleBloomFilter",
    "bloom_hashes",
    "murmur_hash",
]
