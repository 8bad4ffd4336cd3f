"""Data blocks of cells with even keys, deflated so that they are inflated faster.

A compressor that knows nothing of cells looks for matches in the digits of keys and finds short
ones far away, which cost as much as the digits and more time. Here the bytes of keys are literals,
and all the rest is one match in most cells (`even_matches`).

Blocks are made some thousand cells at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from lakedex.format.compression import GZIP_HEADER, fast_crc32, gzip
from lakedex.format.deflate.bit_rows import BitRows
from lakedex.format.deflate.codes import (
    CODE_MASK,
    COUNT_SHIFT,
    DISTANCE_SYMBOL,
    LENGTH_SYMBOL,
    LITERALS,
    CodeTables,
    Weights,
    joined,
)
from lakedex.format.hfile.even_matches import CellMatches, EvenCells
from lakedex.format.hfile.words import Ints, Words

_SLICE_CELLS = 16 * 1024
_KEY_WEIGHT = 2.0
"""Codes of key bytes are made shorter than they should be: more of them fit one look-up."""
_SAMPLE = 4
_LEAST_SEEN = 0.5
_MOST_LONGER = 1.05
_TRAILER = struct.Struct("<II")
_WORD_BITS = 64


class EvenDeflater:
    """Deflates the blocks of one file; the codes that its first cells ask for serve all."""

    def __init__(self) -> None:
        """Know no codes yet."""
        self._tables: CodeTables | None = None
        self._is_worse = False

    def members(self, cells: EvenCells, cuts: Ints) -> Iterator[bytes] | None:
        """One gzip member for each block, the cells from `cuts[i]` to `cuts[i + 1]`.

        None when too few values are seen again, or when a compressor does better with the first
        block of the file, as it does where keys are much like their neighbours.
        """
        if self._is_worse:
            return None
        slices = _slices(cuts)
        first = CellMatches(cells, cuts[slices[0][0] : slices[0][1] + 1])
        if first.seen.mean() < _LEAST_SEEN:
            return None
        if self._tables is None:
            self._tables = CodeTables(_weights(first))
            member = next(_deflate(first, self._tables))
            raw = first.data[: int(first.bounds[first.cuts[1]])]
            self._is_worse = len(member) > _MOST_LONGER * len(gzip(raw.data))
            if self._is_worse:
                return None
        rest = (CellMatches(cells, cuts[low : high + 1]) for low, high in slices[1:])
        return _members(chain([first], rest), self._tables)


def _members(slices: Iterable[CellMatches], tables: CodeTables) -> Iterator[bytes]:
    """The gzip members of all slices."""
    for cells in slices:
        yield from _deflate(cells, tables)


def _slices(cuts: Ints) -> list[tuple[int, int]]:
    """Runs of blocks of some thousand cells."""
    wanted = np.arange(0, int(cuts[-1]), _SLICE_CELLS)
    starts = np.unique(np.searchsorted(cuts[:-1], wanted, "right") - 1)
    stops = np.append(starts[1:], len(cuts) - 1)
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _weights(cells: CellMatches) -> Weights:
    """How often symbols are used."""
    literals = np.ones(LITERALS)
    keys = cells.keys[::_SAMPLE, cells.shared :]
    literals += _KEY_WEIGHT * _SAMPLE * np.bincount(keys.ravel(), minlength=LITERALS)
    counts = cells.middle_counts[::_SAMPLE]
    at = np.repeat(cells.middles[::_SAMPLE] - np.cumsum(counts) + counts, counts)
    middles = cells.data[at + np.arange(len(at))]
    literals += _SAMPLE * np.bincount(middles, minlength=LITERALS)
    _, differing, lengths, distances = cells.headers()
    literals += np.bincount(differing, minlength=LITERALS)
    has_end = cells.closing > 0
    all_lengths = np.concatenate([cells.lengths, cells.closing[has_end], np.maximum(lengths, 3)])
    all_distances = np.concatenate([cells.distances, cells.sizes[cells.new][has_end], distances])
    return Weights(
        literals,
        np.ones(29) + np.bincount(LENGTH_SYMBOL[all_lengths], minlength=29),
        np.ones(30) + np.bincount(DISTANCE_SYMBOL[all_distances], minlength=30),
    )


def _deflate(cells: CellMatches, tables: CodeTables) -> Iterator[bytes]:
    """The gzip members of some blocks."""
    rows = BitRows(len(cells.sizes))
    for codes, counts in _merged([_header_column(cells, tables), *_key_columns(cells, tables)]):
        codes[cells.firsts] = 0
        counts[cells.firsts] = 0
        rows.add(codes, counts)
    matches = tables.match(cells.lengths, cells.distances)
    matches[cells.firsts] = 0
    rows.add_entries(matches)
    _add_middles(rows, cells, tables)
    closed = np.flatnonzero(cells.closing)
    at = cells.new[closed]
    rows.add_entries(tables.match(cells.closing[closed], cells.sizes[at]), at)
    before = [_first_cell(cells, tables, row) for row in cells.firsts.tolist()]
    streams = rows.pack(cells.cuts, before, tables.end)
    limits = cells.bounds[cells.cuts].tolist()
    for stream, start, stop in zip(streams, limits[:-1], limits[1:], strict=True):
        raw = cells.data[start:stop]
        trailer = _TRAILER.pack(fast_crc32(raw), len(raw))
        yield b"".join([GZIP_HEADER, stream.tobytes(), trailer])


def _header_column(cells: CellMatches, tables: CodeTables) -> Words:
    """Of each cell what the match before it did not reach of its header; nothing in most."""
    rows, differing, lengths, distances = cells.headers()
    if cells.shared:
        rest = tables.match(lengths, distances)
    else:
        width = cells.keys.shape[1]
        sizes = tables.literals[[width >> 8, width & 0xFF]]
        rest = np.repeat(joined(sizes[:1], sizes[1:]), len(rows))
    entries = np.zeros(len(cells.sizes), np.uint64)
    entries[rows] = joined(tables.literals.take(differing), rest)
    return entries


def _key_columns(cells: CellMatches, tables: CodeTables) -> Iterator[Words]:
    """The bytes of keys behind those that all share, two at a time."""
    start, width = cells.shared, cells.keys.shape[1]
    if (width - start) % 2:
        yield tables.literals.take(cells.keys[:, start])
        start += 1
    if start < width:
        pairs = np.ascontiguousarray(cells.keys[:, start:]).view("<u2")
        for column in range(pairs.shape[1]):
            yield tables.pairs.take(pairs[:, column])


def _add_middles(rows: BitRows, cells: CellMatches, tables: CodeTables) -> None:
    """The bytes of values that nothing was found for, four at a time."""
    odd = np.flatnonzero(cells.middle_counts % 2)
    rows.add_entries(tables.literals[cells.data[cells.middles[odd]]], cells.new[odd])
    at = cells.middles + cells.middle_counts % 2
    counts = cells.middle_counts - cells.middle_counts % 2
    where = cells.new
    pairs = np.ndarray((len(cells.data) - 1,), np.dtype("<u2"), cells.data, 0, (1,))
    while len(at):
        kept = np.flatnonzero(counts > 0)
        at, counts, where = at[kept], counts[kept], where[kept]
        second = tables.pairs.take(pairs[np.minimum(at + 2, len(pairs) - 1)])
        second[counts < 4] = 0
        rows.add_entries(joined(tables.pairs.take(pairs[at]), second), where)
        at, counts = at + 4, counts - 4


def _first_cell(cells: CellMatches, tables: CodeTables, row: int) -> tuple[int, int]:
    """The bits before the second cell of a block: those that start it, and literals."""
    bits, count = tables.header
    start = int(cells.bounds[row])
    stop = int(cells.bounds[row + 1]) + int(cells.reach[row])
    for entry in tables.literals[cells.data[start:stop]].tolist():
        bits |= (entry & int(CODE_MASK)) << count
        count += entry >> int(COUNT_SHIFT)
    return bits, count


def _merged(columns: Iterable[Words]) -> Iterator[tuple[Words, Ints]]:
    """Columns of entries as fewer columns of codes and counts of up to 64 bits."""
    merged: list[tuple[Words, Words]] = []
    for entries in columns:
        added = entries >> COUNT_SHIFT
        if merged and int(merged[-1][1].max()) + int(added.max()) <= _WORD_BITS:
            codes, counts = merged[-1]
            codes |= (entries & CODE_MASK) << counts
            counts += added
        else:
            merged.append((entries & CODE_MASK, added))
    return ((codes, counts.view(np.int64)) for codes, counts in merged)
