"""Move lanes over Avro values without building anything, and find the items of arrays.

An array or map is a row of blocks, each a count and that many items; a negative count is followed
by the block's size in bytes; count 0 ends it. Lanes step through items together while that keeps
them busy. What is left, a few records with long arrays, is walked record by record: long blocks of
flat items by `runs`, the rest by `scalar`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lakedex.errors import CorruptFile
from lakedex.format.avro.lanes import I64, Lanes, Mask, Source
from lakedex.format.avro.runs import RunFinder
from lakedex.format.avro.scalar import (
    BadValue,
    Skipper,
    is_flat,
    least_bytes,
    read_block_count,
    skipper,
)
from lakedex.schema.avro_type import (
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

_LOCKSTEP_ROUNDS = 24
_BUSY_LANES = 256
_FEW_LANES = 24
_RUN_ITEMS = 8192
_SAMPLE_ITEMS = 32
_WIDTHS = {PrimitiveKind.FLOAT: 4, PrimitiveKind.DOUBLE: 8}


def skip(node: AvroType, lanes: Lanes) -> None:
    """Move every lane over one value of the type."""
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
    """What one item of an array or map is on the wire: a map entry is a record of two."""
    if isinstance(node, AvroArray):
        return node.items
    key = AvroField("key", AvroPrimitive(PrimitiveKind.STRING))
    return AvroRecord("entry", "", (key, AvroField("value", node.values)))


def read_index(lanes: Lanes, count: int, what: str) -> I64:
    """A number that picks one of `count` things."""
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
    """Where the items of each lane's array begin, lane after lane, and how many each lane has."""
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
    """The items found so far, in pieces: which lane, its how-many-eth item, where it begins."""

    node: AvroType
    lanes: Lanes
    least: int = 0
    totals: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    pieces: list[tuple[I64, I64, I64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.least = least_bytes(self.node)
        self.totals = np.zeros(len(self.lanes), np.int64)

    def lockstep(self) -> None:
        """Read blocks and items of all lanes together as long as that pays."""
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
        """Items without bytes all begin where their block begins."""
        total = int(np.minimum(counts, self.lanes.source.empty_items_left + 1).sum())
        _spend_empty(self.lanes.source, total, int(self.lanes.cur[index[0]]))
        ordinal = _ranges(self.totals[index], counts)
        self.pieces.append(
            (np.repeat(index, counts), ordinal, np.repeat(self.lanes.cur[index], counts))
        )
        self.totals[index] += counts

    def _step(self, active: I64) -> None:
        """One item of every active lane."""
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
        """All beginnings in the order of lanes and items."""
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
    """first[i], first[i] + 1, ... counts[i] of them, for every i in turn."""
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
        """The beginnings of the items to come, and the position after the array."""
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
        """Walk `left` items; many small ones in a run, the others one by one."""
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
