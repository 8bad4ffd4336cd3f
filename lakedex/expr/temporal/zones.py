"""Session time zones: conversion of instants to wall-clock time and back, in microseconds.

Time zones with a fixed offset (`UTC`, `+02:00`) are computed; regions use the time zone database.
The conversion from wall-clock time follows Java's rules: in an overlap the earlier instant, in a
gap the instant by the offset before the gap.

Regions are read from the compiled files of the database (RFC 8536):

    header (44 bytes: magic, version, six counts), 32-bit data
    header, the same as 64-bit data: changes, the kind of time after each, the kinds (offset, ..)
    line feed, the rule for all time after the last change in POSIX notation, line feed

Such a rule repeats with the calendar, every 400 years, so 400 years of it cover all later years.
Arrow's kernels stop at the last change that a file lists: 2037, or 2007 in small files.

The proleptic Gregorian calendar is computed with numpy (`civil_from_days`, `days_from_civil`): it
covers all years of Spark's microsecond timestamps (five digits and more, also negative), which
Arrow's own calendar kernels do not.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.arrays import MICROS_PER_DAY, MICROS_PER_SECOND, numpy_values, valid_mask

_DAYS_PER_ERA = 146_097
_DAYS_FROM_ERA_START = 719_468


def civil_from_days(days: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Year, month and day of month of each day number.

    Example:
        >>> [part.tolist() for part in civil_from_days(np.array([-1, 0]))]
        [[1969, 1970], [12, 1], [31, 1]]
    """
    shifted = days.astype(np.int64) + _DAYS_FROM_ERA_START
    era = shifted // _DAYS_PER_ERA
    day_of_era = shifted - era * _DAYS_PER_ERA
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = np.where(shifted_month < 10, shifted_month + 3, shifted_month - 9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def days_from_civil(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """The day number of each date; months must be 1 to 12, days may overflow.

    Example:
        >>> days_from_civil(np.array([1969]), np.array([12]), np.array([31])).tolist()
        [-1]
    """
    shifted_year = year.astype(np.int64) - (month <= 2)
    era = shifted_year // 400
    year_of_era = shifted_year - era * 400
    day_of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days: np.ndarray = era * _DAYS_PER_ERA + day_of_era - _DAYS_FROM_ERA_START
    return days


def month_length(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """The number of days of each month.

    Example:
        >>> month_length(np.array([2000, 1900]), np.array([2, 2])).tolist()
        [29, 28]
    """
    december = month == 12
    following = days_from_civil(
        year + december, np.where(december, 1, month + 1), np.ones_like(month)
    )
    return following - days_from_civil(year, month, np.ones_like(month))


DAY = 86_400
_CYCLE_YEARS = 400
_CYCLE = 146_097 * DAY
_HEADER = struct.Struct(">4sc15x6I")
_KIND = 6
_NAME = r"(?:<[^>]+>|[A-Za-z]{3,})"
_TIME = r"[+-]?\d{1,3}(?::\d{2}){0,2}"
_RULE = re.compile(
    rf"{_NAME}(?P<usual>{_TIME})(?:{_NAME}(?P<other>{_TIME})?"
    rf",(?P<first>[^,/]+)(?:/(?P<first_time>{_TIME}))?"
    rf",(?P<last>[^,/]+)(?:/(?P<last_time>{_TIME}))?)?"
)
_DAY_OF_RULE = re.compile(r"M(\d{1,2})\.([1-5])\.([0-6])|(J?)(\d{1,3})")
_TWO_O_CLOCK = "2"
_UTC_NAMES = frozenset({"UTC", "GMT", "Z", "UT", "Etc/UTC", "Etc/GMT", "Zulu", "Etc/Zulu"})
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
LARGEST_SHIFT = 25 * 3600 * MICROS_PER_SECOND
"""No region has set its clocks back by more than this, including changes of the date line."""
_STEPS = np.arange(0, LARGEST_SHIFT + 1, 3600 * MICROS_PER_SECOND, dtype=np.int64)
_FAR = 2**62
_MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MILLIS_PER_DAY = 86_400_000
ZONED = pa.timestamp("us", "UTC")
"""Spark's TIMESTAMP: an instant."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The offsets of a region from UTC, and when they change; all in seconds."""

    changes: np.ndarray
    """The times of the changes since 1970-01-01 00:00 UTC, in order."""
    offsets: np.ndarray
    """The offset before the first change, then the offset after each change."""
    repeats_from: int | None
    """From here on (in UTC, in local time) all repeats after 400 years; None for one offset."""

    def at_instants(self, seconds: np.ndarray) -> np.ndarray:
        """The offset at each instant."""
        return self._offset(self.changes, seconds)

    def at_local(self, seconds: np.ndarray) -> np.ndarray:
        """The offset at each wall-clock time; in a gap or an overlap, the offset before it."""
        later = np.maximum(self.offsets[:-1], self.offsets[1:])
        return self._offset(self.changes + later, seconds)

    def _offset(self, starts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        if self.repeats_from is not None:
            since = seconds - self.repeats_from
            seconds = np.where(since < 0, seconds, self.repeats_from + since % _CYCLE)
        found: np.ndarray = self.offsets[np.searchsorted(starts, seconds, side="right")]
        return found


@lru_cache(maxsize=1024)
def region(name: str) -> Region:
    """Load the region of a name.

    Example:
        >>> region("Europe/Berlin").at_instants(np.array([0, 2_540_000_000, 253_380_000_000]))
        array([3600, 7200, 7200])

    Raises:
        InvalidInput: There is no region of that name, or its file cannot be read.
    """
    try:
        return _read(_bytes_of(name))
    except (KeyError, ValueError, OSError, ImportError, struct.error, IndexError) as error:
        raise InvalidInput(f"time zone {name!r} cannot be used: {error}") from error


def _bytes_of(name: str) -> bytes:
    """Read the file of a region, from the location that Python's `zoneinfo` uses."""
    # `zoneinfo` rejects names that lead out of the database.
    ZoneInfo(name)
    for folder in TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    folder_name, _, file_name = f"tzdata/zoneinfo/{name}".rpartition("/")
    return (resources.files(folder_name.replace("/", ".")) / file_name).read_bytes()


def _read(content: bytes) -> Region:
    version, counts = _header(content, 0)
    if version < b"2":
        raise ValueError("a file of the first version, which has no times after 2038")
    start = _HEADER.size + _size_of_data(counts, 4)
    _, counts = _header(content, start)
    _, _, leap_count, change_count, kind_count, _ = counts
    if leap_count:
        raise ValueError("it counts leap seconds")
    if not kind_count:
        raise ValueError("it has no offsets")
    place = start + _HEADER.size
    changes = np.frombuffer(content, ">i8", change_count, place).astype(np.int64)
    place += 8 * change_count
    chosen = np.frombuffer(content, np.uint8, change_count, place)
    place += change_count
    kinds = np.frombuffer(content, np.uint8, kind_count * _KIND, place).reshape(-1, _KIND)
    by_kind = kinds[:, :4].copy().view(">i4").ravel().astype(np.int64)
    end = start + _HEADER.size + _size_of_data(counts, 8)
    footer = content[end:].decode("ascii").strip("\n")
    return _with_rule(changes, by_kind[np.concatenate([np.zeros(1, np.uint8), chosen])], footer)


def _header(content: bytes, start: int) -> tuple[bytes, tuple[int, ...]]:
    magic, version, *counts = _HEADER.unpack_from(content, start)
    if magic != b"TZif":
        raise ValueError("its file is not in the format of the time zone database")
    return version, tuple(counts)


def _size_of_data(counts: tuple[int, ...], time_size: int) -> int:
    utc_count, standard_count, leap_count, change_count, kind_count, character_count = counts
    return (
        change_count * (time_size + 1)
        + kind_count * _KIND
        + character_count
        + leap_count * (time_size + 4)
        + standard_count
        + utc_count
    )


def _with_rule(changes: np.ndarray, offsets: np.ndarray, rule: str) -> Region:
    """The changes that a file lists, and 400 years of its rule."""
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule!r} is not a POSIX rule")
    usual = -_seconds(found["usual"])
    if found["first"] is None:
        if offsets[-1] != usual:
            raise ValueError(f"{rule!r} does not continue from the last change")
        return Region(changes, offsets, None)
    other = usual + 3600 if found["other"] is None else -_seconds(found["other"])
    newest = int(changes[-1]) if len(changes) else 0
    (year,), _, _ = civil_from_days(np.array([newest // DAY]))
    years = np.arange(year, year + _CYCLE_YEARS + 3)
    begins = _days(found["first"], years) * DAY + _seconds(found["first_time"] or _TWO_O_CLOCK)
    ends = _days(found["last"], years) * DAY + _seconds(found["last_time"] or _TWO_O_CLOCK)
    # If one period ends when the next begins, the next one counts.
    times = np.concatenate([ends - other, begins - usual])
    after = np.repeat([usual, other], len(years))
    order = np.argsort(times, kind="stable")
    order = order[times[order] > newest] if len(changes) else order
    (first,) = days_from_civil(*(np.array([part]) for part in (year + 1, 1, 3)))
    return Region(
        np.concatenate([changes, times[order]]),
        np.concatenate([offsets, after[order]]),
        int(first) * DAY,
    )


def _seconds(text: str) -> int:
    """A time of day or an offset, such as `2`, `-1` or `+5:30`."""
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * 60**power for part, power in zip(parts, (2, 1, 0), strict=False))


def _days(text: str, years: np.ndarray) -> np.ndarray:
    """The day on which the offset changes by a rule, in each year."""
    found = _DAY_OF_RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a day of a rule")
    ones = np.ones_like(years)
    month, week, weekday, kind, number = found.groups()
    if month is None:
        # With a J the 29th of February is not counted.
        january = days_from_civil(years, ones, ones)
        if not kind:
            return january + int(number)
        march = days_from_civil(years, ones * 3, ones)
        of_march = int(number) - 60
        return march + of_march if of_march >= 0 else january + int(number) - 1
    start = days_from_civil(years, ones * int(month), ones)
    # The first of January 1970 was a Thursday.
    wanted = start + (int(weekday) - start - 4) % 7 + 7 * (int(week) - 1)
    following = (years + 1, ones) if int(month) == 12 else (years, ones * (int(month) + 1))
    return np.where(wanted >= days_from_civil(*following, ones), wanted - 7, wanted)


def fixed_offset(zone: str) -> int | None:
    """The offset in microseconds of a time zone with a fixed offset, else None.

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
    """Convert instants to wall-clock time, both in microseconds since 1970-01-01 00:00."""
    offset = fixed_offset(zone)
    if offset is not None:
        return instants + offset
    offsets = region(zone).at_instants(instants // MICROS_PER_SECOND)
    return instants + offsets * MICROS_PER_SECOND


def from_local(local: np.ndarray, zone: str) -> np.ndarray:
    """Convert wall-clock times to instants, by Java's rules for gaps and overlaps."""
    offset = fixed_offset(zone)
    if offset is not None:
        return local - offset
    offsets = region(zone).at_local(local // MICROS_PER_SECOND)
    return local - offsets * MICROS_PER_SECOND


def offset_changes(zone: str, start: int, end: int) -> list[tuple[int, int]]:
    """The offset of a time zone at `start`, and every change up to `end` with its new offset.

    All values are in seconds; changes beyond the next few centuries are omitted.

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
    """An instant whose wall-clock time no later instant precedes (for -1: no earlier one follows).

    It is the instant itself, unless clocks go back near it. Changes of a region are hours apart, so
    one check per hour finds every change; changes after `LARGEST_SHIFT` do not matter.

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
    # Clocks may also have changed in between.
    local = int(to_local(np.array([moved]), zone)[0])
    is_clear = (instant + int(offsets[0]) - inwards * back - local) * inwards >= 0
    return moved if is_clear else farthest


@dataclass(frozen=True, slots=True)
class LocalTime:
    """Wall-clock times: microseconds since 1970-01-01 00:00, and the rows that have one."""

    micros: np.ndarray
    valid: np.ndarray

    @property
    def days(self) -> np.ndarray:
        """The day numbers."""
        days: np.ndarray = self.micros // MICROS_PER_DAY
        return days

    @property
    def micros_of_day(self) -> np.ndarray:
        """Microseconds since midnight."""
        rest: np.ndarray = self.micros - self.days * MICROS_PER_DAY
        return rest

    def civil(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Year, month and day of month."""
        return civil_from_days(self.days)

    def day_of_year(self) -> np.ndarray:
        """1 for the first of January."""
        year, _, _ = self.civil()
        first = np.ones_like(year)
        return self.days - days_from_civil(year, first, first) + 1


def timestamp_micros(array: pa.Array) -> np.ndarray:
    """Timestamps of any unit as microseconds, rounded down."""
    values = numpy_values(array).astype(np.int64)
    if array.type.unit == "ns":
        micros: np.ndarray = values // 1_000
        return micros
    return values * _MICROS_PER_UNIT[array.type.unit]


def date_days(array: pa.Array) -> np.ndarray:
    """Dates of either Arrow type as day numbers."""
    values = numpy_values(array).astype(np.int64)
    if pa.types.is_date64(array.type):
        days: np.ndarray = values // _MILLIS_PER_DAY
        return days
    return values


def local_time(array: pa.Array, zone: str) -> LocalTime:
    """The wall-clock time of dates (midnight), and of unzoned and zoned timestamps in `zone`.

    Example:
        >>> local_time(pa.array([0], pa.timestamp("s", "UTC")), "+01:00").micros.tolist()
        [3600000000]
    """
    valid = valid_mask(array)
    if pa.types.is_date(array.type):
        return LocalTime(date_days(array) * MICROS_PER_DAY, valid)
    if not pa.types.is_timestamp(array.type):
        raise InvalidInput(f"expected a date or timestamp, not {array.type}")
    micros = timestamp_micros(array)
    return LocalTime(micros if array.type.tz is None else to_local(micros, zone), valid)
