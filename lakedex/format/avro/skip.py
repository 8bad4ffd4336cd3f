"""Skips Avro values without decoding them, and finds the items of arrays and maps.

An array or map is a sequence of blocks, each a count and that many items; a negative count is
followed by the block's size in bytes; count 0 ends it. Lanes process items in lockstep while most
of them have items left. The rest, a few records with long arrays, is skipped record by record:

* Long blocks of flat items by `RunFinder`, from many positions at once. There are no separators
  between items, so the start of an item is known from the previous one only. However, a walk from a
  wrong byte soon reaches invalid bytes or the start of a real item. The array is therefore split
  into segments. In each, the position where most walks from its first bytes meet is the guess, and
  then all segments are walked in lockstep. A segment counts only if the walk of the previous one
  ended exactly at its guess; the first walk is always right. A wrong guess costs time but never
  gives a wrong result.
* The rest by `skipper`, one value after the other in plain Python, in time linear in the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lakedex.errors import CorruptFile
from lakedex.format.avro.lanes import I64, Lanes, Mask, Source
from lakedex.schema.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
)

Skipper: TypeAlias = Callable[[memoryview, int, int], int]

_FIXED_WIDTHS = {
    PrimitiveKind.NULL: 0,
    PrimitiveKind.BOOLEAN: 1,
    PrimitiveKind.FLOAT: 4,
    PrimitiveKind.DOUBLE: 8,
}
Skip: TypeAlias = Callable[[AvroType, Lanes], None]
_ITEMS_A_SEGMENT = 64
_MOST_ROUNDS = 8 * _ITEMS_A_SEGMENT
_FEWEST_SEGMENTS = 32
_MOST_SEGMENTS = 1024
_MOST_GUESSES = 1 << 17
_MEETING_STEPS = 4
_LOCKSTEP_ROUNDS = 24
_BUSY_LANES = 256
_FEW_LANES = 24
_RUN_ITEMS = 8192
_SAMPLE_ITEMS = 32
_WIDTHS = {PrimitiveKind.FLOAT: 4, PrimitiveKind.DOUBLE: 8}


class BadValue(Exception):
    """An invalid value and its position; the caller adds the file."""

    def __init__(self, position: int, expected: str, actual: object) -> None:
        """Name the position in the buffer, the expected content and the actual one."""
        super().__init__(expected)
        self.position = position
        self.expected = expected
        self.actual = actual


def least_bytes(node: AvroType) -> int:
    """The least number of bytes of a value of the type."""
    if isinstance(node, AvroPrimitive):
        return _FIXED_WIDTHS.get(node.kind, 1)
    if isinstance(node, AvroFixed):
        return node.size
    if isinstance(node, AvroUnion):
        return 1 + min(least_bytes(branch) for branch in node.branches)
    if isinstance(node, AvroRecord):
        return sum(least_bytes(item.type) for item in node.fields)
    return 1


def is_flat(node: AvroType) -> bool:
    """Whether the type contains no array or map, so that skipping it takes bounded steps."""
    if isinstance(node, AvroArray | AvroMap):
        return False
    if isinstance(node, AvroUnion):
        return all(is_flat(branch) for branch in node.branches)
    if isinstance(node, AvroRecord):
        return all(is_flat(item.type) for item in node.fields)
    return True


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Read a zigzag number; return it with the position after it.

    Example:
        >>> read_varint(memoryview(bytes([0xAC, 0x02])), 0, 2)
        (150, 2)
    """
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            break
    raise BadValue(start, "a number of at most 64 bits", "a longer one or the end of the record")


