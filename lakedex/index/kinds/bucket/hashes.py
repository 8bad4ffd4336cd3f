"""Hash keys of record keys, and the two hashes of them that Hudi's bucket indexes use.

The hash keys of a record are the values of the hash fields in its record key:

* a record key without `,` or without `:` is one hash key, whatever it is;
* of a key such as `id:1,city:sfo` they are the values of the hash fields, in the order of the key.
  A value ends at the last comma before a colon, so that it may have commas and colons itself;
  `__null__` is null and `__empty__` the empty text;
* where no field of the key is a hash field, the whole key is the only hash key.

SIMPLE takes Java's `List<String>.hashCode` of them: `h = 31 * h + hash`, from 1, null as 0.
CONSISTENT_HASHING takes xxHash32 with seed 0 of their UTF-8 bytes one after the other, null as
`null`, without the sign bit.

It imports only what executors need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table.hashing import java_hashes

HASH_MASK: Final = 0x7FFF_FFFF
"""Hash values are 31 bits: Java's int without its sign."""
Hashes = npt.NDArray[np.uint32]
_Octets = npt.NDArray[np.uint8]
_Positions = npt.NDArray[np.int64]
_COLON, _COMMA = ord(":"), ord(",")
_NULL, _EMPTY = "__null__", "__empty__"
_ROWS: Final = 1 << 15
"""So many texts are hashed at a time: what is made on the way then stays in the cache."""
_P1, _P2, _P3, _P4, _P5 = map(
    np.uint32, (2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393)
)
_STRIPE: Final = 16


@dataclass(frozen=True, slots=True)
class HashKeys:
    """The hash keys of some records, one record after the other."""

    values: pa.Array
    """Texts; a hash key may be null."""
    counts: _Positions
    """How many each record has."""


def hash_keys(record_keys: pa.Array, fields: Sequence[str]) -> HashKeys:
    """The hash keys of record keys.

    Args:
        record_keys: As they are in `_hoodie_record_key`.
        fields: The hash fields.

    Example:
        >>> keys = pa.array(["7", "id:1,city:a,b", "id:__null__,city:x"])
        >>> hash_keys(keys, ["id", "city"]).values.to_pylist()
        ['7', '1', 'a,b', None, 'x']
    """
    keys = record_keys.cast(pa.large_string())
    data, offsets = _octets(keys)
    has = [
        np.diff(np.searchsorted(np.flatnonzero(data == mark), offsets)) > 0
        for mark in (_COLON, _COMMA)
    ]
    is_composite = has[0] & has[1]
    if not is_composite.any():
        return HashKeys(keys, np.ones(len(keys), dtype=np.int64))
    composite = keys.filter(pa.array(is_composite))
    found = _of_composite(composite, [name.encode() for name in fields])
    if is_composite.all():
        return found
    plain = keys.filter(pa.array(~is_composite))
    counts = np.ones(len(keys), dtype=np.int64)
    counts[is_composite] = found.counts
    owner = np.repeat(is_composite, counts)
    order = np.empty(len(owner), dtype=np.int64)
    order[owner] = np.arange(len(found.values))
    order[~owner] = len(found.values) + np.arange(len(plain))
    return HashKeys(pa.concat_arrays([found.values, plain]).take(pa.array(order)), counts)


def list_hashes(keys: HashKeys) -> Hashes:
    """Java's `List<String>.hashCode` of the hash keys of each record, without the sign.

    Example:
        >>> (list_hashes(hash_keys(pa.array(["1", "2", "3", "100"]), ["id"])) % 4).tolist()
        [0, 1, 2, 0]
    """
    # The hash of the empty text is that of null.
    texts = java_hashes(pc.fill_null(keys.values, "")).view(np.uint32)
    counts = keys.counts
    hashes = np.ones(len(counts), dtype=np.uint32)
    starts = np.cumsum(counts) - counts
    for number in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > number)
        hashes[rows] = hashes[rows] * np.uint32(31) + texts[starts[rows] + number]
    return hashes & np.uint32(HASH_MASK)


def ring_hashes(keys: HashKeys) -> Hashes:
    """xxHash32 of the hash keys of each record, without the sign bit.

    Example:
        >>> ring_hashes(hash_keys(pa.array(["0", "1", "19"]), ["id"])).tolist()
        [1212501170, 921487538, 1680762851]
    """
    values = pc.fill_null(keys.values, "null")
    if (keys.counts == 1).all():
        texts = values
    else:
        data, offsets = _octets(values)
        ends = offsets[np.concatenate([[0], np.cumsum(keys.counts)])]
        texts = _texts(data, ends)
    return xxhash32(texts) & np.uint32(HASH_MASK)


def xxhash32(texts: pa.Array) -> Hashes:
    """xxHash32 with seed 0 of the UTF-8 bytes of each text.

    Example:
        >>> [hex(each) for each in xxhash32(pa.array(["", "a"])).tolist()]
        ['0x2cc5d05', '0x550d7456']
    """
    strings = texts.cast(pa.large_string())
    starts = range(0, len(strings), _ROWS)
    parts = [_xxhash32(*_octets(strings.slice(start, _ROWS))) for start in starts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)


