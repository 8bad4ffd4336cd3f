"""Keys compared many at a time, as big-endian 8-byte words.

Byte strings compare by unsigned bytes, a proper prefix first. Padding the shorter one with
NULs gives the same order except when the longer one goes on with NULs only; then the lengths
decide. So two keys compare word by word, and by length when all words are equal: keys that
are prefixes of one another and keys with NULs inside come out right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

PADDING = 32
"""Bytes that must follow the last key in its buffer, so that whole words can be loaded."""

WORD_SIZE = 8


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Many keys inside one padded buffer.

    `starts` and `lengths` may point anywhere: keys may be repeated, left out or out of order.
    """

    data: Bytes
    starts: Ints
    lengths: Ints

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.starts)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> KeyColumn:
        """The keys at `rows`, over the same buffer."""
        return KeyColumn(self.data, self.starts[rows], self.lengths[rows])

    def key(self, row: int) -> bytes:
        """One key."""
        start = int(self.starts[row])
        return self.data[start : start + int(self.lengths[row])].tobytes()

    def words(self, skip: int) -> Words:
        """The 8 bytes of each key that follow its first `skip`, NUL-padded, as numbers."""
        words = load_words(self.data, self.starts + skip)
        return mask_words(words, self.lengths - skip)


def key_column(keys: pa.Array) -> KeyColumn:
    """The keys of a binary array without nulls."""
    binary = keys.cast(pa.binary())
    offsets = np.frombuffer(binary.buffers()[1] or b"\0\0\0\0", np.int32)
    offsets = offsets[binary.offset : binary.offset + len(binary) + 1].astype(np.int64)
    if len(offsets) == 0:
        offsets = np.zeros(1, np.int64)
    stored = np.frombuffer(binary.buffers()[2] or b"", np.uint8)
    data = np.concatenate([stored[offsets[0] : offsets[-1]], np.zeros(PADDING, np.uint8)])
    starts = offsets[:-1] - offsets[0]
    return KeyColumn(data, starts, np.diff(offsets))


def load_words(data: Bytes, positions: Ints) -> Words:
    """The 8 bytes at each position as big-endian numbers; positions past the end are clipped."""
    last = len(data) - WORD_SIZE
    at_every_byte = np.ndarray((last + 1,), np.dtype("<u8"), data, 0, (1,))
    if len(positions) and int(positions.max()) > last:
        positions = np.minimum(positions, last)
    return at_every_byte[positions].byteswap()


def mask_words(words: Words, lengths: Ints) -> Words:
    """Words with the bytes from `lengths` on set to NUL."""
    if len(lengths) == 0 or int(lengths.min()) >= WORD_SIZE:
        return words
    missing: Words = np.clip(WORD_SIZE - lengths, 0, WORD_SIZE).astype(np.uint64) * np.uint64(8)
    # A shift by the whole width is undefined, so it is done in two halves.
    half = missing >> np.uint64(1)
    rest = missing - half
    kept: Words = np.left_shift(np.left_shift(words >> half >> rest, half), rest)
    return kept


def sorted_once(numbers: Ints) -> Ints:
    """The numbers ascending, each once; faster than hashing when they nearly ascend already."""
    ascending = np.sort(numbers, kind="stable")
    return ascending[
        np.append(ascending[1:] != ascending[:-1], np.ones(min(len(numbers), 1), np.bool_))
    ]


def compare(left: KeyColumn, right: KeyColumn, skip: int = 0) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 for each pair of keys; their first `skip` bytes are known to be equal."""
    signs = np.zeros(len(left), np.int8)
    rows = np.arange(len(left))
    while len(rows):
        a, b = left.words(skip), right.words(skip)
        signs[rows] = (a > b).astype(np.int8) - (a < b).astype(np.int8)
        skip += WORD_SIZE
        longest = np.maximum(left.lengths, right.lengths)
        tie = a == b
        ended = tie & (longest <= skip)
        signs[rows[ended]] = np.sign(left.lengths[ended] - right.lengths[ended])
        more = tie & ~ended
        rows, left, right = rows[more], left.take(more), right.take(more)
    return signs
