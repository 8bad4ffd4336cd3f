"""The 32-bit MurmurHash2 of Hudi's bloom filters, over whole columns of keys.

Words of four bytes are little-endian. The remaining one to three bytes are taken from the *end* of
the key, each as a signed Java byte: `key[n-3] << 16`, `key[n-2] << 8`, `key[n-1]`.

A bloom filter hashes each key many times, with the previous hash as the seed. The part of the work
that does not depend on the seed (reading and mixing the words) is done once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_M = np.uint32(0x5BD1E995)
_CHUNK_KEYS = 16384

UInt32Array = npt.NDArray[np.uint32]


def murmur_hash(keys: pa.Array, seed: int = 0) -> npt.NDArray[np.int32]:
    """The signed hash of every key (no nulls), as Java computes it.

    Example:
        >>> murmur_hash(pa.array(["k1", "é1234"])).tolist()
        [-1682427553, 223640620]
    """
    found = np.empty(len(keys), dtype=np.int32)
    for start, chunk in _chunks(keys):
        seeds = np.full(len(chunk), seed & 0xFFFFFFFF, dtype=np.uint32)
        found[start : start + len(chunk)] = chunk.hash(seeds).view(np.int32)
    return found


def bloom_hashes(
    keys: pa.Array, hash_count: int, bit_count: int
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield `(first key, bit positions)` for chunks of keys; positions have `hash_count` rows.

    Example:
        >>> [(_, bits)] = bloom_hashes(pa.array(["k1"]), 3, 2587966)
        >>> bits.ravel().tolist()
        [249653, 2170140, 185587]
    """
    for start, chunk in _chunks(keys):
        positions = np.empty((hash_count, len(chunk)), dtype=np.int64)
        hashes = np.zeros(len(chunk), dtype=np.uint32)
        for row in range(hash_count):
            hashes = chunk.hash(hashes)
            np.abs(hashes.view(np.int32), out=positions[row], dtype=np.int64)
            positions[row] %= bit_count
        yield start, positions


class _PreparedKeys:
    """The mixed words and tails of some keys, longest key first.

    With the longest first, the keys that have a word number j are a prefix, so each word takes two
    in-place operations on a slice.
    """

    def __init__(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        lengths = np.diff(offsets)
        self._order = np.argsort(-(lengths >> 2), kind="stable")
        starts = offsets[:-1][self._order]
        lengths = lengths[self._order]
        word_counts = lengths >> 2
        longest = int(word_counts[0]) if len(word_counts) else 0
        holders = np.searchsorted(-word_counts, -np.arange(longest), side="left")
        self._lengths = lengths.astype(np.uint32)
        self._words = [
            _mixed_words(data, starts[:count] + 4 * number)
            for number, count in enumerate(holders.tolist())
        ]
        self._tails, self._factors = _tails(data, starts + lengths, lengths & 3)

    def __len__(self) -> int:
        return len(self._lengths)

    def hash(self, seeds: UInt32Array) -> UInt32Array:
        """One hash for each key, in the original order."""
        state = seeds[self._order] ^ self._lengths
        for words in self._words:
            part = state[: len(words)]
            part *= _M
            part ^= words
        state ^= self._tails
        state *= self._factors
        state ^= state >> np.uint32(13)
        state *= _M
        state ^= state >> np.uint32(15)
        found = np.empty_like(state)
        found[self._order] = state
        return found


def _mixed_words(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> UInt32Array:
    """The little-endian words at `at`, mixed as far as possible without the seed."""
    words = data[at].astype(np.uint32)
    for byte in (1, 2, 3):
        words |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    words *= _M
    words ^= words >> np.uint32(24)
    words *= _M
    return words


def _tails(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], left: npt.NDArray[np.int64]
) -> tuple[UInt32Array, UInt32Array]:
    """The exclusive-or operand of the remaining bytes, and the factor that follows (m, or 1)."""
    tails = np.zeros(len(ends), dtype=np.uint32)
    signed = data.view(np.int8)
    for back in (1, 2, 3):
        holders = np.flatnonzero(left >= back)
        values = signed[ends[holders] - back].astype(np.int32) << np.int32(8 * (back - 1))
        tails[holders] ^= values.view(np.uint32)
    return tails, np.where(left > 0, _M, np.uint32(1)).astype(np.uint32)


def _chunks(keys: pa.Array) -> Iterator[tuple[int, _PreparedKeys]]:
    """Split the keys into chunks small enough for the processor's cache."""
    binary = keys.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = binary.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[
        binary.offset : binary.offset + len(binary) + 1
    ]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    for start in range(0, len(binary), _CHUNK_KEYS):
        yield start, _PreparedKeys(data, offsets[start : start + _CHUNK_KEYS + 1])
