"""Regions of the time zone database, from its compiled files (RFC 8536).

    header (44 bytes: magic, version, six counts), 32-bit data
    header, the same as 64-bit data: changes, the kind of time after each, the kinds (offset, ..)
    line feed, the rule for all time after the last change as POSIX spells it, line feed

Such a rule repeats itself with the calendar, every 400 years, so 400 years of it are enough for all
that come. Arrow's kernels stop at the last change that a file lists: 2037, in small files 2007.
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

from lakedex.errors import InvalidInput
from lakedex.expr.temporal.civil import civil_from_days, days_from_civil

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


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The offsets of a region from UTC, and when they change; all in seconds."""

    changes: np.ndarray
    """Since 1970-01-01 00:00 UTC, in order."""
    offsets: np.ndarray
    """Before the first change, then after each."""
    repeats_from: int | None
    """From here on, in UTC and by the clock, all is as 400 years before; None for one offset."""

    def at_instants(self, seconds: np.ndarray) -> np.ndarray:
        """The offset at each instant."""
        return self._offset(self.changes, seconds)

    def at_local(self, seconds: np.ndarray) -> np.ndarray:
        """The offset at each wall-clock time: in a gap, and in an overlap, that of before."""
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
    """The region of a name.

    Example:
        >>> region("Europe/Berlin").at_instants(np.array([0, 2_540_000_000, 253_380_000_000]))
        array([3600, 7200, 7200])

    Raises:
        InvalidInput: There is none of that name, or its file cannot be read.
    """
    try:
        return _read(_bytes_of(name))
    except (KeyError, ValueError, OSError, ImportError, struct.error, IndexError) as error:
        raise InvalidInput(f"time zone {name!r} cannot be used: {error}") from error


def _bytes_of(name: str) -> bytes:
    """The file of a region, found where Python's own `zoneinfo` finds it."""
    # It refuses names that lead out of the database.
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
        raise ValueError("a file of the first version, which knows no time after 2038")
    start = _HEADER.size + _size_of_data(counts, 4)
    _, counts = _header(content, start)
    _, _, leap_count, change_count, kind_count, _ = counts
    if leap_count:
        raise ValueError("its clock counts leap seconds")
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
        raise ValueError("not a file of the time zone database")
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
    """What a file lists, and 400 years of what comes after."""
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule!r} is no rule of POSIX")
    usual = -_seconds(found["usual"])
    if found["first"] is None:
        if offsets[-1] != usual:
            raise ValueError(f"{rule!r} does not go on from the last change")
        return Region(changes, offsets, None)
    other = usual + 3600 if found["other"] is None else -_seconds(found["other"])
    newest = int(changes[-1]) if len(changes) else 0
    (year,), _, _ = civil_from_days(np.array([newest // DAY]))
    years = np.arange(year, year + _CYCLE_YEARS + 3)
    begins = _days(found["first"], years) * DAY + _seconds(found["first_time"] or _TWO_O_CLOCK)
    ends = _days(found["last"], years) * DAY + _seconds(found["last_time"] or _TWO_O_CLOCK)
    # Where one time ends as the next begins, it is the next that counts.
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
    """The day on which a rule says that offsets change, in each year."""
    found = _DAY_OF_RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no day of a rule")
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