def read_block_count(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The number of items in the next block of an array or map, and the start of the first."""
    start = at
    count, at = read_varint(data, at, end)
    if count >= 0:
        return count, at
    size, at = read_varint(data, at, end)
    if not 0 <= size <= end - at:
        raise BadValue(start, "a block within its record", size)
    return -count, at


def skipper(node: AvroType) -> Skipper:
    """A function from the position of a value of the type to the position after it."""
    if isinstance(node, AvroPrimitive):
        return _primitive(node.kind)
    if isinstance(node, AvroFixed):
        return _fixed(node.size)
    if isinstance(node, AvroEnum):
        return _varint
    if isinstance(node, AvroArray):
        return _blocks(skipper(node.items), least_bytes(node.items))
    if isinstance(node, AvroMap):
        value = skipper(node.values)

        def entry(data: memoryview, at: int, end: int) -> int:
            return value(data, _sized(data, at, end), end)

        return _blocks(entry, 1)
    if isinstance(node, AvroUnion):
        return _union([skipper(branch) for branch in node.branches])
    return _record([skipper(item.type) for item in node.fields])


def _primitive(kind: PrimitiveKind) -> Skipper:
    if kind in _FIXED_WIDTHS:
        return _fixed(_FIXED_WIDTHS[kind])
    return _sized if kind in (PrimitiveKind.BYTES, PrimitiveKind.STRING) else _varint


def _varint(data: memoryview, at: int, end: int) -> int:
    return read_varint(data, at, end)[1]


def _sized(data: memoryview, at: int, end: int) -> int:
    size, after = read_varint(data, at, end)
    if not 0 <= size <= end - after:
        raise BadValue(at, "a length within the record", size)
    return after + size


def _fixed(size: int) -> Skipper:
    def skip(_data: memoryview, at: int, end: int) -> int:
        if size > end - at:
            raise BadValue(at, f"{size} bytes", end - at)
        return at + size

    return skip


def _union(branches: list[Skipper]) -> Skipper:
    def skip(data: memoryview, at: int, end: int) -> int:
        branch, after = read_varint(data, at, end)
        if not 0 <= branch < len(branches):
            raise BadValue(at, f"a union branch below {len(branches)}", branch)
        return branches[branch](data, after, end)

    return skip


def _record(fields: list[Skipper]) -> Skipper:
    def skip(data: memoryview, at: int, end: int) -> int:
        for skip_field in fields:
            at = skip_field(data, at, end)
        return at

    return skip


def _blocks(item: Skipper, least: int) -> Skipper:
    def skip(data: memoryview, at: int, end: int) -> int:
        while True:
            start = at
            count, at = read_block_count(data, at, end)
            if count == 0:
                return at
            if least == 0:
                continue
            if count > (end - at) // least:
                raise BadValue(start, "no more items than bytes are left", count)
            for _ in range(count):
                at = item(data, at, end)

    return skip


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive items, the position after them, and whether another search is worthwhile."""

    starts: I64
    after: int
    worth_more: bool


@dataclass(slots=True)
class RunFinder:
    """Walks items of one flat type in one buffer, up to `end`."""

    node: AvroType
    source: Source
    end: int
    skip: Skip = field(kw_only=True)

    def find(self, at: int, count: int, item_bytes: float) -> Run:
        """Up to `count` items from `at` on; `item_bytes` is the approximate size of one."""
        limit = min(self.end, at + int(item_bytes * count) + 1)
        window = int(2 * item_bytes) + 16
        segments = min(
            int((limit - at) / (item_bytes * _ITEMS_A_SEGMENT)),
            _MOST_SEGMENTS,
            _MOST_GUESSES // window,
        )
        if segments < _FEWEST_SEGMENTS:
            return Run(np.zeros(0, np.int64), at, worth_more=False)
        firsts = np.append(at, self._guesses(at, limit, segments, window))
        firsts = firsts[np.append(True, firsts[1:] > np.maximum.accumulate(firsts)[:-1])]
        return self._walk(firsts, limit, count, segments)

    def _guesses(self, at: int, limit: int, segments: int, window: int) -> I64:
        """For most segments except the first, the probable start of an item."""
        bases = at + (limit - at) // segments * np.arange(1, segments, dtype=np.int64)
        cur = np.minimum((bases[:, None] + np.arange(window)).ravel(), self.end)
        segment = np.repeat(np.arange(segments - 1, dtype=np.int64), window)
        lanes = self._tolerant(cur)
        for _ in range(_MEETING_STEPS):
            self.skip(self.node, lanes)
            keep = np.flatnonzero(_living(lanes))
            lanes, segment = lanes.subset(keep), segment[keep]
        span = self.end + 1
        places, walks = np.unique(segment * span + lanes.cur, return_counts=True)
        best = np.lexsort((-walks, places // span))
        places = places[best]
        chosen = np.append(True, np.diff(places // span) > 0)[: len(places)]
        return places[chosen] % span

    def _tolerant(self, cur: I64) -> Lanes:
        """Lanes that are marked as dead, without an error, if there is no item."""
        ends = np.full(len(cur), self.end, np.int64)
        return Lanes(self.source, cur, ends, np.ones(len(cur), np.bool_))

    def _walk(self, firsts: I64, limit: int, count: int, segments: int) -> Run:
        stops = np.append(firsts[1:], limit)
        cur = firsts.copy()
        alive = np.ones(len(firsts), np.bool_)
        pieces: list[tuple[I64, I64]] = []
        active = np.arange(len(firsts), dtype=np.int64)
        for _ in range(_MOST_ROUNDS):
            if not len(active):
                break
            lanes = self._tolerant(cur[active])
            self.skip(self.node, lanes)
            living = _living(lanes)
            alive[active[~living]] = False
            active = active[living]
            pieces.append((active, cur[active]))
            cur[active] = lanes.cur[living]
            active = active[cur[active] < stops[active]]
        return _joined(pieces, alive & (cur == stops), cur, count, segments)


def _living(lanes: Lanes) -> Mask:
    return np.ones(len(lanes), np.bool_) if lanes.alive is None else lanes.alive


def _joined(pieces: list[tuple[I64, I64]], exact: Mask, cur: I64, count: int, segments: int) -> Run:
    """The items of the first segments, up to the one that did not end where the next began."""
    exact[-1] = False
    last = int(np.argmin(exact))
    lane = np.concatenate([index for index, _ in pieces])
    starts = np.concatenate([position for _, position in pieces])
    # Within a segment the pieces are in order already, so a stable sort by segment is enough.
    kept = np.flatnonzero(lane <= last)
    starts = starts[kept][np.argsort(lane[kept], kind="stable")]
    after = int(cur[last])
    if len(starts) > count:
        after = int(starts[count])
        starts = starts[:count]
    return Run(starts, after, worth_more=4 * (last + 1) >= segments)


def skip(node: AvroType, lanes: Lanes) -> None:
    """Advance every lane past one value of the type."""
    if isinstance(node, AvroPrimitive):
        _skip_primitive(node.kind, lanes)
    elif isinstance(node, AvroFixed):
        lanes.advance(node.size, f"{node.size} bytes")
    elif isinstance(node, AvroEnum):
        read_index(lanes, len(node.symbols), "an enum symbol")
    elif isinstance(node, AvroUnion):
        _skip_union(node, lanes)
    elif isinstance(node, AvroRecord):
        for item in node.fields:
            skip(item.type, lanes)
    else:
        find_items(item_type(node), lanes)


def item_type(node: AvroArray | AvroMap) -> AvroType:
    """The encoded type of an item of an array or map; a map entry is a record of two fields."""
    if isinstance(node, AvroArray):
        return node.items
    key = AvroField("key", AvroPrimitive(PrimitiveKind.STRING))
    return AvroRecord("entry", "", (key, AvroField("value", node.values)))


def read_index(lanes: Lanes, count: int, what: str) -> I64:
    """Read a number below `count`."""
    start = lanes.cur
    index = lanes.varint(f"the number of {what}")
    ok = (index >= 0) & (index < count)
    if lanes.alive is not None:
        lanes.alive &= ok
        return np.where(ok, index, 0)
    if not ok.all():
        lane = int(np.argmin(ok))
        expected = f"the number of {what} below {count}"
        raise lanes.corrupt(int(start[lane]), expected, int(index[lane]))
    return index


def find_items(node: AvroType, lanes: Lanes) -> tuple[I64, I64]:
    """The starts of the items of each lane's array, lane by lane, and their number per lane."""
    search = _Search(node, lanes)
    search.lockstep()
    return search.result()


def _skip_primitive(kind: PrimitiveKind, lanes: Lanes) -> None:
    if kind in (PrimitiveKind.INT, PrimitiveKind.LONG):
        lanes.varint("a number")
    elif kind in (PrimitiveKind.STRING, PrimitiveKind.BYTES):
        lanes.advance(lanes.varint("a length"), "a length within the record")
    elif kind is PrimitiveKind.BOOLEAN:
        lanes.require(lanes.byte("a boolean") <= 1, "a boolean 0 or 1", "another byte")
    elif kind in _WIDTHS:
        lanes.advance(_WIDTHS[kind], f"{_WIDTHS[kind]} bytes")


def _skip_union(node: AvroUnion, lanes: Lanes) -> None:
    branch = read_index(lanes, len(node.branches), "a union branch")
    for number, inner in node.members:
        chosen = np.flatnonzero(branch == number)
        if len(chosen) == len(lanes):
            skip(inner, lanes)
        elif len(chosen):
            part = lanes.subset(chosen)
            skip(inner, part)
            lanes.put_back(chosen, part)


@dataclass(slots=True)
class _Search:
    """The items found so far, in pieces: the lane, the number of the item in it, its start."""

    node: AvroType
    lanes: Lanes
    least: int = 0
    totals: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    pieces: list[tuple[I64, I64, I64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.least = least_bytes(self.node)
        self.totals = np.zeros(len(self.lanes), np.int64)

    def lockstep(self) -> None:
        """Read blocks and items of all lanes together while that is efficient."""
        active = np.arange(len(self.lanes), dtype=np.int64)
        left = np.zeros(len(self.lanes), np.int64)
        rounds = 0
        while len(active):
            rounds += 1
            enough = _FEW_LANES if rounds <= _LOCKSTEP_ROUNDS else _BUSY_LANES
            if len(active) < enough:
                self._one_by_one(active, left)
                return
            at_block = active[left[active] == 0]
            if len(at_block):
                active = self._begin_blocks(active, at_block, left)
            if len(active) and self.least:
                self._step(active)
                left[active] -= 1

    def _begin_blocks(self, active: I64, at_block: I64, left: I64) -> I64:
        part = self.lanes.subset(at_block)
        counts = _read_counts(part, self.least)
        self.lanes.put_back(at_block, part)
        if self.least == 0:
            self._add_empty_items(at_block, counts)
            return active[np.isin(active, at_block[counts > 0])]
        left[at_block] = counts
        return active[left[active] > 0]

    def _add_empty_items(self, index: I64, counts: I64) -> None:
        """Add items without bytes, which all start at the start of their block."""
        total = int(np.minimum(counts, self.lanes.source.empty_items_left + 1).sum())
        _spend_empty(self.lanes.source, total, int(self.lanes.cur[index[0]]))
        ordinal = _ranges(self.totals[index], counts)
        self.pieces.append(
            (np.repeat(index, counts), ordinal, np.repeat(self.lanes.cur[index], counts))
        )
        self.totals[index] += counts

    def _step(self, active: I64) -> None:
        """Read one item of every active lane."""
        part = self.lanes.subset(active)
        self.pieces.append((active, self.totals[active], part.cur.copy()))
        skip(self.node, part)
        self.lanes.put_back(active, part)
        self.totals[active] += 1

    def _one_by_one(self, active: I64, left: I64) -> None:
        step = skipper(self.node)
        flat = is_flat(self.node)
        data = self.lanes.source.data.data
        for lane in active.tolist():
            at, end = int(self.lanes.cur[lane]), int(self.lanes.end[lane])
            walker = _Walker(self.node, self.lanes.source, step, self.least, flat=flat)
            try:
                starts, at = walker.rest_of_array(data, at, end, int(left[lane]))
            except BadValue as bad:
                raise self.lanes.corrupt(bad.position, bad.expected, bad.actual) from None
            ordinal = self.totals[lane] + np.arange(len(starts), dtype=np.int64)
            self.pieces.append((np.full(len(starts), lane, np.int64), ordinal, starts))
            self.totals[lane] += len(starts)
            self.lanes.cur[lane] = at

    def result(self) -> tuple[I64, I64]:
        """All starts in the order of lanes and items."""
        base = np.cumsum(self.totals) - self.totals
        starts = np.zeros(int(self.totals.sum()), np.int64)
        for lane, ordinal, position in self.pieces:
            starts[base[lane] + ordinal] = position
        return starts, self.totals


def _read_counts(part: Lanes, least: int) -> I64:
    start = part.cur
    counts = part.varint("a block count")
    sized = np.flatnonzero(counts < 0)
    if len(sized):
        inner = part.subset(sized)
        sizes = inner.varint("a block size")
        inner.require(
            (sizes >= 0) & (sizes <= inner.end - inner.cur), "a block within its record", sizes
        )
        part.put_back(sized, inner)
        counts[sized] = -counts[sized]
    most = (part.end - part.cur) // least if least else np.iinfo(np.int64).max
    ok: Mask = (counts >= 0) & (counts <= most)
    if not ok.all():
        lane = int(np.argmin(ok))
        expected = "no more items than bytes are left"
        raise part.corrupt(int(start[lane]), expected, int(counts[lane]))
    return counts


def _spend_empty(source: Source, count: int, position: int) -> None:
    source.empty_items_left -= count
    if source.empty_items_left < 0:
        offset = source.base_offset + position
        raise CorruptFile(source.path, offset, expected="fewer items without bytes", actual=count)


def _ranges(first: I64, counts: I64) -> I64:
    """The numbers first[i], first[i] + 1, ... (counts[i] of them), for every i in order."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(first - (ends - counts), counts)


@dataclass(slots=True)
class _Walker:
    """Walks the rest of one record's array."""

    node: AvroType
    source: Source
    step: Skipper
    least: int
    found: list[I64] = field(default_factory=list)
    flat: bool = field(kw_only=True)

    def rest_of_array(self, data: memoryview, at: int, end: int, left: int) -> tuple[I64, int]:
        """The starts of the remaining items, and the position after the array."""
        self.found = []
        while True:
            at = self._block(data, at, end, left)
            start = at
            left, at = read_block_count(data, at, end)
            if left == 0:
                return np.concatenate([np.zeros(0, np.int64), *self.found]), at
            if self.least == 0:
                _spend_empty(self.source, left, start)
                self.found.append(np.full(left, at, np.int64))
                left = 0
            elif left > (end - at) // self.least:
                raise BadValue(start, "no more items than bytes are left", left)

    def _block(self, data: memoryview, at: int, end: int, left: int) -> int:
        """Walk `left` items, many small ones as a run, the others one by one."""
        worth = self.flat and left >= _RUN_ITEMS
        while left:
            begin, few = at, min(left, _SAMPLE_ITEMS) if worth else left
            at = self._one_by_one(data, at, end, few)
            left -= few
            if left and worth:
                finder = RunFinder(self.node, self.source, end, skip=skip)
                run = finder.find(at, left, (at - begin) / few)
                self.found.append(run.starts)
                at, left, worth = run.after, left - len(run.starts), run.worth_more
        return at

    def _one_by_one(self, data: memoryview, at: int, end: int, count: int) -> int:
        singles = []
        for _ in range(count):
            singles.append(at)
            at = self.step(data, at, end)
        self.found.append(np.array(singles, np.int64))
        return at
