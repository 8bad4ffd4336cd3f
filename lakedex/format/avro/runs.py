"""Find the items of one long array from many places at once.

Items have no marks between them, so where one begins is only known from the one before. Yet a
walk that starts at a wrong byte soon breaks a rule or falls into step with the right one. So the
array is cut into segments, in each the place where most walks from its first bytes meet is taken
as a guess, and then all segments are walked in lockstep. A segment counts only if the walk of
the one before it ended exactly at its guess; the first walk is right by itself. A bad guess costs
time, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lakedex.format.avro.lanes import I64, Lanes, Mask, Source
from lakedex.schema.avro_type import AvroType

Skip: TypeAlias = Callable[[AvroType, Lanes], None]

_ITEMS_A_SEGMENT = 64
_MOST_ROUNDS = 8 * _ITEMS_A_SEGMENT
_FEWEST_SEGMENTS = 32
_MOST_SEGMENTS = 1024
_MOST_GUESSES = 1 << 17
_MEETING_STEPS = 4


@dataclass(frozen=True, slots=True)
class Run:
    """Items found in a row, the position after them, and whether looking further is worth it."""

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
        """Up to `count` items from `at` on; `item_bytes` is about what one takes."""
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
        """For most segments but the first, a position where an item probably begins."""
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
        """Lanes that drop out, and do not raise, where there is no item."""
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
