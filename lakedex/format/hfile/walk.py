"""Finding where the cells of data blocks start.

    4 key length K | 4 value length V | 2 content length | content | 10 suffix | value | 1 zero

Cells are a chain: the next one starts K + V + 9 bytes on, so a block has no cell that can be
found alone. Here many chains are walked in lockstep, one numpy step for all of them: one from
the start of each block, and more from *guessed* starts inside the blocks, found by the suffix
that all keys end in. A guess is believed only when the chain before it lands on it exactly;
the first chain of a block starts at a true cell, so by induction all believed ones do. Guesses
that are passed over are dropped and the rest of their block is walked again.
"""

from __future__ import annotations

import math
import struct
from array import array
from dataclasses import dataclass

import numpy as np

from lakedex.format.hfile.words import Bytes, Ints, load_words

KEY_SUFFIX = b"\0\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""What ends every key: no column family, the latest timestamp, type Put."""

CELL_OVERHEAD = 21
CONTENT_START = 10
"""The key's content starts this far into its cell."""

_LENGTHS = struct.Struct(">II")
_KEY_EXTRA = 12
_ROUNDS = 3
_MAX_STEPS = 20_000
_STEP_COST = 12
_SHORT_KEY = 256
_GUESS_ROWS = 4096
_CHECK_ROWS = 1 << 18
_NOWHERE = 1 << 60


class BrokenCell(Exception):
    """The bytes at `position` of the walked buffer are not a cell."""

    def __init__(self, position: int, found: str) -> None:
        """Name the position and what stands there."""
        self.position = position
        self.found = found
        super().__init__(found)


def cell_starts(data: bytearray, bounds: Ints) -> Ints:
    """The start of every cell, ascending, of blocks that lie end to end in `data`.

    Block i reaches from `bounds[i]` to `bounds[i + 1]`; at least 16 more bytes follow the last.

    Raises:
        BrokenCell: a cell's lengths do not fit each other or its block.
    """
    view = np.frombuffer(data, np.uint8)
    begins, ends = bounds[:-1], bounds[1:]
    found = []
    for attempt in range(_ROUNDS + 1):
        filled = begins < ends
        begins, ends = begins[filled], ends[filled]
        if not len(begins):
            break
        guesses = _guesses(data, view, begins, ends, attempt) if attempt < _ROUNDS else begins[:0]
        chains = _merge_guesses(begins, ends, guesses)
        visited, landings = _walk(data, view, chains)
        proven = _prove(chains, landings, len(begins))
        found.append(visited[proven.holds(visited, chains)])
        begins, ends = proven.rest
    starts = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
    _check(view, starts)
    return starts


@dataclass(frozen=True, slots=True)
class _Chains:
    """Places to walk from, ascending; each until it reaches or passes its limit."""

    starts: Ints
    limits: Ints
    regions: Ints
    region_ends: Ints


@dataclass(frozen=True, slots=True)
class _Proven:
    """How far each region is proven, and what is left to walk of it."""

    until: Ints
    rest: tuple[Ints, Ints]

    def holds(self, positions: Ints, chains: _Chains) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of `positions` lie in the proven part of their region."""
        region = chains.regions[np.searchsorted(chains.starts, positions, "right") - 1]
        kept: np.ndarray[tuple[int], np.dtype[np.bool_]] = positions < self.until[region]
        return kept


def _guesses(data: bytearray, view: Bytes, begins: Ints, ends: Ints, attempt: int) -> Ints:
    """Places inside the regions that look like cell starts."""
    first = int(begins[0])
    key_length, value_length = _LENGTHS.unpack_from(data, first)
    total = int((ends - begins).sum())
    cell = min(max(key_length + value_length + 9, CELL_OVERHEAD), total)
    spacing = cell * max(4, round(math.sqrt(total / cell / _STEP_COST)))
    if attempt:
        spacing += cell // 2 + attempt
    counts = (ends - begins - 1) // spacing
    if not counts.any():
        return begins[:0]
    nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    probes = np.repeat(begins, counts) + nth * spacing
    suffixes = np.array([data.find(KEY_SUFFIX, p, p + spacing) for p in probes.tolist()], np.int64)
    suffixes = suffixes[suffixes >= 0]
    content = key_length - _KEY_EXTRA
    starts = suffixes - CONTENT_START - content
    likely = (starts >= first) & _looks_right(view, np.maximum(starts, 0), content)
    return np.unique(np.concatenate([starts[likely], _search_short(view, suffixes[~likely])]))


def _looks_right(
    view: Bytes, starts: Ints, content: int | Ints
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the key length and content length at each start are those of `content` bytes."""
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


def _merge_guesses(begins: Ints, ends: Ints, guesses: Ints) -> _Chains:
    """Chains from the regions' begins and from the guesses that lie inside regions."""
    region = np.searchsorted(begins, guesses, "right") - 1
    inside = (region >= 0) & (guesses > begins[region]) & (guesses < ends[region])
    starts = np.concatenate([begins, guesses[inside]])
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    regions = np.concatenate([np.arange(len(begins)), region[inside]])[order]
    limits = np.minimum(np.append(starts[1:], ends[-1]), ends[regions])
    return _Chains(starts, limits, regions, ends)


def _walk(data: bytearray, view: Bytes, chains: _Chains) -> tuple[Ints, Ints]:
    """All places visited (unordered), and where each chain reached or passed its limit."""
    at_every_byte = np.ndarray((len(view) - 9,), np.dtype("<u8"), view, 2, (1,))
    landings = chains.starts.copy()
    active = np.arange(len(landings))
    positions, limits = chains.starts, chains.limits
    visited: list[Ints] = []
    while len(active) and len(visited) < _MAX_STEPS:
        visited.append(positions)
        words = at_every_byte[positions].byteswap().view(np.int64)
        keys = np.maximum((words >> 48) & 0xFFFF, _KEY_EXTRA)  # short ones are refused later
        positions = positions + keys + ((words >> 16) & 0xFFFFFFFF) + 9
        going = positions < limits
        if not going.all():
            landings[active] = positions
            active, positions, limits = active[going], positions[going], limits[going]
    for chain, position, limit in zip(
        active.tolist(), positions.tolist(), limits.tolist(), strict=True
    ):
        steps, landings[chain] = _walk_alone(data, position, limit)
        visited.append(steps)
    return np.concatenate(visited), landings


def _walk_alone(data: bytearray, position: int, limit: int) -> tuple[Ints, int]:
    """Walk one chain by itself: for hostile blocks, which defeat the guesses; still bounded."""
    steps = array("q")
    unpack = _LENGTHS.unpack_from
    while position < limit:
        steps.append(position)
        key_length, value_length = unpack(data, position)
        position += key_length + value_length + 9 if key_length >= _KEY_EXTRA else _NOWHERE
    return np.frombuffer(steps, np.int64), position


def _prove(chains: _Chains, landings: Ints, region_count: int) -> _Proven:
    """Believe each region up to its first chain that misses its limit."""
    missed = np.flatnonzero(landings != chains.limits)
    regions, first = np.unique(chains.regions[missed], return_index=True)
    until = chains.region_ends.copy()
    culprits = missed[first]
    until[regions] = chains.limits[culprits]
    begins = landings[culprits]
    ends = chains.region_ends[regions]
    over = np.flatnonzero(begins > ends)
    if len(over):
        raise BrokenCell(int(chains.starts[culprits[over[0]]]), "a cell that leaves its block")
    return _Proven(until, (begins, ends))


def _check(view: Bytes, starts: Ints) -> None:
    """Raise unless every cell's key length is that of its content; slices bound the memory."""
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
