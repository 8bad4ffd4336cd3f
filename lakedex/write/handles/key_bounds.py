"""The smallest and largest record key of a base file, as its footer says them.

Readers skip a file by these two, and they do not agree on the order of texts: Java compares UTF-16
units, others UTF-8 bytes. The orders differ between characters beyond U+FFFF and those from U+E000
up to it. Where a file holds both, bounds are given that are right in both orders.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FOUR_BYTE_LEAD = 0xF0
_TO_UTF16_ORDER = np.arange(256, dtype=np.uint8)
# U+E000 to U+FFFF start with these bytes; they go behind all lead bytes of four-byte characters.
_TO_UTF16_ORDER[[0xEE, 0xEF]] = (0xF5, 0xF6)
_FROM_UTF16_ORDER = bytes.maketrans(b"\xf5\xf6", b"\xee\xef")
_LAST_CHARACTERS = ("\uffff", "\U0010ffff")


def key_bounds(keys: pa.Array) -> tuple[str | None, str | None]:
    """A lower and an upper bound of all keys; None for no keys.

    Example:
        >>> key_bounds(pa.array(["k2", "k1", "k3"]))
        ('k1', 'k3')
        >>> key_bounds(pa.array(["a\uff5e", "a\U0001f600"]))
        ('a', 'b')
    """
    both = pc.min_max(keys)
    low, high = both["min"].as_py(), both["max"].as_py()
    if low is None or not _has_four_byte_characters(keys):
        return low, high
    java_low, java_high = _java_bounds(keys)
    if java_low != low:
        low = _shared_start(low, java_low)
    if java_high != high:
        high = _after(_shared_start(high, java_high)) or java_high
    return low, high


def _bytes_of(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    binary = keys.cast(pa.large_string()).cast(pa.large_binary())
    return binary, np.frombuffer(binary.buffers()[2] or b"", dtype=np.uint8)


def _has_four_byte_characters(keys: pa.Array) -> bool:
    data = _bytes_of(keys)[1]
    return bool(len(data)) and int(data.max()) >= _FOUR_BYTE_LEAD


def _java_bounds(keys: pa.Array) -> tuple[str, str]:
    """The bounds in the order of UTF-16 units."""
    binary, data = _bytes_of(keys)
    buffers = [None, binary.buffers()[1], pa.py_buffer(_TO_UTF16_ORDER[data].tobytes())]
    moved = pa.Array.from_buffers(pa.large_binary(), len(binary), buffers, offset=binary.offset)
    both = pc.min_max(moved)
    low, high = (both[end].as_py().translate(_FROM_UTF16_ORDER) for end in ("min", "max"))
    return low.decode(), high.decode()


def _shared_start(one: str, other: str) -> str:
    length = min(len(one), len(other))
    differs = (at for at in range(length) if one[at] != other[at])
    return one[: next(differs, length)]


def _after(prefix: str) -> str | None:
    """A text that comes after all that start with the prefix, in both orders."""
    kept = prefix.rstrip("".join(_LAST_CHARACTERS))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # No character is a lone surrogate.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
