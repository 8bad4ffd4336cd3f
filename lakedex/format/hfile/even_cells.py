"""Finding cells without walking, where all keys are equally long: UUIDs, hashes, index keys.

    4 key length K | 4 value length V | 2 content length | content | 10 suffix | value | 1 zero

Every key ends in the same suffix, which holds seven bytes 0xff; one whole 4-byte word of them,
and only one, lies on a multiple of 4. So one comparison over the words of the buffer finds all
suffixes, and each names the start of its cell when the length of the key is known. What is found
is believed only if the cells make one chain from the first byte to the last, each as long as its
own lengths say: then they are what a walk would find. Otherwise somebody has to walk.

The answers of that comparison are one byte a word, nearly all of them 0. Where cells are longer
than eight words, eight answers hold one 1 at most, so they are looked at as one number first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakedex.format.hfile.walk import (
    CELL_OVERHEAD,
    CONTENT_START,
    KEY_SUFFIX,
    EvenKeys,
    FoundCells,
)
from lakedex.format.hfile.words import WORD_SIZE, Bytes, Ints, Words

_KEY_EXTRA = 12
_VALUE_SHIFT = 32
_FULL_WORD = 0xFFFFFFFF
_PREVIOUS_ENDS_FULL = (0xFF000000, 0xFFFF0000, 0xFFFFFF00)
_FULL_START = KEY_SUFFIX.index(0xFF)
_HEAD_BYTES = 3 * WORD_SIZE
_SPOT_WORDS = 8
_SPOT_BYTES = 4 * _SPOT_WORDS
_EXPONENT_OF_EIGHTS = 52 + 3
_EXPONENT_BIAS = 1023 // 8


def find_even_cells(data: bytearray, bounds: Ints) -> FoundCells | None:
    """The cells of blocks that lie end to end in `data`; None when they are not of that kind.

    Block i reaches from `bounds[i]` to `bounds[i + 1]`; `PADDING` more bytes follow the last.
    """
    end = int(bounds[-1])
    content = int.from_bytes(data[CONTENT_START - 2 : CONTENT_START], "big")
    view = np.frombuffer(data, np.uint8)
    starts = _starts(view, end, content)
    if not len(starts) or int(starts[0]) != 0:
        return None
    heads = _heads(view, starts)
    if heads is None or not _is_chain(heads, starts, content, end):
        return None
    firsts = starts[np.minimum(np.searchsorted(starts, bounds[:-1]), len(starts) - 1)]
    if not (firsts == bounds[:-1]).all():
        return None
    return FoundCells(starts, content, EvenKeys(content, heads))


def _starts(view: Bytes, end: int, content: int) -> Ints:
    """Where cells start whose suffix comes after `content` bytes of key."""
    words = view[: -(-end // _SPOT_BYTES) * _SPOT_BYTES].view("<u4")
    full = _full_words(words, apart=content + CELL_OVERHEAD >= _SPOT_BYTES)
    full = full[: np.searchsorted(full, end // 4)]
    before = words.take(full - 1, mode="wrap")
    more = np.zeros(len(full), np.int8)
    for limit in _PREVIOUS_ENDS_FULL:
        more += (before >= np.uint32(limit)).view(np.int8)
    full *= 4
    full -= CONTENT_START + content + _FULL_START
    full -= more
    return full


def _full_words(words: npt.NDArray[np.uint32], *, apart: bool) -> Ints:
    """Which words are full; `apart` says that eight neighbours hold one at most."""
    is_full = words == np.uint32(_FULL_WORD)
    if not apart:
        return np.flatnonzero(is_full)
    eights = is_full.view("<u8")
    full = np.flatnonzero(eights != 0)
    # A number with one bit set is its own exponent as a float: 8 for each word passed over.
    exponents = eights[full].astype(np.float64).view(np.int64) >> _EXPONENT_OF_EIGHTS
    full *= _SPOT_WORDS
    full += exponents - _EXPONENT_BIAS
    return full


def _heads(view: Bytes, starts: Ints) -> Words | None:
    """The first 24 bytes of each cell as three words; None when the last is out of the buffer.

    Full words are at least 4 bytes apart and are put right by 3 at most, so starts ascend.
    """
    last = len(view) - _HEAD_BYTES
    if int(starts[-1]) > last:
        return None
    at_every_byte = np.ndarray((last + 1,), f"V{_HEAD_BYTES}", view, 0, (1,))
    return at_every_byte[starts].view("<u8").reshape(-1, _HEAD_BYTES // WORD_SIZE)


def _is_chain(heads: Words, starts: Ints, content: int, end: int) -> bool:
    """Whether each cell has a key of `content` bytes and ends where the next one starts."""
    values = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=values[:-1])
    values[-1] = end - starts[-1]
    values -= content + CELL_OVERHEAD
    if int(values.min()) < 0:
        return False
    values += (content + _KEY_EXTRA) << _VALUE_SHIFT
    if not np.array_equal(heads[:, 0].byteswap().view(np.int64), values):
        return False
    stored = np.uint64(int.from_bytes(content.to_bytes(2, "big"), "little"))
    return bool(((heads[:, 1] & np.uint64(0xFFFF)) == stored).all())
