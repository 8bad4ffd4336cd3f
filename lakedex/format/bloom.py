"""Hudi's bloom filters, simple and dynamic: the record keys that a base file may contain.

The text form (base64) is stored in Parquet footers, in HFile meta blocks and in the metadata table.
`BloomFilter.decode` reads either kind, `create_simple` and `create_dynamic` create new ones.

A key has `hash_count` bits in a row of `bit_count` bits. A simple filter is one row; a dynamic one
adds a row whenever the last one has `entries_per_row` keys, up to a bound. A filter may report a
key that was not added; it always reports a key that was.

The stored form is big-endian, as base64 text:

    row       int -1 | int hash count | byte hash type | int bit count | ceil(bits / 8) bytes
    SIMPLE    one row
    DYNAMIC   int -1 | int hash count | byte hash type | int bit count
              | int entries per row | int entries in the last row | int rows | rows

Bit `i` is bit `i mod 8` (from the low end) of byte `i / 8`. Hash type 1 is murmur: the 32-bit
MurmurHash2, over whole columns of keys. Words of four bytes are little-endian. The remaining one to
three bytes are taken from the *end* of the key, each as a signed Java byte: `key[n-3] << 16`,
`key[n-2] << 8`, `key[n-1]`. Each key is hashed many times, with the previous hash as the seed; the
part that does not depend on the seed (reading and mixing the words) is done once.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, InvalidInput, UnsupportedFeature
from lakedex.schema.field_paths import flat

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


_MAX_BITS = 2**31 - 1
_MAX_HASHES = 255
MAX_ROWS = 10_000

_VERSION = -1
_MURMUR = 1
_HEAD = struct.Struct(">iibi")
_DYNAMIC_HEAD = struct.Struct(">iibiiii")
_TYPE_CODES = {"SIMPLE": False, "DYNAMIC_V0": True}

Bits = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]


class BloomFilter(ABC):
    """A set of keys with false positives, but without false negatives.

    Example:
        >>> bloom = BloomFilter.create_simple(10, 0.01)
        >>> bloom.add(pa.array(["k1"]))
        >>> bloom.encode()
        '/////wAAAAcBAAAAYBIAAAAgAEACAAIAQA=='
        >>> BloomFilter.decode(bloom.encode()).contains(pa.array(["k1", "k2"])).tolist()
        [True, False]
    """

    type_code: ClassVar[str]

    def __init__(self, hash_count: int, bit_count: int, rows: list[Bits]) -> None:
        """Create a filter from its sizes and rows of bits, each of `ceil(bit_count / 8)` bytes."""
        self.hash_count = hash_count
        self.bit_count = bit_count
        self.rows = rows

    @staticmethod
    def decode(
        text: bytes | str, *, type_code: str | None = None, path: str = "<bloom filter>"
    ) -> BloomFilter:
        """Decode the base64 text; a missing `type_code` means `SIMPLE`."""
        parts = _decode_parts(text, type_code=type_code, path=path)
        if parts.dynamic is None:
            return SimpleBloomFilter(parts.hash_count, parts.bit_count, parts.rows)
        return DynamicBloomFilter(
            parts.hash_count,
            parts.bit_count,
            parts.rows,
            entries_per_row=parts.dynamic.entries_per_row,
            last_row_entries=parts.dynamic.last_row_entries,
        )

    @staticmethod
    def create_simple(entries: int, fpp: float) -> SimpleBloomFilter:
        """Create an empty filter with a false positive rate of `fpp` for up to `entries` keys."""
        hash_count, bit_count = _sizes(entries, fpp)
        return SimpleBloomFilter(hash_count, bit_count, [_empty_row(bit_count)])

    @staticmethod
    def create_dynamic(entries: int, fpp: float, max_entries: int) -> DynamicBloomFilter:
        """Create an empty filter with rows for `entries` keys each, up to `max_entries` keys."""
        hash_count, bit_count = _sizes(entries, fpp)
        return DynamicBloomFilter(
            hash_count,
            bit_count,
            [_empty_row(bit_count)],
            entries_per_row=entries,
            max_entries=max_entries,
        )

    def encode(self) -> str:
        """The base64 text."""
        return base64.b64encode(self.to_bytes()).decode("ascii")

    def contains(self, keys: pa.Array | pa.ChunkedArray) -> BoolArray:
        """Whether each key may be in the set; always true for null and empty keys."""
        flat = _one_array(keys)
        answer: BoolArray = np.ones(len(flat), dtype=np.bool_)
        usable = _can_look_up(flat)
        if not usable.all():
            flat = flat.filter(pa.array(usable))
        found: BoolArray = np.zeros(len(flat), dtype=np.bool_)
        for start, positions in bloom_hashes(flat, self.hash_count, self.bit_count):
            part = found[start : start + positions.shape[1]]
            for row in self.rows:
                pending = np.flatnonzero(~part)
                part[_having_all_bits(row, positions, pending)] = True
        answer[usable] = found
        return answer

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add keys to the set; none may be null or empty."""
        flat = _one_array(keys)
        if not _can_look_up(flat).all():
            raise InvalidInput("a key of a bloom filter must not be null or empty")
        for _, positions in bloom_hashes(flat, self.hash_count, self.bit_count):
            self._add_positions(positions)

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The bytes that the text encodes."""

    @abstractmethod
    def _add_positions(self, positions: npt.NDArray[np.int64]) -> None:
        """Set the bits of some keys, one column for each key."""


class SimpleBloomFilter(BloomFilter):
    """One row of bits (type code `SIMPLE`)."""

    type_code = "SIMPLE"

    def to_bytes(self) -> bytes:
        """The bytes that the text encodes."""
        return _encode_row(self.hash_count, self.bit_count, self.rows[0])

    def _add_positions(self, positions: npt.NDArray[np.int64]) -> None:
        _set_bits(self.rows[0], positions)


class DynamicBloomFilter(BloomFilter):
    """Rows of bits that are added as needed (type code `DYNAMIC_V0`).

    When the bound is reached, further keys are added to the first row, then to all rows in turn,
    starting with the first. This increases false positives, but causes no false negatives. The
    bound is not stored, so a decoded filter does not grow.
    """

    type_code = "DYNAMIC_V0"

    def __init__(
        self,
        hash_count: int,
        bit_count: int,
        rows: list[Bits],
        *,
        entries_per_row: int,
        last_row_entries: int = 0,
        max_entries: int = 0,
    ) -> None:
        """Create a filter from its rows, the keys per row, those of the last row, and the bound."""
        super().__init__(hash_count, bit_count, rows)
        self.entries_per_row = entries_per_row
        self.last_row_entries = last_row_entries
        self.max_entries = max_entries
        self._reused = 0

    def to_bytes(self) -> bytes:
        """The bytes that the text encodes."""
        head = _encode_dynamic_head(
            self.hash_count,
            self.bit_count,
            _DynamicPart(self.entries_per_row, self.last_row_entries),
            len(self.rows),
        )
        rows = (_encode_row(self.hash_count, self.bit_count, row) for row in self.rows)
        return head + b"".join(rows)

    def _add_positions(self, positions: npt.NDArray[np.int64]) -> None:
        done, total = 0, positions.shape[1]
        while done < total:
            room = max(0, self.entries_per_row - self.last_row_entries)
            if room == 0 and not self._add_row():
                self._add_in_turn(positions[:, done:])
                return
            taken = min(room or self.entries_per_row, total - done)
            _set_bits(self.rows[-1], positions[:, done : done + taken])
            self.last_row_entries += taken
            done += taken

    def _add_row(self) -> bool:
        """Add a row, unless the bound is reached."""
        if len(self.rows) * self.entries_per_row >= self.max_entries:
            return False
        self.rows.append(_empty_row(self.bit_count))
        self.last_row_entries = 0
        return True

    def _add_in_turn(self, positions: npt.NDArray[np.int64]) -> None:
        turns = np.maximum(self._reused + np.arange(positions.shape[1]) - 1, 0) % len(self.rows)
        for number, row in enumerate(self.rows):
            _set_bits(row, positions[:, turns == number])
        self._reused += positions.shape[1]
        self.last_row_entries += positions.shape[1]


def _sizes(entries: int, fpp: float) -> tuple[int, int]:
    """The numbers of hashes and bits for a false positive rate of `fpp` with `entries` keys."""
    if entries < 1 or not 0 < fpp < 1:
        raise InvalidInput(f"a bloom filter cannot have {entries} entries with error rate {fpp}")
    bit_count = math.ceil(entries * (-math.log(fpp) / (math.log(2) * math.log(2))))
    hash_count = math.ceil(math.log(2) * bit_count / entries)
    if bit_count > _MAX_BITS or hash_count > _MAX_HASHES:
        raise InvalidInput(f"a bloom filter for {entries} entries at {fpp} is too large")
    return hash_count, bit_count


def _empty_row(bit_count: int) -> Bits:
    return np.zeros((bit_count + 7) // 8, dtype=np.uint8)


def _set_bits(row: Bits, positions: npt.NDArray[np.int64]) -> None:
    flat = positions.ravel()
    masks = np.left_shift(np.uint8(1), (flat & 7).astype(np.uint8))
    np.bitwise_or.at(row, flat >> 3, masks)


def _having_all_bits(
    row: Bits, positions: npt.NDArray[np.int64], pending: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """The pending columns whose positions are all set."""
    for hashed in positions:
        if not len(pending):
            break
        at = hashed[pending]
        pending = pending[(row[at >> 3] >> (at & 7).astype(np.uint8)) & 1 == 1]
    return pending


def _one_array(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = flat(keys)
    try:
        return whole.cast(pa.large_binary())
    except pa.ArrowException as error:
        raise InvalidInput(
            f"bloom filter keys must be strings or bytes, not {keys.type}"
        ) from error


def _can_look_up(keys: pa.Array) -> BoolArray:
    """A mask of the keys that are neither null nor empty."""
    lengths = pc.fill_null(pc.binary_length(keys), 0)
    result: BoolArray = lengths.to_numpy(zero_copy_only=False) > 0
    return result


@dataclass(frozen=True, slots=True)
class _DynamicPart:
    """The values that a dynamic filter stores in addition to its rows."""

    entries_per_row: int
    last_row_entries: int


@dataclass(frozen=True, slots=True)
class _FilterParts:
    """A decoded filter: sizes, rows, and the dynamic part if it has one."""

    hash_count: int
    bit_count: int
    rows: list[Bits]
    dynamic: _DynamicPart | None


def _decode_parts(text: bytes | str, *, type_code: str | None, path: str) -> _FilterParts:
    """Read the base64 text of a filter of the given type (missing: `SIMPLE`)."""
    code = type_code or "SIMPLE"
    if code not in _TYPE_CODES:
        raise UnsupportedFeature(f"bloom filter type {code[:40]!r} in {path}")
    data = _base64(text, path)
    if _TYPE_CODES[code]:
        return _decode_dynamic(data, path)
    hash_count, bit_count = _decode_head(data, 0, path)
    row = _decode_row(data, 0, (hash_count, bit_count), path)
    _check_end(data, _HEAD.size + len(row), path)
    return _FilterParts(hash_count, bit_count, [row], None)


def _encode_row(hash_count: int, bit_count: int, row: Bits) -> bytes:
    """The bytes of one row with its header."""
    return _HEAD.pack(_VERSION, hash_count, _MURMUR, bit_count) + row.tobytes()


def _encode_dynamic_head(
    hash_count: int, bit_count: int, dynamic: _DynamicPart, row_count: int
) -> bytes:
    """The header of a dynamic filter, which precedes its rows."""
    return _DYNAMIC_HEAD.pack(
        _VERSION,
        hash_count,
        _MURMUR,
        bit_count,
        dynamic.entries_per_row,
        dynamic.last_row_entries,
        row_count,
    )


def _base64(text: bytes | str, path: str) -> bytes:
    try:
        raw = text.encode("ascii") if isinstance(text, str) else text
        return binascii.a2b_base64(raw, strict_mode=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise CorruptFile(path, 0, expected="a bloom filter in base64", actual=error) from error


def _decode_dynamic(data: bytes, path: str) -> _FilterParts:
    hash_count, bit_count = _decode_head(data, 0, path)
    if len(data) < _DYNAMIC_HEAD.size:
        raise CorruptFile(path, 0, expected="a dynamic bloom filter", actual=f"{len(data)} bytes")
    entries_per_row, last_row_entries, row_count = struct.unpack_from(">iii", data, _HEAD.size)
    row_size = _HEAD.size + (bit_count + 7) // 8
    _check_end(data, _DYNAMIC_HEAD.size + row_count * row_size, path)
    if not 1 <= row_count <= MAX_ROWS:
        raise CorruptFile(path, 21, expected=f"1 to {MAX_ROWS} rows", actual=row_count)
    if entries_per_row < 1 or last_row_entries < 0:
        raise CorruptFile(
            path,
            _HEAD.size,
            expected="positive entry counts",
            actual=f"{entries_per_row} and {last_row_entries}",
        )
    starts = range(_DYNAMIC_HEAD.size, len(data), row_size)
    rows = [_decode_row(data, start, (hash_count, bit_count), path) for start in starts]
    return _FilterParts(
        hash_count, bit_count, rows, _DynamicPart(entries_per_row, last_row_entries)
    )


def _decode_row(data: bytes, at: int, sizes: tuple[int, int], path: str) -> Bits:
    found = _decode_head(data, at, path)
    if found != sizes:
        raise CorruptFile(path, at, expected=f"{sizes} hashes and bits", actual=found)
    size = (sizes[1] + 7) // 8
    start = at + _HEAD.size
    if start + size > len(data):
        raise CorruptFile(path, start, expected=f"{size} bytes", actual=len(data) - start)
    return np.frombuffer(data, dtype=np.uint8, count=size, offset=start).copy()


def _decode_head(data: bytes, at: int, path: str) -> tuple[int, int]:
    """The hash count and bit count of the header at `at`."""
    if at + _HEAD.size > len(data):
        raise CorruptFile(path, at, expected="a bloom filter", actual=f"{len(data) - at} bytes")
    version, hash_count, hash_type, bit_count = _HEAD.unpack_from(data, at)
    if version > 0 or (version == _VERSION and hash_type == 0):
        raise UnsupportedFeature(f"bloom filter with the Jenkins hash in {path}")
    if version != _VERSION or hash_type != _MURMUR:
        raise CorruptFile(
            path,
            at,
            expected="bloom filter version -1, hash type 1",
            actual=f"version {version}, hash type {hash_type}",
        )
    if not 1 <= hash_count <= _MAX_HASHES or bit_count < 1:
        raise CorruptFile(
            path,
            at + 4,
            expected=f"1 to {_MAX_HASHES} hashes and at least one bit",
            actual=f"{hash_count} hashes, {bit_count} bits",
        )
    return hash_count, bit_count


def _check_end(data: bytes, end: int, path: str) -> None:
    if end != len(data):
        raise CorruptFile(path, 0, expected=f"a bloom filter of {end} bytes", actual=len(data))
