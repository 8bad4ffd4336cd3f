"""Hudi's bloom filters: the record keys that a base file may contain.

The text form (base64) is stored in Parquet footers, in HFile meta blocks and in the metadata table.
`BloomFilter.decode` reads either kind, `create_simple` and `create_dynamic` create new ones.
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
