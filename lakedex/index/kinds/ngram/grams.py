r"""The n-grams of texts, as numbers below the number of bits of an index.

A text is folded, encoded as UTF-8 and put between two bytes that UTF-8 does not use. Every run of n
bytes of that is a gram; a hash of it is the number of a bit.

    n = 3   "Ab" -> FE 61 62 FF -> (FE 61 62), (61 62 FF)
    bit     = (gram as a little-endian number * 0x9E3779B97F4A7C15 mod 2**64 >> 32) % bits

A file is described by the bits of all grams of its texts. A text with a given piece is in files
that have all bits of the grams of the piece; a piece shorter than n bytes has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.kinds.ngram.conditions import (
    DOTTED_I,
    DOTTED_I_LOWER,
    KELVIN,
    KELVIN_LOWER,
    Piece,
    folded,
)

Bits = npt.NDArray[np.int64]
_START: Final = b"\xfe"
_END: Final = b"\xff"
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_BYTES = 4 << 20
"""So many bytes of text are hashed at a time: eight times as many are held for it."""


def bits_of_texts(texts: pa.ChunkedArray, n: int, bits: int) -> Bits:
    """The bits of all n-grams of some texts, ascending.

    Example:
        >>> len(bits_of_texts(pa.chunked_array([["abc", None, "ABC"]]), 3, 1 << 16))
        3
    """
    is_set = np.zeros(bits, dtype=np.bool_)
    for block in _blocks(texts):
        data, ends = _bytes_of(block)
        if len(data) >= n:
            is_gram = np.ones(len(data) - n + 1, dtype=np.bool_)
            for back in range(1, n):
                # Fewer than n bytes before the end of a text begin no gram of it.
                last = ends - back
                is_gram[last[last < len(is_gram)]] = False
            is_set[_hashed(data, n, bits)[is_gram]] = True
    return np.flatnonzero(is_set)


def bits_of_pieces(pieces: Iterable[Piece], n: int, bits: int) -> Bits:
    """The bits that a file has if one of its texts has all these pieces, ascending.

    Example:
        >>> len(bits_of_pieces([Piece("abcd")], 3, 1 << 16))
        2
        >>> len(bits_of_pieces([Piece("ab")], 3, 1 << 16))
        0
    """
    required = [np.zeros(0, dtype=np.int64)]
    for piece in pieces:
        start, end = _START * piece.at_start, _END * piece.at_end
        text = start + folded(piece.text).encode("utf-8", "surrogatepass") + end
        if len(text) >= n:
            required.append(_hashed(np.frombuffer(text, dtype=np.uint8), n, bits))
    return np.unique(np.concatenate(required))


def _blocks(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in texts.chunks:
        present = chunk.drop_null()
        if len(present):
            rows = max(1, len(present) * _BLOCK_BYTES // max(1, present.nbytes))
            for first in range(0, len(present), rows):
                yield present[first : first + rows]


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Bits]:
    """The bytes of folded texts with their marks, and where each text ends."""
    lowered = pc.ascii_lower(texts.cast(pa.large_string()))
    if not pc.all(pc.string_is_ascii(lowered)).as_py():
        lowered = pc.replace_substring(lowered, KELVIN, KELVIN_LOWER)
        lowered = pc.replace_substring(lowered, DOTTED_I, DOTTED_I_LOWER)
    marks = (pa.scalar(each, pa.large_binary()) for each in (_START, _END, b""))
    start, end, separator = marks
    marked = pc.binary_join_element_wise(start, lowered.cast(pa.large_binary()), end, separator)
    offsets = np.frombuffer(marked.buffers()[1], dtype=np.int64)[: len(marked) + 1]
    return np.frombuffer(marked.buffers()[2], dtype=np.uint8)[: offsets[-1]], offsets[1:]


def _hashed(data: npt.NDArray[np.uint8], n: int, bits: int) -> Bits:
    """The bit of each run of n bytes."""
    count = len(data) - n + 1
    grams = np.zeros(count, dtype=np.uint64)
    for at in range(n):
        grams |= data[at : at + count].astype(np.uint64) << np.uint64(8 * at)
    grams *= _MULTIPLIER
    grams >>= np.uint64(32)
    grams %= np.uint64(bits)
    return grams.astype(np.int64)
