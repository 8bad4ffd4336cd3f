"""Hashes that place keys: Java's string hash for shards, xxHash64 and MD5 for index keys.

A key's file group is `abs(abs(hash) % n)` with Java's `String.hashCode` over UTF-16 units, so
both the 31-fold polynomial and the 32-bit overflow are part of the format. It is computed for a
whole column at a time: the hash is the sum of `unit[i] * 31**(length-1-i)` modulo 2**32.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import InvalidInput

_XXH64_SEED = 0xFFFFFFFFDABADABA
_HASH_ROWS = 1 << 15
"""So many strings are hashed at a time: what is made on the way then stays in the cache."""
Int32s = npt.NDArray[np.int32]
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64 = np.frombuffer(_LETTERS, dtype=np.uint8)
_ID_LETTERS = 24


def java_hashes(keys: pa.Array) -> Int32s:
    """Java's `String.hashCode` of each string.

    Example:
        >>> java_hashes(pa.array(["k1", "", "é", "東京"])).tolist()
        [3366, 0, 233, 841051]
    """
    starts = range(0, len(keys), _HASH_ROWS)
    parts = [_hash_part(*_utf16_units(keys.slice(start, _HASH_ROWS))) for start in starts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def _hash_part(units: npt.NDArray[np.uint16], lengths: npt.NDArray[np.int64]) -> Int32s:
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        return _even_hashes(units.reshape(len(lengths), longest))
    powers = np.ones(longest + 1, dtype=np.uint32)
    if longest:
        powers[1:] = np.cumprod(np.full(longest, 31, dtype=np.uint32), dtype=np.uint32)
    ends = np.cumsum(lengths)
    # The weight of a unit is 31 to the power of how many units of its string follow it.
    weights = powers[np.repeat(ends, lengths) - 1 - np.arange(len(units))]
    sums = np.zeros(len(units) + 1, dtype=np.uint32)
    np.cumsum(units.astype(np.uint32) * weights, dtype=np.uint32, out=sums[1:])
    return (sums[ends] - sums[ends - lengths]).view(np.int32)


def _even_hashes(units: npt.NDArray[np.uint16]) -> Int32s:
    """The hashes of strings that are equally long: one row each."""
    hashes = np.zeros(len(units), dtype=np.uint32)
    for column in np.ascontiguousarray(units.T):
        hashes *= np.uint32(31)
        hashes += column
    return hashes.view(np.int32)


def shards_of(keys: pa.Array, shard_count: int) -> Int32s:
    """The file group number of each key among `shard_count` groups.

    Example:
        >>> shards_of(pa.array(["k1", "k2", "k3", "k4"]), 2).tolist()
        [0, 1, 0, 1]
    """
    if shard_count < 1:
        raise InvalidInput(f"an index needs at least one file group, not {shard_count}")
    return shard_numbers(java_hashes(keys), shard_count)


def shard_numbers(hashes: Int32s, shard_count: int | npt.NDArray[np.int64]) -> Int32s:
    """The file group number of each hash; there may be another number of groups for each."""
    wide = hashes.astype(np.int64)
    positive = np.abs(wide)
    # Java's abs leaves the smallest int negative, and its remainder keeps that sign.
    smallest = positive == 1 << 31
    shards = positive % shard_count
    return np.where(smallest, np.abs(np.fmod(wide, shard_count)), shards).astype(np.int32)


def name_id(name: str) -> str:
    """The base64 form of a name's xxHash64: columns and partitions in index keys.

    Example:
        >>> name_id("driver")
        'AjpJ7N1gBZc='
    """
    import xxhash  # noqa: PLC0415 - workers place keys by shard only, and may lack it

    digest = xxhash.xxh64_digest(name.encode(), seed=_XXH64_SEED)
    return base64.b64encode(digest).decode()


def file_name_id(name: str) -> str:
    """The base64 form of a file name's MD5, as in index keys.

    Example:
        >>> len(file_name_id("a.parquet"))
        24
    """
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode()


def file_name_ids(names: Sequence[str]) -> pa.Array:
    """The ids of many file names at once.

    Example:
        >>> file_name_ids(["a.parquet"])[0].as_py() == file_name_id("a.parquet")
        True
    """
    md5 = hashlib.md5
    digests = b"".join([md5(name.encode(), usedforsecurity=False).digest() for name in names])
    octets = np.zeros((len(names), 18), dtype=np.uint8)
    octets[:, :16] = np.frombuffer(digests, dtype=np.uint8).reshape(-1, 16)
    first, second, third = octets.reshape(-1, 6, 3).transpose(2, 0, 1)
    sixes = np.empty((len(names), 6, 4), dtype=np.uint8)
    sixes[..., 0] = first >> 2
    sixes[..., 1] = (first & 3) << 4 | second >> 4
    sixes[..., 2] = (second & 15) << 2 | third >> 6
    sixes[..., 3] = third & 63
    letters = _BASE64[sixes].reshape(len(names), _ID_LETTERS)
    letters[:, -2:] = ord("=")
    offsets = np.arange(len(names) + 1, dtype=np.int32) * _ID_LETTERS
    return pa.StringArray.from_buffers(len(names), pa.py_buffer(offsets), pa.py_buffer(letters))


def _utf16_units(keys: pa.Array) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """All UTF-16 units of the strings, one after the other, and how many each string has."""
    strings = keys.cast(pa.large_string())
    if strings.null_count:
        raise InvalidInput("a null key has no hash")
    buffers = strings.buffers()
    offsets = np.frombuffer(buffers[1], dtype=np.int64)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1]
    if len(strings) == 0 or buffers[2] is None:
        return np.empty(0, dtype=np.uint16), np.zeros(len(strings), dtype=np.int64)
    data = np.frombuffer(buffers[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    if not len(data) or int(data.max()) < 0x80:
        return data.astype(np.uint16), np.diff(offsets)
    # Every byte that starts a character is one unit, and four-byte characters are two.
    per_byte = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    totals = np.concatenate(([0], np.cumsum(per_byte)))
    text = data.tobytes().decode("utf-8")
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    return units, np.diff(totals[offsets])
