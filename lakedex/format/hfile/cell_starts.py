"""Finds the starts of the cells of data blocks.

    4 key length K | 4 value length V | 2 content length | content | 10 suffix | value | 1 zero

Cells form a chain: the next one starts K + V + 9 bytes later, so no cell of a block can be found by
itself. `find_cells` walks many chains in lockstep, with one numpy step for all of them: one from
the start of each block, and more from *guessed* starts inside the blocks, which are found by the
suffix of all keys. A guess is accepted only if the chain before it reaches it exactly; the first
chain of a block starts at a cell, so by induction all accepted ones do. Guesses that a chain passes
are dropped and the rest of their block is walked again.

`find_fixed_width_cells` needs no walk if all keys have the same length (UUIDs, hashes, index keys).
Every key ends with the same suffix, which contains seven bytes 0xff; exactly one 4-byte word of
them is aligned to a multiple of 4. One comparison over the words of the buffer therefore finds all
suffixes, and each gives the start of its cell. The result is accepted only if the cells form one
chain from the first byte to the last, each as long as its lengths. The comparison gives one byte
per word, nearly all of them 0. If cells are longer than eight words, eight results contain at most
one 1, so they are first read as one number.
"""

from __future__ import annotations

import math
import struct
from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakedex.format.hfile.keys import (
    WORD_SIZE,
    Bytes,
    Ints,
    Words,
    load_words,
    sorted_once,
)

KEY_SUFFIX = b"\0\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""The end of every key: no column family, the latest timestamp, type Put."""

CELL_OVERHEAD = 21
CONTENT_START = 10
"""The offset of the key's content in its cell."""

_LENGTHS = struct.Struct(">IIH")
_KEY_EXTRA = 12
_STOP = (32767 + _KEY_EXTRA, 0, 32767)
_STOP_SPACING = 16
_ROUNDS = 3
_MAX_SPACING = 64 * 1024
_SAMPLE_REGIONS = 64
_SAMPLE_STEPS = 5
_FEW_CHAINS = 32
_STEP_COST = 30
_STEPS_BETWEEN_LOOKS = 4
_SHORT_KEY = 256
_GUESS_ROWS = 4096
_CHECK_ROWS = 1 << 18
_NOWHERE = 1 << 60
_VALUE_SHIFT = 32
_FULL_WORD = 0xFFFFFFFF
_PREVIOUS_ENDS_FULL = (0xFF000000, 0xFFFF0000, 0xFFFFFF00)
_FULL_START = KEY_SUFFIX.index(0xFF)
_HEAD_BYTES = 3 * WORD_SIZE
_SPOT_WORDS = 8
_SPOT_BYTES = 4 * _SPOT_WORDS
_EXPONENT_OF_EIGHTS = 52 + 3
_EXPONENT_BIAS = 1023 // 8


class BrokenCell(Exception):
    """The bytes at `position` of the walked buffer are not a cell."""

    def __init__(self, position: int, found: str) -> None:
        """Name the position and the bytes found there."""
        self.position = position
        self.found = found
        super().__init__(found)


@dataclass(frozen=True, slots=True)
class FixedWidthKeys:
    """Keys of one length, with the first 24 bytes of their cells as three little-endian words."""

    length: int
    heads: Words

    def words(self, skip: int) -> Words | None:
        """The 8 bytes of each key after its first `skip`; None if the words lack them."""
        at = CONTENT_START + skip - WORD_SIZE
        if at > WORD_SIZE or skip + WORD_SIZE > self.length:
            return None
        if at == WORD_SIZE:
            return self.heads[:, 2].byteswap()
        bits = np.uint64(8 * at)
        joined = self.heads[:, 1] >> bits
        joined |= self.heads[:, 2] << (np.uint64(64) - bits)
        return joined.byteswap(inplace=True)


@dataclass(frozen=True, slots=True)
class FoundCells:
    """The start of every cell, ascending, and a lower bound of the lengths of keys."""

    starts: Ints
    shortest_key: int
    fixed_width: FixedWidthKeys | None = None
    """The keys, if all have the same length."""