def _xxhash32(data: _Octets, offsets: _Positions) -> Hashes:
    lengths = np.diff(offsets)
    # The longest first, so that those that have another stripe are always the first ones.
    order = np.argsort(-lengths, kind="stable")
    lengths, begins = lengths[order], offsets[:-1][order]
    padded = np.concatenate([data, np.zeros(_STRIPE, dtype=np.uint8)])
    words: Hashes = np.ndarray((len(padded) - 3,), dtype="<u4", buffer=padded, strides=(1,))
    hashes = np.full(len(lengths), _P5, dtype=np.uint32)
    stripes = lengths // _STRIPE
    count = int(np.count_nonzero(stripes))
    if count:
        zero = np.zeros(count, dtype=np.uint32)
        lanes = [zero + _P1 + _P2, zero + _P2, zero.copy(), zero - _P1]
        for stripe in range(int(stripes[0])):
            here = int(np.count_nonzero(stripes > stripe))
            at = begins[:here] + _STRIPE * stripe
            for number, lane in enumerate(lanes):
                mixed = lane[:here] + words[at + 4 * number] * _P2
                lane[:here] = _rotated(mixed, 13) * _P1
        turned = [_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)]
        hashes[:count] = turned[0] + turned[1] + turned[2] + turned[3]
    hashes += lengths.astype(np.uint32)
    at, rest = begins + _STRIPE * stripes, lengths % _STRIPE
    for number in range(3):
        rows = np.flatnonzero(rest >= 4 * (number + 1))
        mixed = hashes[rows] + words[at[rows] + 4 * number] * _P3
        hashes[rows] = _rotated(mixed, 17) * _P4
    at, rest = at + rest // 4 * 4, rest % 4
    for number in range(3):
        rows = np.flatnonzero(rest > number)
        mixed = hashes[rows] + padded[at[rows] + number].astype(np.uint32) * _P5
        hashes[rows] = _rotated(mixed, 11) * _P1
    hashes = (hashes ^ hashes >> np.uint32(15)) * _P2
    hashes = (hashes ^ hashes >> np.uint32(13)) * _P3
    hashes ^= hashes >> np.uint32(16)
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _rotated(values: Hashes, by: int) -> Hashes:
    turned: Hashes = values << np.uint32(by) | values >> np.uint32(32 - by)
    return turned


def _of_composite(keys: pa.Array, fields: Sequence[bytes]) -> HashKeys:
    """The hash keys of record keys that have commas and colons."""
    data, offsets = _octets(keys)
    colons = np.flatnonzero(data == _COLON)
    commas = np.concatenate([[-1], np.flatnonzero(data == _COMMA)])
    owner = np.searchsorted(offsets, colons, side="right") - 1
    is_first = np.concatenate([[True], owner[1:] != owner[:-1]])
    comma = commas[np.searchsorted(commas, colons) - 1]
    before = np.concatenate([[-1], colons[:-1]])
    # A colon ends the name of a field if it is the first, or a comma is between it and the last.
    named = np.flatnonzero(is_first | (comma > before))
    owner, comma, is_first = owner[named], comma[named], is_first[named]
    name_ends = colons[named]
    name_starts = np.where(is_first, offsets[owner], comma + 1)
    value_ends = offsets[owner + 1].copy()
    same = np.flatnonzero(owner[1:] == owner[:-1])
    value_ends[same] = comma[same + 1]
    wanted = np.zeros(len(named), dtype=np.bool_)
    for name in fields:
        wanted |= _equals(data, name_starts, name_ends, name)
    starts, ends, owner = name_ends[wanted] + 1, value_ends[wanted], owner[wanted]
    counts = np.bincount(owner, minlength=len(keys))
    whole = np.flatnonzero(counts == 0)
    if len(whole):
        starts = np.concatenate([starts, offsets[whole]])
        ends = np.concatenate([ends, offsets[whole + 1]])
        order = np.argsort(np.concatenate([owner, whole]), kind="stable")
        starts, ends = starts[order], ends[order]
        counts[whole] = 1
    values = _gathered(data, starts, ends)
    is_named = np.repeat(np.isin(np.arange(len(keys)), whole, invert=True), counts)
    is_null = pc.and_(pc.equal(values, _NULL), pa.array(is_named))
    is_empty = pc.and_(pc.equal(values, _EMPTY), pa.array(is_named))
    values = pc.if_else(is_empty, pa.scalar("", pa.large_string()), values)
    return HashKeys(pc.if_else(is_null, pa.scalar(None, pa.large_string()), values), counts)


def _equals(
    data: _Octets, starts: _Positions, ends: _Positions, text: bytes
) -> npt.NDArray[np.bool_]:
    """Which ranges of bytes are a text."""
    equal = ends - starts == len(text)
    for number, octet in enumerate(text):
        rows = np.flatnonzero(equal)
        equal[rows] = data[starts[rows] + number] == octet
    return equal


def _gathered(data: _Octets, starts: _Positions, ends: _Positions) -> pa.Array:
    """Ranges of bytes as texts."""
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    at = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return _texts(data[at], offsets)


def _texts(data: _Octets, offsets: _Positions) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def _octets(strings: pa.Array) -> tuple[_Octets, _Positions]:
    """The bytes of texts, and where each begins and the last ends."""
    buffers = strings.buffers()
    if not len(strings) or buffers[1] is None:
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    offsets = np.frombuffer(buffers[1], dtype=np.int64)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1]
    if buffers[2] is None:
        return np.empty(0, dtype=np.uint8), np.zeros(len(offsets), dtype=np.int64)
    data = np.frombuffer(buffers[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]
