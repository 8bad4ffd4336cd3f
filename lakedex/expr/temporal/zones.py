"""Session time zones: instants to wall-clock time and back, in microseconds.

Zones of a fixed offset (`UTC`, `+02:00`) are arithmetic; regions go through the time zone
database. Back from wall-clock time Java's rules hold: in an overlap the earlier instant, in a
gap the instant that the offset before the gap gives.
"""

from __future__ import annotations

import re

import numpy as np

from lakedex.expr.arrays import MICROS_PER_SECOND
from lakedex.expr.temporal.zone_file import region

_UTC_NAMES = frozenset({"UTC", "GMT", "Z", "UT", "Etc/UTC", "Etc/GMT", "Zulu", "Etc/Zulu"})
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")

LARGEST_SHIFT = 25 * 3600 * MICROS_PER_SECOND
"""No region ever set its clocks back by more than this, changes of the date line included."""

_STEPS = np.arange(0, LARGEST_SHIFT + 1, 3600 * MICROS_PER_SECOND, dtype=np.int64)
_FAR = 2**62


def fixed_offset(zone: str) -> int | None:
    """The offset in microseconds of a zone that has one for ever, else None.

    Example:
        >>> fixed_offset("UTC"), fixed_offset("-01:30"), fixed_offset("Europe/Berlin")
        (0, -5400000000, None)
    """
    if zone in _UTC_NAMES:
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    sign, hours, minutes, seconds = found.groups()
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return (-total if sign == "-" else total) * MICROS_PER_SECOND


def to_local(instants: np.ndarray, zone: str) -> np.ndarray:
    """The wall-clock time of instants, both as microseconds since 1970-01-01 00:00."""
    offset = fixed_offset(zone)
    if offset is not None:
        return instants + offset
    offsets = region(zone).at_instants(instants // MICROS_PER_SECOND)
    return instants + offsets * MICROS_PER_SECOND


def from_local(local: np.ndarray, zone: str) -> np.ndarray:
    """The instants of wall-clock times, by Java's rules for gaps and overlaps."""
    offset = fixed_offset(zone)
    if offset is not None:
        return local - offset
    offsets = region(zone).at_local(local // MICROS_PER_SECOND)
    return local - offsets * MICROS_PER_SECOND


def offset_changes(zone: str, start: int, end: int) -> list[tuple[int, int]]:
    """The offset of a zone at a time, and every change up to another: when, and what it is then.

    All in seconds; changes beyond the next few centuries are not told.

    Example:
        >>> offset_changes("Asia/Kolkata", -8 * 10**8, 0), offset_changes("+01:00", 0, 1)
        ([(-800000000, 23400), (-764145000, 19800)], [(0, 3600)])
    """
    offset = fixed_offset(zone)
    if offset is not None:
        return [(start, offset // MICROS_PER_SECOND)]
    there = region(zone)
    found = [(start, int(there.at_instants(np.array([start]))[0]))]
    for when, after in zip(there.changes.tolist(), there.offsets.tolist()[1:], strict=True):
        if start < when < end and after != found[-1][1]:
            found.append((when, after))
    return found


def clear_of_changes(instant: int, zone: str, inwards: int) -> int:
    """A moment whose wall clock no later moment (no earlier one, for -1) comes before (after).

    The instant itself, unless clocks go back near it. Regions change their clocks with hours in
    between, so looking once an hour finds every change; after `LARGEST_SHIFT` none can matter.

    Example:
        >>> new_year, november = 1_640_995_200_000_000, 1_667_700_000_000_000
        >>> [when - clear_of_changes(when, "America/New_York", 1) for when in (new_year, november)]
        [0, 3600000000]
    """
    farthest = instant - inwards * LARGEST_SHIFT
    if fixed_offset(zone) is not None:
        return instant
    if abs(instant) > _FAR:
        return farthest
    instants = instant + inwards * _STEPS
    offsets = to_local(instants, zone) - instants
    back = int(((offsets[0] - offsets) * inwards).max())
    moved = instant - inwards * back
    # Clocks may have changed on the way, too.
    local = int(to_local(np.array([moved]), zone)[0])
    is_clear = (instant + int(offsets[0]) - inwards * back - local) * inwards >= 0
    return moved if is_clear else farthest