def find_cells(data: bytearray, bounds: Ints) -> FoundCells:
    """Find the cells of consecutive blocks in `data`.

    Block i is from `bounds[i]` to `bounds[i + 1]`; `PADDING` more bytes follow the last one and are
    overwritten.

    Raises:
        BrokenCell: The lengths of a cell are inconsistent or exceed its block.
    """
    for stop in (0, _STOP_SPACING):
        _LENGTHS.pack_into(data, int(bounds[-1]) + stop, *_STOP)
    view = np.frombuffer(data, np.uint8)
    regions = bounds[:-1], bounds[1:]
    found: list[Ints] = []
    shortest, suspicious = _NOWHERE, False
    for attempt in range(_ROUNDS + 1):
        begins, ends = (side[regions[0] < regions[1]] for side in regions)
        if not len(begins):
            break
        chains = _plan(data, view, begins, ends, attempt)
        walk = _walk(data, view, chains)
        suspicious |= walk.suspicious
        shortest = min(shortest, walk.shortest_key)
        proven, regions = _prove(chains, walk)
        found.append(proven)
    starts = found[0] if len(found) == 1 else np.sort(np.concatenate([bounds[:0], *found]))
    high_halves = np.ndarray((len(view) - 1,), np.dtype("<u2"), view, 0, (1,))
    if suspicious or len(found) > 1 or high_halves[starts].any():
        _check(view, starts)
    return FoundCells(starts, shortest if len(starts) else 0)


@dataclass(frozen=True, slots=True)
class _Chains:
    """Positions to walk from, ascending, each until it reaches or passes its limit."""

    starts: Ints
    limits: Ints
    regions: Ints
    region_ends: Ints
    steps: int
    """The expected number of steps of a chain."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """The result of a walk: all positions, whether they are in order, and the end of each chain."""

    visited: Ints
    landings: Ints
    shortest_key: int
    suspicious: bool
    """Whether a cell, perhaps of a wrong chain, had inconsistent lengths."""


def _plan(data: bytearray, view: Bytes, begins: Ints, ends: Ints, attempt: int) -> _Chains:
    """Chains from the starts of the regions and, except in the last attempt, from guesses."""
    total = int((ends - begins).sum())
    cell = _typical_size(view, begins[:_SAMPLE_REGIONS], int(ends[-1]))
    steps = max(8, round(math.sqrt(total / cell / _STEP_COST)))
    guesses = begins[:0]
    if attempt < _ROUNDS:
        spacing = min(cell * steps, _MAX_SPACING) + attempt * (cell // 2 + 1)
        guesses = _guesses(data, view, _probes(begins, ends, spacing), spacing)
    region = np.searchsorted(begins, guesses, "right") - 1
    inside = (region >= 0) & (guesses > begins[region]) & (guesses < ends[region])
    starts = np.concatenate([begins, guesses[inside]])
    order = np.argsort(starts)
    starts = starts[order]
    regions = np.concatenate([np.arange(len(begins)), region[inside]])[order]
    limits = np.minimum(np.append(starts[1:], ends[-1]), ends[regions])
    return _Chains(starts, limits, regions, ends, 2 * steps)


def _typical_size(view: Bytes, positions: Ints, end: int) -> int:
    """The typical size of cells, from the first ones after each of some positions."""
    sizes = []
    for _ in range(_SAMPLE_STEPS):
        words = load_words(view, positions + 2)
        size = ((words >> np.uint64(48)) + ((words << np.uint64(16)) >> np.uint64(32))).view(
            np.int64
        )
        sizes.append(size + 9)
        positions = positions + sizes[-1]
        positions = positions[positions < end]
    return int(np.clip(np.median(np.concatenate(sizes)), CELL_OVERHEAD, end))


def _probes(begins: Ints, ends: Ints, spacing: int) -> Ints:
    """Positions inside the regions, `spacing` bytes apart."""
    counts = (ends - begins - 1) // spacing
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    probes: Ints = np.repeat(begins, counts) + nth * spacing
    return probes


def _guesses(data: bytearray, view: Bytes, probes: Ints, spacing: int) -> Ints:
    """The first position after each probe that looks like the start of a cell."""
    find = data.find
    suffixes = np.array([find(KEY_SUFFIX, at, at + spacing) for at in probes.tolist()], np.int64)
    suffixes = suffixes[suffixes >= 0]
    if not len(suffixes):
        return suffixes
    content = int.from_bytes(data[8:CONTENT_START], "big")
    starts = suffixes - CONTENT_START - content
    likely = (starts >= 0) & _looks_right(view, np.maximum(starts, 0), content)
    if not likely.all():
        starts = np.concatenate([starts[likely], _search_short(view, suffixes[~likely])])
    return sorted_once(starts)


def _looks_right(
    view: Bytes, starts: Ints, content: int | Ints
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the key length and content length at each start match `content` bytes."""
    words = load_words(view, starts + 2)
    right: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        words >> np.uint64(48) == content + _KEY_EXTRA
    ) & (words & np.uint64(0xFFFF) == content)
    return right


