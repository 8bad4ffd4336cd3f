"""Entries of a windowed record index: which file groups hold a key, in HFiles sorted by key.

The value of a key is one little-endian 8-byte number for each group that the run speaks of:

    number of the group * 4 + state

A key may stand in several groups, as it does where it is unique in its partition only.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.format.hfile import Cells, write_hfile

LIVE: Final = 0
DEAD: Final = 1
"""A log file deleted the record, and the base file still has it."""
GONE: Final = 2
_STATE_BITS = 2
_STATE_MASK = 3
_CODE_BYTES = 8

Ints = npt.NDArray[np.int64]


def encode_entries(keys: pa.Array, numbers: Ints, states: Ints) -> bytes:
    """A file of entries, which are sorted by the bytes of their keys, each key and group once.

    Args:
        keys: Binary keys; one that stands in several groups repeats.
        numbers: The group of each entry.
        states: LIVE, DEAD or GONE for each entry.
    """
    codes = (numbers << _STATE_BITS | states).astype("<i8")
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    first = np.flatnonzero(is_first)
    bounds = np.append(first, len(keys)) * _CODE_BYTES
    values = pa.Array.from_buffers(
        pa.large_binary(),
        len(first),
        [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(codes)],
    )
    return write_hfile(keys.take(pa.array(first)), values)


def decode_entries(cells: Cells, *, path: str) -> tuple[Ints, Ints, Ints]:
    """Of some cells: for each entry the row of its cell, its group and its state.

    Raises:
        CorruptFile: a value is no list of entries.
    """
    values = cells.values.cast(pa.large_binary())
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    if (lengths % _CODE_BYTES).any() or (lengths == 0).any():
        raise CorruptFile(path, 0, expected="entries of 8 bytes each", actual="other lengths")
    codes = _codes(values)
    states = codes & _STATE_MASK
    if (codes < 0).any() or (states > GONE).any():
        raise CorruptFile(path, 0, expected="groups and states", actual="other numbers")
    return np.repeat(np.arange(len(values)), lengths // _CODE_BYTES), codes >> _STATE_BITS, states


def _codes(values: pa.Array) -> Ints:
    """The numbers of all values, which lie one after the other."""
    if not len(values):
        return np.zeros(0, np.int64)
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    start, end = int(bounds[0]), int(bounds[-1])
    return np.frombuffer(memoryview(data)[start:end], "<i8").astype(np.int64)
