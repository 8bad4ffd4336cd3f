"""Splits the Avro bytes of a delete block into its records, many at a time.

A record is: key (branch 0 or 1, length, bytes), partition path (the same), and the ordering
value (a branch of the union, then what that wrapper holds). A list may come in several parts,
each behind its item count (negative: its size in bytes follows) and closed by a zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.format.chains import ChainRules, Positions, walk_chain

_PADDING = 16
_MOST_PARTS = 256
_MOST_ORDERING_FIELDS = 64
_SMALLEST_ITEM = 3

_UNKNOWN, _FIXED, _VARINT, _BYTES, _ARRAY = range(5)
_ORDERING_KINDS = np.full(128, _UNKNOWN, dtype=np.int8)
_ORDERING_KINDS[[0, 1, 4, 5]] = _FIXED
_ORDERING_KINDS[[2, 3, 8, 10, 11]] = _VARINT
_ORDERING_KINDS[[6, 7, 9]] = _BYTES
_ORDERING_KINDS[12] = _ARRAY
_ITEM_KINDS = _ORDERING_KINDS.copy()
_ITEM_KINDS[12] = _VARINT
_FIXED_SIZES = np.zeros(128, dtype=np.int64)
_FIXED_SIZES[[1, 4, 5]] = (1, 4, 8)
_KINDS: list[int] = _ORDERING_KINDS.tolist()
_SIZES: list[int] = _FIXED_SIZES.tolist()
_BOOLEAN = 2
_LONGEST_VARINT = 10


def split_delete_items(
    data: npt.NDArray[np.uint8], start: int, *, path: str, base_offset: int
) -> tuple[Positions, Positions]:
    """The starts and ends of the delete records in the list that stands in `data[start:]`."""
    size = len(data)
    skipper = _Skipper(data)
    rules = ChainRules(skipper.item, size, skipper.one_item)
    starts: list[Positions] = []
    ends: list[Positions] = []
    at = start
    for _ in range(_MOST_PARTS):
        count, at = skipper.count(at)
        if count == 0 and at == size:
            return _concat(starts), _concat(ends)
        if not 0 < count <= (size - at) // _SMALLEST_ITEM:
            raise CorruptFile(
                path, base_offset + at, expected="a count of delete records", actual=count
            )
        found = walk_chain(rules, at, count)
        at = int(found[-1])
        if len(found) <= count:
            raise CorruptFile(
                path, base_offset + at, expected="a delete record", actual="other bytes"
            )
        starts.append(found[:-1])
        ends.append(found[1:])
    raise UnsupportedFeature(f"a delete list in more than {_MOST_PARTS} parts in {path}")


def _concat(parts: list[Positions]) -> Positions:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


class _Skipper:
    """Steps over Avro values, for vectors of positions.

    Positions past the end stand for "nothing valid here": the padding that they point at is made
    of bytes that are no valid branch and no valid number, so that they stay past the end.
    """

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._end = len(data)
        self._dead = self._end + 1
        self._data = np.append(data, np.full(_PADDING, 0xFF, dtype=np.uint8))
        self._plain = self._data.tobytes()

    def item(self, at: Positions) -> Positions:
        """Where the delete records at `at` end; -1 where there is none."""
        ends = self._ordering(self._text(self._text(at)), _ORDERING_KINDS)
        return np.where(ends > self._end, -1, ends)

    def one_item(self, at: int) -> int:
        """Where the delete record at `at` ends; -1 if there is none.

        For one record plain numbers are faster than vectors; only a list of ordering values, which
        few tables have, is left to those.
        """
        ordering = self._one_text(self._one_text(at))
        if not 0 <= ordering < self._end:
            return -1
        branch = self._plain[ordering]
        kind = _UNKNOWN if branch & 1 else _KINDS[branch >> 1]
        if kind == _ARRAY:
            return int(self.item(np.array([at], dtype=np.int64))[0])
        after = -1
        if kind == _VARINT:
            after = self._one_number(ordering + 1)[1]
        elif kind == _BYTES:
            after = self._one_bytes(ordering + 1)
        elif kind == _FIXED and (branch != _BOOLEAN or self._plain[ordering + 1] <= 1):
            after = ordering + 1 + _SIZES[branch >> 1]
        return after if after <= self._end else -1

    def _one_text(self, at: int) -> int:
        if not 0 <= at < self._end:
            return -1
        branch = self._plain[at]
        if branch == 2:
            return self._one_bytes(at + 1)
        return at + 1 if branch == 0 else -1

    def _one_bytes(self, at: int) -> int:
        length, after = self._one_number(at)
        return after + length if after >= 0 and 0 <= length <= self._end - after else -1

    def _one_number(self, at: int) -> tuple[int, int]:
        """The zigzag number at `at`, and where it ends; -1 if it does not."""
        bits = shift = 0
        for place in range(at, min(at + _LONGEST_VARINT, self._end)):
            byte = self._plain[place]
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                bits &= 0xFFFFFFFFFFFFFFFF
                return (bits >> 1) ^ -(bits & 1), place + 1
            shift += 7
        return 0, -1

    def count(self, at: int) -> tuple[int, int]:
        """The item count of a part of the list, and where its items start; -1 if invalid."""
        value, after = self._number(np.array([min(at, self._dead)], dtype=np.int64))
        count = int(value[0])
        if count < 0:
            _, after = self._number(after)
        return (-1, at) if after[0] > self._end else (abs(count), int(after[0]))

    def _valid(self, ok: npt.NDArray[np.bool_], at: Positions) -> Positions:
        return np.where(ok & (at <= self._end), at, self._dead)

    def _number(self, at: Positions) -> tuple[Positions, Positions]:
        """The zigzag numbers at `at`, and where they end."""
        byte = self._data[at]
        bits = (byte & 0x7F).astype(np.uint64)
        after = at + 1
        more = np.flatnonzero(byte >= 0x80)
        for shift in range(7, 70, 7):
            if not len(more):
                break
            byte = self._data[np.minimum(after[more], self._dead)]
            bits[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[more] += 1
            more = more[byte >= 0x80]
        after[more] = self._dead
        sign = np.uint64(0) - (bits & np.uint64(1))
        return ((bits >> np.uint64(1)) ^ sign).view(np.int64), self._valid(at <= self._end, after)

    def _bytes(self, at: Positions) -> Positions:
        """Step over a length and that many bytes."""
        length, after = self._number(at)
        ok = (length >= 0) & (length <= self._end - after)
        return self._valid(ok, after + np.where(ok, length, 0))

    def _text(self, at: Positions) -> Positions:
        """Step over an optional string."""
        branch = self._data[at]
        present = np.flatnonzero(branch == 2)
        after = self._valid(branch == 0, at + 1)
        after[present] = self._bytes(at[present] + 1)
        return after

    def _ordering(self, at: Positions, kinds: npt.NDArray[np.int8]) -> Positions:
        """Step over an optional wrapper."""
        byte = self._data[at]
        branch = byte >> 1
        kind = np.where(byte & 1, _UNKNOWN, kinds[branch])
        after = self._valid(kind == _FIXED, at + 1 + _FIXED_SIZES[branch])
        truth = self._data[np.minimum(at + 1, self._dead)]
        after[(branch == 1) & (truth > 1)] = self._dead
        for wanted, skip in ((_VARINT, self._varint), (_BYTES, self._bytes), (_ARRAY, self._array)):
            rows = np.flatnonzero(kind == wanted)
            if len(rows):
                after[rows] = skip(at[rows] + 1)
        return after

    def _varint(self, at: Positions) -> Positions:
        return self._number(at)[1]

    def _array(self, at: Positions) -> Positions:
        """Step over an optional array of wrappers, which may come in parts."""
        branch = self._data[at]
        after = self._valid((branch == 0) | (branch == 2), at + 1)
        rows = np.flatnonzero(branch == 2)
        left = np.zeros(len(rows), dtype=np.int64)
        for _ in range(_MOST_ORDERING_FIELDS):
            rows, left = self._open_parts(after, rows, left)
            if not len(rows):
                return after
            after[rows] = self._ordering(after[rows], _ITEM_KINDS)
            left -= 1
        after[rows] = self._dead
        return after

    def _open_parts(
        self, after: Positions, rows: Positions, left: Positions
    ) -> tuple[Positions, Positions]:
        """Read the count of the next part for the rows that have no item left."""
        empty = np.flatnonzero(left == 0)
        count, begin = self._number(after[rows[empty]])
        sized = np.flatnonzero(count < 0)
        begin[sized] = self._number(begin[sized])[1]
        after[rows[empty]] = begin
        left = left.copy()
        left[empty] = np.abs(count)
        open_rows = (left > 0) & (after[rows] <= self._end)
        return rows[open_rows], left[open_rows]
