"""Instant times: `yyyyMMddHHmmssSSS` in the zone of the table's timeline.

Old tables have 14 digits (seconds). Such a time stands for the end of its second, so `999` is
added before it is compared. Version 6 metadata tables add suffixes (`...001`, `...010`) to 17
digits: a longer time comes after its own prefix and before the next millisecond, which is the
order of strings. The metadata table's first instants are small numbers with leading zeros.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from lakedex.config.table_config import TimelineZone
from lakedex.errors import InvalidInput

SECONDS_DIGITS = 14
MILLIS_DIGITS = 17
_END_OF_SECOND = "999"
_FORMAT = "%Y%m%d%H%M%S"
_DIGITS = re.compile(r"[0-9]{14}|[0-9]{17,26}")
QueryTime: TypeAlias = str | date
"""A time that a user gives: text, a `datetime`, or a `date` for its first millisecond."""
_BEGINNING = re.compile(r"[0-9]{8}|[0-9]{10}|[0-9]{12}")
_DATE_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)


def instant_key(time: str) -> str:
    """The form of an instant time in which plain string order is time order.

    Example:
        >>> instant_key("20261115183005"), instant_key("20261115183539394001")
        ('20261115183005999', '20261115183539394001')
    """
    return f"{time}{_END_OF_SECOND}" if len(time) == SECONDS_DIGITS else time


def is_instant_time(text: str) -> bool:
    """Whether the text is digits only, and as many as an instant time may have."""
    return _DIGITS.fullmatch(text) is not None


def to_epoch_ms(time: str, zone: TimelineZone) -> int:
    """Milliseconds since 1970 of an instant time; suffixes beyond milliseconds are dropped.

    Example:
        >>> to_epoch_ms("20261115183005287", TimelineZone.UTC)
        1794767405287
        >>> to_epoch_ms("00000000000000010", TimelineZone.UTC)
        10

    Raises:
        InvalidInput: the text is not an instant time.
    """
    if not is_instant_time(time):
        raise InvalidInput(f"{time[:80]!r} is not an instant time")
    digits = instant_key(time)[:MILLIS_DIGITS]
    moment = _parse(digits)
    if moment is None:
        return int(digits)
    try:
        placed = moment.replace(tzinfo=UTC) if zone is TimelineZone.UTC else moment.astimezone()
        whole = placed.replace(microsecond=0).timestamp()
    except (OverflowError, OSError, ValueError):
        raise InvalidInput(f"{time!r} is not a time that this machine can place") from None
    return int(whole) * 1000 + moment.microsecond // 1000


def from_epoch_ms(epoch_ms: int, zone: TimelineZone) -> str:
    """The 17-digit instant time of a moment.

    Example:
        >>> from_epoch_ms(1794767405287, TimelineZone.UTC)
        '20261115183005287'
    """
    seconds, millis = divmod(epoch_ms, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
        placed = moment if zone is TimelineZone.UTC else moment.astimezone()
    except (OverflowError, OSError, ValueError):
        raise InvalidInput(f"{epoch_ms} ms is not a moment that can be written") from None
    return f"{_digits(placed)}{millis:03d}"


def next_instant_time(time: str) -> str:
    """The instant time one millisecond after this one.

    Example:
        >>> next_instant_time("20261231235959999")
        '20270101000000000'
    """
    digits = instant_key(time)[:MILLIS_DIGITS]
    moment = _parse(digits)
    try:
        later = None if moment is None else moment + timedelta(milliseconds=1)
    except OverflowError:
        raise InvalidInput(f"there is no instant time after {time}") from None
    if later is None:
        return f"{int(digits) + 1:017d}"
    return f"{_digits(later)}{later.microsecond // 1000:03d}"


def query_time_text(time: QueryTime) -> str:
    """A time in the text form that `parse_query_time` and Hudi's read options take.

    A `datetime` is one moment, down to its millisecond; without a zone it is in the timeline's.

    Example:
        >>> query_time_text(datetime(2026, 11, 15, 18, 30, 5, 287_654, tzinfo=UTC))
        '2026-11-15 18:30:05.287+00:00'
        >>> query_time_text(date(2026, 11, 15))
        '2026-11-15'

    Raises:
        InvalidInput: The value is neither text nor a date or datetime.
    """
    if isinstance(time, datetime):
        return time.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(time, date):
        return time.isoformat()
    if not isinstance(time, str):
        raise InvalidInput(
            f"{time!r} is not a time; give a datetime, a date, an instant time or text such as "
            "'2026-11-15 18:30:05'"
        )
    return time


def parse_query_time(time: QueryTime, zone: TimelineZone) -> str:
    """The instant time that a user means.

    Takes a `datetime` or a `date`, instant times, `2026-11-15`, `2026-11-15 18:30:05`,
    `2026-11-15 18:30:05.287`, with `T` for the blank, and with a zone after the time. A time
    without a zone is in the timeline's zone. As in Hudi a date is its first millisecond, and text
    that gives a second without milliseconds is its last. The first digits of an instant time,
    down to the day, the hour or the minute, are the first millisecond of that too.

    Example:
        >>> parse_query_time("202611151830", TimelineZone.UTC)
        '20261115183000000'
        >>> parse_query_time("2026-11-15 18:30:05", TimelineZone.UTC)
        '20261115183005999'
        >>> parse_query_time("2026-11-15T20:30:05.287+02:00", TimelineZone.UTC)
        '20261115183005287'

    Raises:
        InvalidInput: the text is none of these.
    """
    text = query_time_text(time)
    stripped = text.strip()
    if is_instant_time(stripped):
        return instant_key(stripped)
    if _BEGINNING.fullmatch(stripped) and _parse(stripped.ljust(MILLIS_DIGITS, "0")) is not None:
        return stripped.ljust(MILLIS_DIGITS, "0")
    match = _DATE_TIME.fullmatch(stripped)
    if match is None:
        raise InvalidInput(
            f"{text[:80]!r} is not a time; write yyyy-MM-dd[ HH:mm:ss[.SSS]] or an instant time"
        )
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
        if offset is not None:
            moment = _in_zone(moment, offset, zone)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"{text!r} is not a day and time of the calendar") from None
    if hour is None:
        return f"{_digits(moment)}000"
    return _digits(moment) + (_END_OF_SECOND if fraction is None else fraction[:3].ljust(3, "0"))


def _in_zone(moment: datetime, offset: str, zone: TimelineZone) -> datetime:
    """A moment with an explicit offset, moved to the timeline's zone."""
    placed = datetime.fromisoformat(f"{moment.isoformat()}{offset}")
    return placed.astimezone(UTC if zone is TimelineZone.UTC else None)


def _parse(digits: str) -> datetime | None:
    """The moment of 17 digits, without a zone; `None` when they are no calendar time."""
    try:
        moment = datetime.strptime(digits[:SECONDS_DIGITS], _FORMAT)
    except ValueError:
        return None
    return moment.replace(microsecond=int(digits[SECONDS_DIGITS:]) * 1000)


def _digits(moment: datetime) -> str:
    """`yyyyMMddHHmmss`; strftime does not pad years before 1000 on every platform."""
    return f"{moment.year:04d}{moment:%m%d%H%M%S}"
