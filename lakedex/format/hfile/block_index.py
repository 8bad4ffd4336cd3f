"""Index blocks, which map keys to blocks.

Root (`IDXROOT2`): `8 offset | 4 size on disk | VInt key length | key` for each block.
Below the root, in files of the HBase writer only (`IDXINTE2`, `IDXLEAF2`): `4 count n`,
`n + 1` relative offsets of 4 bytes, then entries of `8 offset | 4 size | key`.

A key in the data index is `2 content length | content`, with or without the 10 bytes that end keys
in data blocks. It is at most the first key of its block and greater than all keys before it, but it
is not necessarily a key of the file, because HBase shortens it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakedex.format.hfile.block import HEADER_SIZE, Place
from lakedex.format.hfile.keys import PADDING, Ints, SortedKeys
from lakedex.format.hfile.trailer import Cursor, vint

_ENTRY = struct.Struct(">qI")
_LENGTH_SIZE = 2


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Offsets, sizes and lowest keys of blocks, in the order of both keys and offsets."""

    offsets: Ints
    sizes: Ints
    keys: SortedKeys

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class RawEntries:
    """The entries of one index block; key i is `payload[key_starts[i]:key_ends[i]]`."""

    payload: bytes
    offsets: Ints
    sizes: Ints
    key_starts: Ints
    key_ends: Ints

    def key(self, row: int) -> bytes:
        """One key in its stored form."""
        return self.payload[int(self.key_starts[row]) : int(self.key_ends[row])]


def root_entries(payload: bytes, count: int, place: Place) -> RawEntries:
    """Read `count` entries of a root index; further bytes, which HBase writes, are ignored."""
    if count > len(payload) // (_ENTRY.size + 1):
        raise place.fail(0, f"{count} index entries", f"{len(payload)} bytes")
    ends = _equal_entries(payload, count)
    if ends is None:
        cursor = Cursor(payload, path=place.path, offset=place.offset)
        lengths, stops = [], []
        for _ in range(count):
            cursor.take(_ENTRY.size)
            length = cursor.vint()
            cursor.take(length)
            lengths.append(length)
            stops.append(cursor.position)
        ends = np.array(stops, np.int64)
        starts = ends - np.array(lengths, np.int64)
        entries = np.concatenate([np.zeros(min(count, 1), np.int64), ends[:-1]])
    else:
        entries = np.arange(count) * (int(ends[0]) if count else 0)
        starts = entries + _ENTRY.size + 1
    return _entries(payload, entries, starts, ends)


def child_entries(payload: bytes, place: Place) -> RawEntries:
    """Read all entries of an index block below the root."""
    if len(payload) < 8:
        raise place.fail(0, "an index block of at least 8 bytes", len(payload))
    count = int.from_bytes(payload[:4], "big")
    base = 4 + 4 * (count + 1)
    if count > len(payload) // 16 or base > len(payload):
        raise place.fail(0, f"{count} index entries", f"{len(payload)} bytes")
    bounds = base + np.frombuffer(payload, ">u4", count + 1, 4).astype(np.int64)
    too_short = np.diff(bounds) < _ENTRY.size
    if too_short.any() or int(bounds[-1]) > len(payload) or int(bounds[0]) != base:
        raise place.fail(4, "ascending entry offsets inside the block", bounds.tolist()[:8])
    return _entries(payload, bounds[:-1], bounds[:-1] + _ENTRY.size, bounds[1:])


def block_index(parts: Sequence[RawEntries], *, end: int, place: Place) -> BlockIndex:
    """Join the entries of index blocks; the blocks must be in order, disjoint, before `end`."""
    offsets = _concat([part.offsets for part in parts])
    sizes = _concat([part.sizes for part in parts])
    stops = offsets + sizes
    if len(offsets) and (
        int(offsets.min()) < 0
        or int(offsets.max()) > end
        or (sizes < HEADER_SIZE).any()
        or (offsets[1:] < stops[:-1]).any()
        or int(stops[-1]) > end
    ):
        raise place.fail(0, f"index entries of ascending blocks before byte {end}", "other entries")
    bases = np.cumsum([0] + [len(part.payload) for part in parts])
    data = np.frombuffer(b"".join([p.payload for p in parts]) + bytes(PADDING), np.uint8)
    starts = _concat([p.key_starts + base for p, base in zip(parts, bases, strict=False)])
    ends = _concat([p.key_ends + base for p, base in zip(parts, bases, strict=False)])
    keys = SortedKeys(data, starts + _LENGTH_SIZE)
    if (keys.column().lengths > ends - starts - _LENGTH_SIZE).any():
        raise place.fail(0, "index keys as long as their content", "a longer content length")
    return BlockIndex(offsets, sizes, keys)


def encode_root_index(offsets: Sequence[int], sizes: Sequence[int], keys: Sequence[bytes]) -> bytes:
    """The payload of a root index; `keys` are written unchanged, after their length."""
    return b"".join(
        part
        for offset, size, key in zip(offsets, sizes, keys, strict=True)
        for part in (_ENTRY.pack(offset, size), vint(len(key)), key)
    )


def _entries(payload: bytes, entries: Ints, starts: Ints, ends: Ints) -> RawEntries:
    """Read offset and size at each of `entries`."""
    every_byte = np.frombuffer(payload + bytes(PADDING), np.uint8)
    longs = np.ndarray((len(payload) + 8,), np.dtype(">i8"), every_byte, 0, (1,))
    ints = np.ndarray((len(payload) + 8,), np.dtype(">u4"), every_byte, 0, (1,))
    offsets = longs[entries].astype(np.int64)
    return RawEntries(payload, offsets, ints[entries + 8].astype(np.int64), starts, ends)


def _equal_entries(payload: bytes, count: int) -> Ints | None:
    """The ends of the entries if all have the length of the first one, else None.

    The lengths then have fixed distances; the first one is at its position, so by induction all
    are.
    """
    length = payload[_ENTRY.size] if count else 0
    size = _ENTRY.size + 1 + length
    if length > 0x7F or count * size > len(payload):
        return None
    lengths = np.frombuffer(payload, np.uint8)[_ENTRY.size : count * size : size]
    return (np.arange(count) + 1) * size if (lengths == length).all() else None


def _concat(parts: Sequence[Ints]) -> Ints:
    """Concatenate arrays; the result of no arrays is empty."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
