"""The bytes of a bloom filter, big-endian, and their base64 text.

    row       int -1 | int hash count | byte hash type | int bit count | ceil(bits / 8) bytes
    SIMPLE    one row
    DYNAMIC   int -1 | int hash count | byte hash type | int bit count
              | int entries per row | int entries in the last row | int rows | rows

Bit `i` is bit `i mod 8` (from the low end) of byte `i / 8`. Hash type 1 is murmur.
"""

from __future__ import annotations

import binascii
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakedex.errors import CorruptFile, UnsupportedFeature

MAX_BITS = 2**31 - 1
MAX_HASHES = 255
MAX_ROWS = 10_000

_VERSION = -1
_MURMUR = 1
_HEAD = struct.Struct(">iibi")
_DYNAMIC_HEAD = struct.Struct(">iibiiii")
_TYPE_CODES = {"SIMPLE": False, "DYNAMIC_V0": True}

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DynamicPart:
    """What a dynamic filter stores besides its rows."""

    entries_per_row: int
    last_row_entries: int


@dataclass(frozen=True, slots=True)
class FilterParts:
    """A decoded filter: sizes, rows, and the dynamic part if it has one."""

    hash_count: int
    bit_count: int
    rows: list[Bits]
    dynamic: DynamicPart | None


def decode_parts(text: bytes | str, *, type_code: str | None, path: str) -> FilterParts:
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
    return FilterParts(hash_count, bit_count, [row], None)


def encode_row(hash_count: int, bit_count: int, row: Bits) -> bytes:
    """The bytes of one row, with its own header."""
    return _HEAD.pack(_VERSION, hash_count, _MURMUR, bit_count) + row.tobytes()


def encode_dynamic_head(
    hash_count: int, bit_count: int, dynamic: DynamicPart, row_count: int
) -> bytes:
    """The bytes that stand before the rows of a dynamic filter."""
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


def _decode_dynamic(data: bytes, path: str) -> FilterParts:
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
    return FilterParts(hash_count, bit_count, rows, DynamicPart(entries_per_row, last_row_entries))


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
    if not 1 <= hash_count <= MAX_HASHES or bit_count < 1:
        raise CorruptFile(
            path,
            at + 4,
            expected=f"1 to {MAX_HASHES} hashes and at least one bit",
            actual=f"{hash_count} hashes, {bit_count} bits",
        )
    return hash_count, bit_count


def _check_end(data: bytes, end: int, path: str) -> None:
    if end != len(data):
        raise CorruptFile(path, 0, expected=f"a bloom filter of {end} bytes", actual=len(data))
