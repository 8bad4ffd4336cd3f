"""Huffman codes of deflate (RFC 1951): lengths from weights, codes from lengths, tables of both.

A table entry is a code with its extra bits in the low 56 bits, first bit lowest, and the number of
bits above. Every symbol has a code, however rare it was where the weights were counted: so codes
made from a part of the data fit the rest too. No code is longer than 12 bits (10 for distances),
which is what inflaters look up in one step; it makes the stream hardly longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

COUNT_SHIFT = np.uint64(56)
CODE_MASK = np.uint64((1 << 56) - 1)
LITERALS = 256
END = 256
MAX_MATCH = 258
MAX_DISTANCE = 32768

_LITERAL_LIMIT, _DISTANCE_LIMIT, _HEADER_LIMIT = 12, 10, 7
_LENGTH_SYMBOLS, _DISTANCE_SYMBOLS = 29, 30
_HEADER_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_LENGTH_EXTRA = np.array([0] * 8 + [n for n in range(1, 6) for _ in range(4)] + [0])
_LENGTH_BASE = np.append(3 + np.cumsum(np.append(0, 1 << _LENGTH_EXTRA[:27])), MAX_MATCH)
_DISTANCE_EXTRA = np.array([0, 0] + [n for n in range(14) for _ in range(2)])
_DISTANCE_BASE = 1 + np.cumsum(np.append(0, 1 << _DISTANCE_EXTRA[:29]))


def _symbols(base: Ints, most: int) -> Ints:
    """The symbol of every number up to `most`; those below the first have that of the first."""
    return np.maximum(np.searchsorted(base, np.arange(most + 1), "right") - 1, 0)


LENGTH_SYMBOL = _symbols(_LENGTH_BASE, MAX_MATCH)
DISTANCE_SYMBOL = _symbols(_DISTANCE_BASE, MAX_DISTANCE)


@dataclass(frozen=True)
class Weights:
    """How often symbols are used, roughly."""

    literals: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.float64]
    distances: npt.NDArray[np.float64]


class CodeTables:
    """The codes of one deflate block with all that is written before its data.

    Example:
        >>> tables = CodeTables(Weights(np.ones(256), np.ones(29), np.ones(30)))
        >>> int(tables.literals[65] >> COUNT_SHIFT)
        8
    """

    def __init__(self, weights: Weights) -> None:
        """Make codes that are shorter for what is used more."""
        lengths = code_lengths([*weights.literals, 1, *weights.lengths], _LITERAL_LIMIT)
        distances = code_lengths(weights.distances.tolist(), _DISTANCE_LIMIT)
        codes = canonical_codes(lengths)
        self.literals = _entries(codes[:LITERALS], lengths[:LITERALS])
        self.end = _entries(codes[END : END + 1], lengths[END : END + 1])[0]
        self.matches = _with_extra(
            codes[END + 1 :], lengths[END + 1 :], LENGTH_SYMBOL, _LENGTH_BASE, _LENGTH_EXTRA
        )
        self.distances = _with_extra(
            canonical_codes(distances), distances, DISTANCE_SYMBOL, _DISTANCE_BASE, _DISTANCE_EXTRA
        )
        low, high = np.arange(LITERALS * LITERALS) % LITERALS, np.arange(LITERALS**2) // LITERALS
        # By two bytes as a little-endian number.
        self.pairs = joined(self.literals[low], self.literals[high])
        self.header = _block_header(lengths, distances)

    def match(self, lengths: Ints, distances: Ints) -> Words:
        """Entries of matches."""
        return joined(self.matches.take(lengths), self.distances.take(distances))


def joined(first: Words, second: Words) -> Words:
    """Entries of two codes one after the other; together they are at most 56 bits."""
    shift = first >> COUNT_SHIFT
    return ((first & CODE_MASK) | ((second & CODE_MASK) << shift)) + (
        (shift + (second >> COUNT_SHIFT)) << COUNT_SHIFT
    )


def code_lengths(weights: Sequence[float], limit: int) -> Ints:
    """The lengths of codes for all symbols, none longer than `limit`.

    Weights that are too small for that are raised until it holds.

    Example:
        >>> code_lengths([8, 4, 2, 1, 1], 15).tolist(), code_lengths([8, 4, 2, 1, 1], 3).tolist()
        ([1, 2, 3, 4, 4], [1, 3, 3, 3, 3])
    """
    total = sum(weights)
    for shift in range(limit + 2, -1, -1):
        lengths = _tree_depths([max(weight, total / (1 << shift)) for weight in weights])
        if max(lengths) <= limit:
            return np.array(lengths)
    raise AssertionError("equal weights always fit")


def _tree_depths(weights: Sequence[float]) -> list[int]:
    """How deep each symbol lies in a Huffman tree."""
    heap = [(weight, symbol) for symbol, weight in enumerate(weights)]
    heapq.heapify(heap)
    parents = [0] * (2 * len(weights) - 1)
    for node in range(len(weights), len(parents)):
        weight, least = heapq.heappop(heap)
        more, second = heap[0]
        parents[least] = parents[second] = node
        heapq.heapreplace(heap, (weight + more, node))
    depths = [0] * len(parents)
    for node in range(len(parents) - 2, -1, -1):
        depths[node] = depths[parents[node]] + 1
    return depths[: len(weights)]


def canonical_codes(lengths: Ints) -> Words:
    """The codes that deflate gives to symbols of these lengths, first bit lowest."""
    codes = np.zeros(len(lengths), np.uint64)
    code = 0
    for bits in range(1, int(lengths.max()) + 1):
        code <<= 1
        for symbol in np.flatnonzero(lengths == bits).tolist():
            codes[symbol] = int(f"{code:0{bits}b}"[::-1], 2)
            code += 1
    return codes


def _entries(codes: Words, counts: Ints) -> Words:
    return codes | (counts.astype(np.uint64) << COUNT_SHIFT)


def _with_extra(codes: Words, counts: Ints, symbols: Ints, base: Ints, extra: Ints) -> Words:
    """Entries for all numbers: the code of the number's symbol, and how far it is from its base."""
    rest = np.maximum(np.arange(len(symbols)) - base[symbols], 0).astype(np.uint64)
    shifted = rest << counts[symbols].astype(np.uint64)
    return _entries(codes[symbols] | shifted, counts[symbols] + extra[symbols])


def _block_header(literals: Ints, distances: Ints) -> tuple[int, int]:
    """The bits that start a last block with codes of its own, and how many they are."""
    lengths = [*literals.tolist(), *distances.tolist()]
    counts = np.bincount(lengths, minlength=len(_HEADER_ORDER))
    code_counts = code_lengths(counts.tolist(), _HEADER_LIMIT)
    codes = canonical_codes(code_counts)
    parts = [(1, 1), (2, 2), (len(literals) - 257, 5), (len(distances) - 1, 5), (15, 4)]
    parts += [(int(code_counts[symbol]), 3) for symbol in _HEADER_ORDER]
    parts += [(int(codes[length]), int(code_counts[length])) for length in lengths]
    bits = count = 0
    for value, size in parts:
        bits |= value << count
        count += size
    return bits, count
