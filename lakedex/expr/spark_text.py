"""Conversion of text to values and back, by the rules of Spark 3.5's CAST without ANSI mode.

Every parser returns None if Spark's cast returns null. Years outside 1 to 9999 are rejected with
`InvalidInput`, because Python's dates cannot represent them and null would be wrong.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakedex.errors import InvalidInput

_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T](?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?)?(.*))?)?)?",
    re.DOTALL,
)
_TIME_ONLY = re.compile(r"T?[0-9]{1,2}:[0-9]{1,2}.*", re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2}))?(?::?([0-9]{2}))?")
_WHOLE = re.compile(r"([+-]?)([0-9]+)?(?:\.[0-9]*)?")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_SPECIAL = {"inf": "inf", "infinity": "inf", "nan": "nan"}
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}


def time_zone_of(name: str) -> tzinfo | None:
    """The time zone of an identifier or an offset such as `+05:30`; None if there is none.

    Example:
        >>> time_zone_of("+05:30"), time_zone_of("Nowhere/Land")
        (datetime.timezone(datetime.timedelta(seconds=19800)), None)
    """
    text = name.strip()
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        if hours > 18 or minutes > 59 or seconds > 59:
            return None
        delta = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-delta if offset[1] == "-" else delta)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def parse_whole(text: str, bits: int) -> int | None:
    """Parse a signed integer of `bits` bits; a fraction is truncated, as in Spark.

    Example:
        >>> parse_whole(" 5.7 ", 32), parse_whole("3000000000", 32), parse_whole("x", 32)
        (5, None, None)
    """
    found = _WHOLE.fullmatch(text.strip(_BLANKS))
    if found is None or (found[2] is None and "." not in found[0]):
        return None
    digits = (found[2] or "0").lstrip("0") or "0"
    if len(digits) > 20:
        return None
    value = int(found[1] + digits)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def parse_float(text: str) -> float | None:
    """Parse a double."""
    trimmed = text.strip(_BLANKS)
    found = _FLOAT.fullmatch(trimmed)
    if found is not None:
        return float(found[1])
    sign = "-" if trimmed.startswith("-") else ""
    special = _SPECIAL.get(trimmed.lower().lstrip("+-") if len(trimmed) > 2 else "")
    if special is None or trimmed[1:2] in ("+", "-") or (special == "nan" and trimmed[0] in "+-"):
        return None
    return float(sign + special)


def parse_bool(text: str) -> bool | None:
    """Parse a boolean."""
    word = text.strip(_BLANKS).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_date(text: str) -> date | None:
    """Parse a date; text after the day and a blank or a T is ignored.

    Example:
        >>> parse_date("2024-2-29 noon"), parse_date("2023-02-29")
        (datetime.date(2024, 2, 29), None)
    """
    found = _DATE.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    year, month, day = _year(found, text), int(found[3] or 1), int(found[4] or 1)
    try:
        return date(year, month, day)
    except ValueError:
        return None


def parse_timestamp(text: str, time_zone: str) -> datetime | None:
    """Parse an instant in UTC; text without a time zone is in `time_zone`."""
    parsed = _parse_parts(text)
    if parsed is None:
        return None
    local, zone_text = parsed
    zone = time_zone_of(zone_text or time_zone)
    if zone is None:
        return None
    try:
        return local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise _out_of_range(text) from None


def parse_timestamp_ntz(text: str) -> datetime | None:
    """Parse a timestamp without time zone; a time zone in the text is checked and dropped."""
    parsed = _parse_parts(text)
    if parsed is None or (parsed[1] and time_zone_of(parsed[1]) is None):
        return None
    return parsed[0]


def text_of(value: object, time_zone: str) -> str | None:
    """The result of Spark's cast to string; None for types whose text is not portable.

    Example:
        >>> text_of(True, "UTC"), text_of(datetime(2024, 1, 2, 3, 4, 5, 600000), "UTC")
        ('true', '2024-01-02 03:04:05.6')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | Decimal():
            return str(value)
        case datetime():
            zone = time_zone_of(time_zone)
            local = value if value.tzinfo is None else value.astimezone(zone)
            text = f"{local.year:04d}-{local:%m-%d %H:%M:%S}.{local.microsecond:06d}"
            return text.rstrip("0").rstrip(".") if local.microsecond else text[:19]
        case date():
            return value.isoformat()
        case _:
            return None


def _parse_parts(text: str) -> tuple[datetime, str] | None:
    trimmed = text.strip(_BLANKS)
    found = _TIMESTAMP.fullmatch(trimmed)
    if found is None:
        if _TIME_ONLY.fullmatch(trimmed):
            raise InvalidInput(f"'{text}' has a time but no date; write both")
        return None
    zone = (found[9] or "").strip(_BLANKS)
    if zone and found[6] is None:
        return None
    micros = int((found[8] or "").ljust(6, "0")[:6])
    month, day = int(found[3] or 1), int(found[4] or 1)
    hour, minute, second = (int(found[group] or 0) for group in (5, 6, 7))
    try:
        return datetime(_year(found, text), month, day, hour, minute, second, micros), zone
    except ValueError:
        return None


def _year(found: re.Match[str], text: str) -> int:
    year = int(found[1] + found[2])
    if not 1 <= year <= 9999:
        raise _out_of_range(text)
    return year


def _out_of_range(text: str) -> InvalidInput:
    return InvalidInput(f"'{text}' is outside the years 1 to 9999")