def _search_short(view: Bytes, suffixes: Ints) -> Ints:
    """Cell starts before suffixes, for contents of any length below 256 bytes."""
    lengths = np.arange(_SHORT_KEY)
    found = [suffixes[:0]]
    for at in range(0, len(suffixes), _GUESS_ROWS):
        starts = suffixes[at : at + _GUESS_ROWS, None] - CONTENT_START - lengths
        right = (starts >= 0) & _looks_right(view, np.maximum(starts, 0), lengths)
        rows = np.flatnonzero(right.any(axis=1))
        found.append(starts[rows, right[rows].argmax(axis=1)])
    return np.concatenate(found)


def _walk(data: bytearray, view: Bytes, chains: _Chains) -> _Walk:
    """Walk all chains past their limits; those much longer than planned separately."""
    at_every_byte = np.ndarray((len(view) - 9,), np.dtype("<u8"), view, 2, (1,))
    end = int(chains.region_ends[-1])
    positions = chains.starts
    rows = [positions]
    faults = np.zeros(len(positions), np.int64)
    shortest = np.full(len(positions), _NOWHERE)
    # Finished chains continue into the cells of the next one or to the stop mark at the end, which
    # is cheaper than removing them at each step.
    while len(rows) <= chains.steps and not (
        len(rows) % _STEPS_BETWEEN_LOOKS == 0 and (positions >= chains.limits).all()
    ):
        words = at_every_byte[positions].byteswap().view(np.int64)
        keys = (words >> 48) & 0xFFFF
        contents = words & 0xFFFF
        faults |= keys - contents - _KEY_EXTRA
        np.minimum(shortest, contents, out=shortest)
        words >>= 16
        words &= 0xFFFFFFFF
        words += keys
        words += positions
        words += 9
        positions = np.minimum(words, end + _STOP_SPACING, out=words)
        rows.append(positions)
    table = np.stack(rows, axis=1)
    before = table < chains.limits[:, None]
    late = np.flatnonzero(before[:, -1])
    before[:, -1] = False
    landings = table[np.arange(len(table)), before.sum(axis=1)]
    visited = table[before]
    suspicious = bool(faults.any())
    if len(late):
        more, landings[late] = _walk_on(data, view, landings[late], chains.limits[late])
        visited = np.sort(np.concatenate([visited, more]))
        return _Walk(visited, landings, 0, suspicious=True)
    return _Walk(visited, landings, int(shortest.min()), suspicious)


