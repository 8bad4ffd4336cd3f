"""Finding cells without walking, where all keys are equally long: UUIDs, hashes, index keys.

    4 key length K | 4 value length V | 2 content length | content | 10 suffix | value | 1 zero

Every key ends in the same suffix, which holds seven bytes 0xff; one whole 4-byte word of them,
and only one, lies on a multiple of 4. So one comparison over the words of the buffer finds all
suffixes, and each names the start of its cell when the length of the key is known. What is found
is believed only if the cells make one chain from the first byte to the last, each as long as its
own lengths say: then they are what a walk would find. Otherwise somebody has to walk.
"""

from __future__ import annotations

import numpy as np

from lakedex.format.hfile.walk import CONTENT_START, KEY_SUFFIX, FoundCells
from lakedex.format.hfile.words import Bytes, Ints

_KEY_EXTRA = 12
_VALUE_SHIFT = 32
_FULL_WORD = 0xFFFFFFFF
_PREVIOUS_ENDS_FULL = (0xFF000000, 0xFFFF0000, 0xFFFFFF00)
_FULL_START = KEY_SUFFIX.index(0xFF)


def find_even_cells(data: bytearray, bounds: Ints) -> FoundCells | None:
    """The cells of blocks that lie end to end in `data`; None when they are not of that kind.

    Block i reaches from `bounds[i]` to `bounds[i + 1]`; `PADDING` more bytes follow the last.
    """
    end = int(bounds[-1])
    content = int.from_bytes(data[CONTENT_START - 2 : CONTENT_START], "big")
    view = np.frombuffer(data, np.uint8)
    starts = _starts(view, end, CONTENT_START + content + _FULL_START)
    if not len(starts) or int(starts[0]) != 0:
        return None
    if not _is_chain(view, starts, content, end):
        return None
    firsts = starts[np.minimum(np.searchsorted(starts, bounds[:-1]), len(starts) - 1)]
    return FoundCells(starts, content) if (firsts == bounds[:-1]).all() else None


def _starts(view: Bytes, end: int, full_from: int) -> Ints:
    """Where cells start whose 0xff bytes come `full_from` bytes later."""
    words = view[: end // 4 * 4].view("<u4")
    full = np.flatnonzero(words == _FULL_WORD)
    before = words.take(full - 1, mode="wrap")
    more = np.zeros(len(full), np.int8)
    for limit in _PREVIOUS_ENDS_FULL:
        more += (before >= np.uint32(limit)).view(np.int8)
    full *= 4
    full -= full_from
    full -= more
    return full


def _is_chain(view: Bytes, starts: Ints, content: int, end: int) -> bool:
    """Whether each cell has a key of `content` bytes and ends where the next one starts."""
    if int(starts.min()) < 0:
        return False
    lengths = np.ndarray((len(view) - 7,), np.dtype("<u8"), view, 0, (1,))
    values = lengths[starts].byteswap().view(np.int64)
    values -= (content + _KEY_EXTRA) << _VALUE_SHIFT
    if int(values.min()) < 0:
        return False
    values += starts
    values += content + _KEY_EXTRA + 9
    if int(values[-1]) != end or not np.array_equal(values[:-1], starts[1:]):
        return False
    contents = np.ndarray((len(view) - 1,), np.dtype("<u2"), view, 0, (1,))
    stored = int.from_bytes(content.to_bytes(2, "big"), "little")
    return bool((contents[starts + (CONTENT_START - 2)] == stored).all())