def _walk_on(data: bytearray, view: Bytes, positions: Ints, limits: Ints) -> tuple[Ints, Ints]:
    """Walk chains of very different lengths, the last few one by one."""
    landings = positions.copy()
    active = np.arange(len(positions))
    visited: list[Ints] = []
    while len(active) > _FEW_CHAINS:
        visited.append(positions)
        words = load_words(view, positions + 2).view(np.int64)
        keys = np.maximum((words >> 48) & 0xFFFF, _KEY_EXTRA)  # short ones are rejected later
        positions = positions + keys + ((words >> 16) & 0xFFFFFFFF) + 9
        going = positions < limits
        landings[active] = positions
        active, positions, limits = active[going], positions[going], limits[going]
    for chain, position, limit in zip(
        active.tolist(), positions.tolist(), limits.tolist(), strict=True
    ):
        steps, landings[chain] = _walk_alone(data, position, limit)
        visited.append(steps)
    return np.concatenate([positions[:0], *visited]), landings


def _walk_alone(data: bytearray, position: int, limit: int) -> tuple[Ints, int]:
    """Walk one chain by itself, for unusual blocks in which guesses fail."""
    steps = array("q")
    unpack = _LENGTHS.unpack_from
    while position < limit:
        steps.append(position)
        key_length, value_length, _ = unpack(data, position)
        position += key_length + value_length + 9 if key_length >= _KEY_EXTRA else _NOWHERE
    return np.frombuffer(steps, np.int64), position


def _prove(chains: _Chains, walk: _Walk) -> tuple[Ints, tuple[Ints, Ints]]:
    """The visited positions that are cells, and the regions that remain to be walked.

    Each region is accepted up to its first chain that misses its limit.
    """
    missed = np.flatnonzero(walk.landings != chains.limits)
    if not len(missed):
        return walk.visited, (missed, missed)
    regions, first = np.unique(chains.regions[missed], return_index=True)
    culprits = missed[first]
    begins, ends = walk.landings[culprits], chains.region_ends[regions]
    over = np.flatnonzero(begins > ends)
    if len(over):
        raise BrokenCell(int(chains.starts[culprits[over[0]]]), "cells that leave their block")
    until = chains.region_ends.copy()
    until[regions] = chains.limits[culprits]
    region = chains.regions[np.searchsorted(chains.starts, walk.visited, "right") - 1]
    return walk.visited[walk.visited < until[region]], (begins, ends)


def _check(view: Bytes, starts: Ints) -> None:
    """Raise unless every cell's key length matches its content; slices limit the memory."""
    for at in range(0, len(starts), _CHECK_ROWS):
        part = starts[at : at + _CHECK_ROWS]
        words = load_words(view, part + 2)
        wrong = words >> np.uint64(48) != (words & np.uint64(0xFFFF)) + np.uint64(_KEY_EXTRA)
        wrong |= (view[part] | view[part + 1]) != 0
        if wrong.any():
            start = int(part[wrong.argmax()])
            raise BrokenCell(
                start, f"lengths {view[start : start + CONTENT_START].tobytes().hex()}"
            )


def find_fixed_width_cells(data: bytearray, bounds: Ints) -> FoundCells | None:
    """The cells of consecutive blocks in `data`; None if their keys differ in length.

    Block i is from `bounds[i]` to `bounds[i + 1]`; `PADDING` more bytes follow the last one.
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
    return FoundCells(starts, content, FixedWidthKeys(content, heads))


def _starts(view: Bytes, end: int, content: int) -> Ints:
    """The starts of cells whose suffix follows `content` bytes of key."""
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
    """The positions of full words; `apart` means that eight neighbours contain at most one."""
    is_full = words == np.uint32(_FULL_WORD)
    if not apart:
        return np.flatnonzero(is_full)
    eights = is_full.view("<u8")
    full = np.flatnonzero(eights != 0)
    # As a float, a number with one bit set has its position as exponent: 8 for each word skipped.
    exponents = eights[full].astype(np.float64).view(np.int64) >> _EXPONENT_OF_EIGHTS
    full *= _SPOT_WORDS
    full += exponents - _EXPONENT_BIAS
    return full


def _heads(view: Bytes, starts: Ints) -> Words | None:
    """The first 24 bytes of each cell as three words; None if the last ones exceed the buffer.

    Full words are at least 4 bytes apart and are corrected by 3 at most, so starts ascend.
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
